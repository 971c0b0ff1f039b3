"""Processors of transformers: images and prompts to a model's inputs, and how they resize an image."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from PIL import Image
from threadpoolctl import ThreadpoolController

from whymask.errors import WhymaskError
from whymask.images.imaging import WHOLE, Box, Canvas, Geometry, Resize, capped, resized, rounded
from whymask.models.dialogue import Dialogue
from whymask.models.hf import quiet
from whymask.models.layout import Inputs, Layout, alike
from whymask.models.levels import LEFT_OUT, Levels, chart, learn
from whymask.utils.digest import digest


class Processing:
    """A processor with the options of its calls, such as max_pixels.

    Args:
        processor: of transformers, for images and text.
        dialogue: how it prompts. One without a chat template learns here whether its prompts need a slot for the image.
        device: of the model. Processors that run on torchvision work there, others on the CPU.
        options: of every call.
    """

    def __init__(self, processor: Any, dialogue: Dialogue, device: torch.device, options: dict[str, Any]) -> None:
        self.processor, self.images, self.dialogue = processor, processor.image_processor, dialogue
        self.options = _in_size(options, getattr(self.images, "size", None))
        self.chats = bool(dialogue.template.chat_template)
        on_device = getattr(self.images, "backend", None) == "torchvision" and not _needs_cpu(self.images)
        self.home = device  # where images are masked
        self.device = device if on_device else torch.device("cpu")  # where they are processed
        self._in_batches: dict[bool, bool] = {}  # with prompts and without, as far as is known
        self._own: Callable[..., Any] = self.images  # the image processor, called as the processor calls it
        self._threads: ThreadPoolExecutor | None = None
        self._shown: frozenset[str] = frozenset()  # what of its output the processor returns, and masks change
        self._levels: Levels | None = None  # what threads leave to the device
        self._charted = False  # whether such a table has been looked for
        self.prompt = dialogue.render("?")  # any prompt with an image
        slot = getattr(processor, "image_token", None)
        if not self.chats and isinstance(slot, str):
            try:
                self.image(np.zeros((64, 64, 3), np.uint8))
            except Exception:  # of any kind
                dialogue.slot = slot
                self.prompt = dialogue.render("?")

    def __call__(self, images: Sequence[Any], prompts: Sequence[str] | None = None) -> dict[str, torch.Tensor]:
        """The inputs of prompts with an image each (H, W, 3), one after the other along the first dimension.

        A list in place of an image is the images of one prompt. Without prompts, what `texts` leaves out.
        """
        prompted = prompts is not None
        if not prompted and self.device.type == "cpu":
            meanwhile = self.home.type == "cuda"  # from memory that `_alone` has pinned
            parts = [made.result() for made in self.begun(images)]
            made = _joined([{name: one[name].to(self.home, non_blocking=meanwhile) for name in one} for one in parts])
            return made if self._levels is None else self._levels.values(made)
        if self._in_batches.get(prompted) and len(images) > 1:
            return self._made(images, prompts)
        alone = [self._made([image], None if prompts is None else [prompts[i]]) for i, image in enumerate(images)]
        joined = _joined(alone)
        if prompted not in self._in_batches and len(images) > 1:
            self._in_batches[prompted] = self._equals(images, prompts, joined)
        return joined

    def begun(self, images: Sequence[Any]) -> list["Future[dict[str, torch.Tensor]]"]:
        """The inputs of each image without prompts, which threads make in this order."""
        if self._threads is None:
            limits = ThreadpoolController()
            self._threads = ThreadPoolExecutor(min(16, os.cpu_count() or 1), "whymask", _single, (limits,))
        return [image if isinstance(image, Future) else self._threads.submit(self._alone, image) for image in images]

    def _alone(self, image: Any) -> dict[str, torch.Tensor]:
        """The inputs of an image without prompts, in memory that a GPU can copy from while it computes."""
        made = self._made([image], None)
        made = made if self._levels is None else self._levels.packed(made)
        return {name: part.pin_memory() for name, part in made.items()} if self.home.type == "cuda" else made

    def ahead(self, images: Iterable[Any], count: int) -> Iterator[list["Future[dict[str, torch.Tensor]]"]]:
        """The same in pieces of `count` images; threads work on the next three pieces while the caller has one."""
        begun: deque[Future[dict[str, torch.Tensor]]] = deque()
        for image in images:
            begun.extend(self.begun([image]))
            if len(begun) == 4 * count:
                yield [begun.popleft() for _ in range(count)]
        while begun:
            yield [begun.popleft() for _ in range(min(count, len(begun)))]

    def texts(self, images: Sequence[Any], prompt: str) -> dict[str, torch.Tensor]:
        """The inputs of a prompt that are equal for these images, where the others are the image processor's own.

        Empty elsewhere. With them masked images need no prompts of their own: to write out and tokenize thousands of
        image tokens can take as long as a forward.
        """
        with _calls(self.images, "preprocess") as calls:
            made = [self([image], [prompt]) for image in images]
        if len(calls) != len(images):
            return {}
        (given, *_), options = calls[0]
        nested = isinstance(given, list | tuple) and isinstance(given[0], list | tuple)

        def own(groups: list[list[Any]], **more: Any) -> Any:
            return self.images(groups if nested else [one for group in groups for one in group], **options | more)

        needed = self._shown  # by images before
        try:
            shown = frozenset(own([self._group(images[0])])) & made[0].keys()
            self._own, self._shown = own, needed | shown
            for levels in dict.fromkeys((self._learned(images[0]), None)):
                self._levels = levels
                alone = [self([image]) for image in images]
                if all(_same(one, {**made[0], **rest}) for one, rest in zip(made, alone, strict=True)):
                    break
            else:
                return {}
        except Exception:  # of any kind: it is called in another way
            return {}
        same = {name for name in shown if all(torch.equal(alone[0][name], one[name]) for one in alone)}
        self._shown = needed | (shown - same)
        return {name: part for name, part in made[0].items() if name not in shown - same}

    def _learned(self, image: Any) -> Levels | None:
        """A table of what threads leave to the device; it is looked for once, on a chart of this image's size."""
        if self._charted or self.device.type != "cpu":
            return self._levels
        self._charted = True
        group = [self._group([chart(one) for one in image] if isinstance(image, list) else chart(image))]
        try:
            found = learn(self._parts(group, {}), self._parts(group, LEFT_OUT))
        except Exception:  # of any kind: some processors have no such options
            return None
        return None if found is None else found.to(self.home)

    def image(self, image: Any) -> dict[str, torch.Tensor]:
        """The inputs of an image, or of a list of them, whatever is asked about it."""
        several = isinstance(image, list)
        return self([image], [self.dialogue.render("?", images=len(image)) if several else self.prompt])

    def pixels(self, canvas: Canvas) -> torch.Tensor:
        """A canvas (H, W, 3) where images are masked."""
        return torch.tensor(canvas, device=self.home)

    def fetched(self, canvases: torch.Tensor) -> torch.Tensor:
        """Masked images (B, H, W, 3) in the host's memory, all in one copy."""
        room = torch.empty(canvases.shape, dtype=canvases.dtype, pin_memory=self.home.type == "cuda")
        return room.copy_(canvases)

    def resizes(self, image: Image.Image) -> list[Canvas]:
        """What the image processor resizes an image to on the way, the largest first."""
        seen: list[Canvas] = []
        own: Callable[..., Any] | None = getattr(self.images, "resize", None)
        if own is None:
            return []

        def resize(*arguments: Any, **options: Any) -> Any:
            made = own(*arguments, **options)
            if (canvas := _canvas(made)) is not None:
                seen.append(canvas)
            return made

        with _replaced(self.images, "resize", resize):
            self.image(image)
        return sorted(seen, key=lambda canvas: -canvas.shape[0] * canvas.shape[1])

    @property
    def fingerprint(self) -> str:
        """Identifies what is done to images."""
        return digest([self.images.to_json_string(), self.options])

    def _made(self, images: Sequence[Any], prompts: Sequence[str] | None) -> dict[str, torch.Tensor]:
        nested = [self._group(image) for image in images]
        if prompts is None:
            return self._parts(nested, {} if self._levels is None else LEFT_OUT)
        options: dict[str, Any] = dict(self.options)
        start = self.processor.tokenizer.bos_token
        if start and prompts[0].startswith(start):  # as transformers does where a chat template begins with it
            options["add_special_tokens"] = False
        if self.device.type != "cpu":
            options["device"] = self.device
        pictures: list[Any] = nested if self.chats else [picture for group in nested for picture in group]
        with nullcontext() if self.chats else quiet():  # some advise against prompts without a slot for the image
            made = self.processor(text=list(prompts), images=pictures, return_tensors="pt", **options)
        tensors = {name: part for name, part in made.items() if isinstance(part, torch.Tensor) and name != "labels"}
        left = [name for name in made if name not in (*tensors, "labels") and _holds_arrays(made[name])]
        if left:
            raise WhymaskError(f"the processor returns {left[0]} as a list, which cannot be masked in batches.")
        return tensors

    def _parts(self, groups: list[list[Any]], options: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """What the image processor alone makes of the images of prompts."""
        return {name: part for name, part in self._own(groups, **options).items() if name in self._shown}

    def _group(self, image: Any) -> list[Any]:
        """The images of one prompt."""
        return [_picture(one, self.device) for one in (image if isinstance(image, list) else [image])]

    def _equals(self, images: Sequence[Any], prompts: Sequence[str] | None, expected: Inputs) -> bool:
        """Whether the processor makes the same of these images in one call."""
        try:
            made = self._made(images, prompts)
        except Exception:  # of any kind: some take one image at a time
            return False
        return _same(made, expected)


def _joined(alone: Sequence[Inputs]) -> dict[str, torch.Tensor]:
    """The inputs of images, one after the other."""
    return {name: torch.cat([one[name] for one in alone]) if len(alone) > 1 else alone[0][name] for name in alone[0]}


def _same(one: Inputs, other: Inputs) -> bool:
    """Whether inputs are equal, wherever they are."""
    return one.keys() == other.keys() and all(torch.equal(one[name].cpu(), other[name].cpu()) for name in one)


@contextmanager
def _replaced(thing: Any, name: str, value: Any) -> Iterator[None]:
    """A method of one object replaced inside the block."""
    setattr(thing, name, value)
    try:
        yield
    finally:
        delattr(thing, name)


@contextmanager
def _calls(thing: Any, name: str) -> Iterator[list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """The arguments of every call of a method inside the block."""
    own, seen = getattr(thing, name), []

    def call(*given: Any, **options: Any) -> Any:
        seen.append((given, dict(options)))
        return own(*given, **options)

    with _replaced(thing, name, call):
        yield seen


@dataclass(frozen=True)
class OwnPreprocessing(Geometry):
    """The image as the model's own processor resizes and crops it: the largest that becomes inputs of the same shapes.

    Where a layout is known, processing that image again changes no pixel. Where no such image is found, as for
    processors that resize in their own way, the image itself is the canvas.
    """

    processing: Processing
    layout: Callable[[tuple[int, int]], Layout | None]
    max_side: int | None  # larger images are reduced to this first

    @property
    def fingerprint(self) -> str:
        """Identifies the image processor, its options and the cap."""
        return f"{self.processing.fingerprint} {self.max_side}"

    def _placed(self, image: Image.Image, resize: Resize) -> tuple[Canvas, Box]:
        if resize == "none":
            return np.asarray(image), WHOLE
        if self.max_side is not None:
            image = capped(image, self.max_side)
        canvas, box = self._own(image)
        if resize == "own":
            return canvas, box
        return resized(image, (canvas.shape[1], canvas.shape[0])), WHOLE

    def _own(self, image: Image.Image) -> tuple[Canvas, Box]:
        processing = self.processing
        made = processing.image(image)
        found = [canvas for canvas in processing.resizes(image) if alike(made, processing.image(canvas))]
        for canvas in found or [np.asarray(image)]:
            if (layout := self.layout(canvas.shape[:2])) is not None:
                break
        else:
            return found[0] if found else np.asarray(image), WHOLE  # the largest, in which no detail is lost
        height, width = canvas.shape[:2]
        left, top, right, bottom = layout.box(width)
        cropped = np.ascontiguousarray(canvas[top:bottom, left:right])
        if cropped.shape == canvas.shape or not alike(made, processing.image(cropped)):
            return canvas, WHOLE
        return cropped, (left / width, top / height, right / width, bottom / height)


def _needs_cpu(images: Any) -> bool:
    """Whether torchvision has an image processor's filter on CPUs only: Lanczos, bicubic on a GPU.

    Before version 0.27 it has none: transformers loads the processor on Pillow, or takes the bicubic filter everywhere
    where torchvision's was asked for.
    """
    if getattr(images, "resample", None) != Image.Resampling.LANCZOS:
        return False
    return tuple(int(part) for part in version("torchvision").split(".")[:2]) >= (0, 27)


def _in_size(options: dict[str, Any], size: Any) -> dict[str, Any]:
    """min_pixels and max_pixels as the `size` that processors with these limits are called with."""
    pixels = {name: options[name] for name in ("min_pixels", "max_pixels") if name in options}
    if not pixels or size is None:
        return options
    most = pixels.get("max_pixels", size["longest_edge"])
    least = min(most, pixels.get("min_pixels", size["shortest_edge"]))
    others = {name: value for name, value in options.items() if name not in pixels}
    return {**others, "size": {"shortest_edge": least, "longest_edge": most}}


def template_of(processor: Any) -> Any:
    """What applies the chat template of a processor: itself, or its tokenizer."""
    return processor if getattr(processor, "chat_template", None) else processor.tokenizer


def _holds_arrays(value: Any) -> bool:
    """Whether a value that is not a tensor holds arrays or tensors."""
    if isinstance(value, list | tuple):
        return any(_holds_arrays(part) for part in value)
    return isinstance(value, np.ndarray | torch.Tensor)


def _picture(image: Any, device: torch.device) -> Any:
    """An image as all processors take it; tensors (H, W, 3) are processed on the device."""
    if isinstance(image, torch.Tensor):
        return image.to(device).permute(2, 0, 1) if device.type != "cpu" else Image.fromarray(image.cpu().numpy())
    return Image.fromarray(np.array(image)) if isinstance(image, np.ndarray) else image


def _single(limits: ThreadpoolController) -> None:
    """Let a thread compute by itself: teams of threads in each of many would get in each other's way."""
    torch.get_num_threads()  # which torch sets at its first call in a thread
    limits.limit(limits=1, user_api="openmp")


def _canvas(made: Any) -> Canvas | None:
    """An image of a processor, of whatever kind, as pixels (H, W, 3); None unless it is an image of three channels."""
    made = made[0] if isinstance(made, tuple) else made  # with what the family needs to know of it
    values = np.asarray(made.cpu() if isinstance(made, torch.Tensor) else made)
    values = values[0] if values.ndim == 4 and len(values) == 1 else values
    if values.ndim != 3:
        return None
    values = np.moveaxis(values, 0, -1) if values.shape[0] == 3 else values
    if values.shape[2] != 3:
        return None
    return rounded(values)
