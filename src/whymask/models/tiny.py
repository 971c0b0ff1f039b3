"""The small multimodal models that ship with the package: trained on scenes whose truth is known (docs/scenes.md)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from whymask.models.llava import load as load_llava
from whymask.models.mllm import Mllm
from whymask.models.packages import required
from whymask.models.qwen2_5_vl import load as load_qwen

CHECKPOINTS = Path(__file__).parent.parent / "checkpoints"
LOADERS: dict[str, Callable[..., Mllm]] = {
    "tiny-qwen": load_qwen,
    "tiny-llava": load_llava,
    "tiny-caption": load_qwen,
}


def load(name: str, *, device: str = "cpu", dtype: str = "fp32", compile: bool | None = False) -> Mllm:
    """Load a small model by the code of the large ones; it is too small to gain from half precision or compiling."""
    transformers = required("transformers", f"{name} needs transformers: pip install 'whymask[hf]'.")
    with _without_bars(transformers.utils.logging):
        model = LOADERS[name](str(CHECKPOINTS / name), device=device, dtype=dtype, compile=compile)
    model.name = model.dialogue.name = name
    return model


@contextmanager
def _without_bars(logging: Any) -> Iterator[None]:
    """No progress bars of transformers: what takes a moment needs none."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
