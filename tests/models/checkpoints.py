"""Checkpoints that something is wrong with."""

from pathlib import Path
from shutil import copytree

from safetensors.torch import load_file, save_file


def without(folder, target, *names):
    """A copy of a checkpoint folder whose file of weights lacks these."""
    return edited(folder, target, lambda name, tensor: None if name in names else tensor)


def edited(folder, target, edit):
    """A copy of a checkpoint folder with edit(name, tensor) for each tensor; None leaves it out."""
    copytree(folder, target)
    file = Path(target) / "model.safetensors"
    kept = {name: edit(name, tensor) for name, tensor in load_file(file).items()}
    save_file({name: tensor for name, tensor in kept.items() if tensor is not None}, file, {"format": "pt"})
    return Path(target)
