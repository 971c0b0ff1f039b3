"""What the families of transformers share: how checkpoints are loaded, and models and processors identified."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from logging import ERROR
from pathlib import Path
from socket import create_connection
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import numpy as np
from PIL import Image

from whymask.errors import WhymaskError, first_line
from whymask.images.imaging import rounded
from whymask.models.batching import is_out_of_memory


def from_checkpoint(kind: Any, checkpoint: str, **options: Any) -> Any:
    """`kind.from_pretrained`, its long errors as one sentence."""
    where = None if Path(checkpoint).exists() else unreachable_hub()
    if where is not None:  # only what has been downloaded before
        options["local_files_only"] = True
    try:
        return kind.from_pretrained(checkpoint, trust_remote_code=False, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:  # before 5.19 image processors need torchvision
        reason = first_line(error)
        if missing := re.search(r"requires the (\w+) library", reason):
            needed = missing[1].lower()
            pip = "'whymask[hf]'" if needed in ("sentencepiece", "protobuf") else needed
            reason = f"it needs {needed}, which is not installed: pip install {pip}."
        if where is not None and isinstance(error, OSError):
            reason = f"{where} cannot be reached, and it has not been downloaded before; a folder can be passed too."
        raise WhymaskError(f"cannot load {checkpoint!r} with transformers: {reason}") from None


@cache
def unreachable_hub() -> str | None:
    """The hub's address where it cannot be reached, asked once; transformers itself would try for half a minute."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or getproxies():  # it is not asked, or a proxy is
        return None
    address = urlsplit(constants.ENDPOINT)
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        create_connection((address.hostname or "", port), timeout=5).close()
    except OSError:
        return constants.ENDPOINT
    return None


def model_from_checkpoint(kind: Any, checkpoint: str, **options: Any) -> Any:
    """A checkpoint's model, all of its weights loaded: transformers itself initialises missing ones at random."""
    with quiet():
        model, info = from_checkpoint(
            kind, checkpoint, output_loading_info=True, ignore_mismatched_sizes=True, **options
        )
    # Whole numbers are counters and indexes, which are computed and not learned; mask tokens are for pretraining only.
    weights = model.state_dict()
    matter = {name for name in weights if weights[name].is_floating_point() and not name.endswith("mask_token")}
    if missing := sorted(matter & set(info["missing_keys"])):
        head = not any(name.startswith(f"{model.base_model_prefix}.") for name in missing)
        lack = "has no classification head" if head and "Classification" in type(model).__name__ else "is incomplete"
        raise WhymaskError(f"{checkpoint} {lack}: the weights {_some(missing)} are missing from the checkpoint.")
    if wrong := sorted(name for name, *_ in info["mismatched_keys"]):
        raise WhymaskError(
            f"{checkpoint} does not fit its configuration: the weights {_some(wrong)} have other shapes."
        )
    return model


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@contextmanager
def reporting(model: Any, name: str, instead: str) -> Iterator[None]:
    """Report errors of a model's own code in one line, except running out of memory; see `unsupported`."""
    try:
        yield
    except WhymaskError:
        raise
    except Exception as error:  # of any kind
        if is_out_of_memory(error):
            raise
        raise unsupported(model, name, error, instead) from error


def unsupported(model: Any, name: str, reason: Exception, instead: str) -> WhymaskError:
    """The error for a model that works in another way than its families do here; it says what to do instead."""
    said = " ".join(f"{type(reason).__name__}: {reason}".split())[:200]
    family = f"models of the family {model.config.model_type!r} such as {name}"
    return WhymaskError(f"{family} cannot be explained by whymask ({said}): {instead}.")


@contextmanager
def quiet() -> Iterator[None]:
    """Hide what transformers logs below errors, such as its table of missing and unused weights."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity(ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def name_of(model: Any) -> str:
    """The name or path that a model of transformers was loaded by, else its class."""
    return model.config.name_or_path or type(model).__name__


def decodes(config: Any) -> bool:
    """Whether answers are a text of the model's decoder, which does not continue its prompt."""
    return bool(config.is_encoder_decoder) or config.model_type == "blip"  # which does not say so


def pixel_steps(processor: Any) -> Any:
    """The processor's resizing and cropping alone, from an image to pixels (H, W, 3)."""

    def steps(image: Image.Image) -> Any:
        values = processor(images=image, do_rescale=False, do_normalize=False, return_tensors="np")["pixel_values"][0]
        return rounded(np.moveaxis(np.asarray(values), 0, -1))

    return steps


def normalisation(processor: Any) -> dict[str, Any]:
    """mean and std on values 0 ... 255; a processor that does not normalise has mean 0 and std 1 on its own scale."""
    scale = 1 / processor.rescale_factor if getattr(processor, "do_rescale", True) else 1.0
    mean, std = (processor.image_mean, processor.image_std) if processor.do_normalize else ((0.0,) * 3, (1.0,) * 3)
    return {"mean": tuple(scale * m for m in mean), "std": tuple(scale * s for s in std)}


def configuration(model: Any) -> str:
    """What defines a transformers model besides its weights, such as its number of heads."""
    about = {"transformers_version", "architectures", "dtype"}

    def settings(config: dict[str, Any]) -> dict[str, Any]:
        """The settings of a configuration and of its parts."""
        return {
            name: settings(value) if isinstance(value, dict) else value
            for name, value in config.items()
            if name not in about
        }

    return json.dumps(settings(model.config.to_diff_dict()), sort_keys=True, default=str)


def tokenization(tokenizer: Any) -> list[Any]:
    """All that a tokenizer makes tokens with: its vocabulary and rules, special tokens, sides, chat template."""
    if tokenizer.is_fast:
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        rules |= {"padding": None, "truncation": None}  # those of the last call
    else:
        rules = {"vocabulary": tokenizer.get_vocab(), "files": _saved(tokenizer)}
        rules["lower case"] = getattr(tokenizer, "do_lower_case", None)
    special = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
    sides = [tokenizer.model_max_length, tokenizer.padding_side, tokenizer.truncation_side]
    return [rules, special, sides, tokenizer.chat_template]


def _saved(tokenizer: Any) -> list[str]:
    """Hashes of the files a tokenizer written in Python is saved as: merges are in no vocabulary."""
    with TemporaryDirectory() as folder:
        files = sorted(tokenizer.save_vocabulary(folder))
        return [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files]
