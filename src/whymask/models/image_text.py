"""Any image-text-to-text model of transformers, by its own processor and its own forward.

Nothing depends on the family. Where the pixels go is learned (`layout.py`), prompts come from the chat template. How
answers are scored is decided on the first image: by one forward for the whole answer where that equals transformers'
own generation, else by generation step by step; in batches where these equal their images alone, else one by one.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import inf
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray

from whymask.errors import whole
from whymask.images.imaging import Canvas, Geometry, ImageSource, Resize
from whymask.images.panels import Panel, cut
from whymask.models.base import Bound, View, composed
from whymask.models.batching import is_out_of_memory
from whymask.models.dialogue import FIRST, Answer, Dialogue
from whymask.models.differentiable import Differentiable, Evidence, forward_only
from whymask.models.generation import AnswerIds, Chosen, Forced
from whymask.models.hf import configuration, reporting, tokenization, unsupported
from whymask.models.layout import Layout, learn
from whymask.models.mllm import Choose, Mllm, MllmBound, weights_fingerprint
from whymask.models.precision import all_bits
from whymask.models.processing import OwnPreprocessing, Processing, template_of
from whymask.models.torch_module import evaluating, home_of

PIECE = 8  # images a forward where images are processed meanwhile
INSTEAD = (
    f"{'' if find_spec('torchvision') else 'install torchvision, which some processors need, or '}"
    "wrap a function that returns the probability of the answer, see docs/extending.md"
)


@dataclass(frozen=True, eq=False)
class ImageTextBound(MllmBound):
    """An image and a question as the model's own processor prepares them.

    With a layout, `inputs` are the elements (E,) that show pixels; without one they are the canvas (H, W, 3) itself.
    """

    layout: Layout | None
    prompt: str
    fixed: dict[str, torch.Tensor]  # what the processor returns that no mask changes, for one image
    alike: tuple[Any, ...]  # of `key`: the canvas and the lengths of what it is asked with

    @property
    def settings(self) -> dict[str, Any]:
        """How masked images are made."""
        return super().settings | {"composition": "masked pixels" if self.layout is None else "exact"}

    def index(self, labels: NDArray[np.int32]) -> Any:
        """The region of every element of the inputs."""
        regions = torch.from_numpy(labels.astype(np.int64))
        if self.layout is None:
            return regions[..., None].to(self.inputs.device)
        return regions.flatten()[self.layout.pixel].to(self.inputs.device)

    def answered(self, answer: Answer, probes: int) -> Self:
        """Rows share a batch only where nothing has to be padded: not every family ignores what follows a text."""
        return replace(super().answered(answer, probes), key=(*self.alike, len(answer.forced)))


class ImageText(Mllm):
    """A model and a processor of transformers, whatever their family.

    A module that this package has loaded is frozen; a borrowed one belongs to the caller and runs as it is.
    """

    text = "input_ids"
    """What the module is given a prompt as, which an answer continues."""

    def __init__(
        self,
        module: Any,
        processor: Any,
        *,
        name: str,
        max_side: int | None = None,
        options: Mapping[str, Any] | None = None,
        borrowed: bool = False,
    ) -> None:
        self.name, self.module, self.borrowed = name, module, borrowed
        max_side = None if max_side is None else whole("max_side", max_side, 1)
        if not borrowed:
            module.eval().requires_grad_(False)
        self.device = home_of(module)[0]
        dialogue = self.dialogue_of(processor)
        self.processing = Processing(processor, dialogue, self.device, dict(options or {}))
        self.geometry: Geometry = OwnPreprocessing(self.processing, self.layout, max_side)
        view = "own preprocessing" + ("" if max_side is None else f", longer side first at most {max_side}")
        super().__init__(dialogue, view=view)
        self._weights = None if borrowed else weights_fingerprint(module)
        self._besides = {
            "geometry": self.geometry.fingerprint,
            "configuration": configuration(module),
            "tokens": tokenization(processor.tokenizer),
            "template": dialogue.template.chat_template,
            "ends": module.generation_config.eos_token_id,
        }
        self._layouts: dict[tuple[tuple[int, int], tuple[Panel, ...]], Layout | None] = {}
        self._keeps = "logits_to_keep" in inspect.signature(module.forward).parameters
        # Where images are processed on the host, the device works on the first of them while threads do the others.
        self._meanwhile = self.processing.device.type != self.device.type
        self._checked = False
        self._together = True  # rows of a batch may share a forward
        self._depth = inf  # positions of an answer that one forward scores; the others are generated

    def dialogue_of(self, processor: Any) -> Dialogue:
        """How a question becomes a prompt."""
        return Dialogue(processor.tokenizer, self.name, template_of(processor))

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Equal only for equal weights (those a borrowed module has now) and preprocessing."""
        return composed(self._weights or weights_fingerprint(self.module), **self._besides)

    def bind(self, image: ImageSource, **options: Any) -> Bound:
        """Bind as every model does; errors of the family's own code are reported in one line."""
        with reporting(self.module, self.name, INSTEAD):
            return super().bind(image, **options)

    def answer(self, image: ImageSource, question: str, *, tokens: int = 32, resize: Resize = "own") -> str:
        """The model's own answer to a question about the whole image."""
        with reporting(self.module, self.name, INSTEAD):
            return super().answer(image, question, tokens=tokens, resize=resize)

    @property
    def takes_several(self) -> bool:  # type: ignore[override]
        """Whether one question may be about several images: a chat template says where each of them goes."""
        return self.processing.chats

    def within(self, **pixels: int) -> Self:
        """The same model with other limits of its processor, where it has them."""
        own = self.processing
        if "longest_edge" not in (getattr(own.images, "size", None) or {}):
            return super().within(**pixels)
        made = copy(self)
        made.processing = Processing(own.processor, self.dialogue, self.device, {**own.options, **pixels})
        made.geometry = replace(cast(OwnPreprocessing, self.geometry), processing=made.processing, layout=made.layout)
        made._layouts = {}
        return made

    def layout(self, shape: tuple[int, int], panels: tuple[Panel, ...] = ()) -> Layout | None:
        """Where the pixels of canvases of this shape go; None where they are masked before they are processed."""
        key = (shape, panels)

        def process(canvas: Canvas) -> dict[str, torch.Tensor]:
            made = self.processing.image(_pictures(canvas, panels))
            return {name: part.cpu() for name, part in made.items()}

        if key not in self._layouts:
            self._layouts[key] = learn(process, shape)
        return self._layouts[key]

    def prompted(self, view: View, prompt: str) -> ImageTextBound:
        """The image and the prompt, prepared by the model's own processor."""
        panels = view.panels
        layout = self.layout(view.canvas.shape[:2], panels)
        pictures = [_pictures(canvas, panels) for canvas in (view.canvas, view.fill)]
        made = self.processing(pictures[:1], [prompt])
        if layout is None:
            inputs, fill = (self.processing.pixels(canvas) for canvas in (view.canvas, view.fill))
            fixed = self.processing.texts(pictures, prompt)
        else:
            elements = [layout.join(made), layout.join(self.processing(pictures[1:], [prompt]))]
            inputs, fill = (part.to(self.device, self.module.dtype) for part in elements)
            fixed = {name: part for name, part in made.items() if name not in layout.shapes}
        texts = dict.fromkeys(("input_ids", self.text))
        lengths = [made[name].shape[1] for name in texts if name in made]
        alike = (view.canvas.shape, panels, layout is None, *fixed, *lengths)
        bound = ImageTextBound(
            **vars(view),
            target=FIRST.target,
            inputs=inputs,
            fill_inputs=fill,
            key=(*alike, 0),
            probes=0,
            answer=FIRST,
            layout=layout,
            prompt=prompt,
            fixed=self._moved(fixed),
            alike=alike,
        )
        if not self._checked:
            self._check(bound)
        return bound

    def logits(self, inputs: Any, bounds: Sequence[MllmBound]) -> Iterator[torch.Tensor]:
        """Logits as `Mllm.logits` says, by one forward for all rows and positions where that is exact."""
        asked = cast(Sequence[ImageTextBound], bounds)
        step = len(asked) if self._together else 1
        pieces: Iterator[Any]  # of the inputs, or of what threads make of them
        if self._meanwhile and asked[0].layout is None and all(bound.fixed for bound in asked):
            step = min(step, PIECE)
            canvases = self.processing.fetched(inputs)
            pieces = self.processing.ahead((_pictures(canvas, asked[0].panels) for canvas in canvases), step)
        else:
            pieces = (inputs[start : start + step] for start in range(0, len(asked), step))
        with self._evaluating():
            for start, piece in zip(range(0, len(asked), step), pieces, strict=True):
                yield self._scored(piece, asked[start : start + step]).flatten(0, 1)

    def length(self, bound: MllmBound) -> int:
        """Text and image tokens, as the processor writes them out."""
        asked = cast(ImageTextBound, bound)
        made = asked.fixed if self.text in asked.fixed else self._batch(asked.inputs[None], [asked], [()])
        return int(made[self.text].shape[1])

    def write(
        self,
        inputs: Any,
        bounds: Sequence[Bound],
        tokens: int,
        choose: Choose | None = None,
        each: Sequence[int] | None = None,
    ) -> list[tuple[int, ...]]:
        """Answers by transformers' own generation; `choose` gets the model's logits unchanged."""
        about = [i for i, count in enumerate(each or [1] * len(bounds)) for _ in range(count)]
        asked, ends = cast(Sequence[ImageTextBound], [bounds[i] for i in about]), self.ends()
        said: list[tuple[int, ...]] = [()] * len(asked)
        for rows in self._groups(asked):
            chosen = {} if choose is None else {"logits_processor": [Chosen(choose, rows)], "repetition_penalty": 1.0}
            with torch.no_grad(), self._evaluating():
                images = inputs[[about[row] for row in rows]]
                batch = self._batch(images, [asked[row] for row in rows], [()] * len(rows))
                made = self._generated(batch, max_new_tokens=tokens, **chosen)
            for row, ids in zip(rows, made.sequences[:, -len(made.logits) :].tolist(), strict=True):
                end = next((place + 1 for place, token in enumerate(ids) if token in ends), len(ids))
                said[row] = tuple(ids[:end])
        return said

    def differentiable(self, bound: Bound) -> Differentiable:
        """The image for methods that use gradients, which pass through the elements that show pixels."""
        asked = cast(ImageTextBound, bound)
        layout = asked.layout
        if layout is None or len(asked.answer.wanted) > self._depth:
            raise forward_only(self.name)
        places = [place for place, ids in enumerate(asked.answer.wanted) if ids]

        def read(inputs: torch.Tensor) -> Evidence:
            rows = [asked] * len(inputs)
            with self._evaluating():
                batch = self._batch(inputs, rows, [asked.answer.forced] * len(rows))
                return self.read(self._forward(batch, len(asked.answer.wanted))[:, places], asked.answer)

        def encode(canvas: Canvas) -> torch.Tensor:
            made = layout.join(self.processing([_pictures(canvas, asked.panels)], [asked.prompt]))
            return made.to(self.device, self.module.dtype)

        return Differentiable(bound, self.module, read, encode, at_once=1)

    def _groups(self, bounds: Sequence[ImageTextBound]) -> list[list[int]]:
        """Rows that can be run together: prompts are padded by no family here."""
        if not self._together:
            return [[i] for i in range(len(bounds))]
        groups: dict[tuple[Any, ...], list[int]] = {}
        for i, bound in enumerate(bounds):
            groups.setdefault(bound.alike, []).append(i)
        return list(groups.values())

    def _batch(self, inputs: Any, bounds: Sequence[ImageTextBound], said: AnswerIds) -> dict[str, torch.Tensor]:
        """What the module is called with for masked inputs (B, ...), or what threads make of them.

        Prompts are followed by what was said of the answers.
        """
        layout = bounds[0].layout
        made = {name: torch.cat([bound.fixed[name] for bound in bounds]) for name in bounds[0].fixed}
        if layout is None:
            images = [
                canvas if isinstance(canvas, Future) else _pictures(canvas, bounds[0].panels) for canvas in inputs
            ]
            made |= self.processing(images, None if made else [bound.prompt for bound in bounds])
        else:
            made |= layout.split(inputs)
        return self._moved(self._continued(made, said) if said[0] else made)

    def _moved(self, made: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Inputs where the module is, in its precision."""
        dtype = self.module.dtype
        return {name: part.to(self.device, dtype if part.is_floating_point() else None) for name, part in made.items()}

    def _continued(self, made: dict[str, torch.Tensor], said: AnswerIds) -> dict[str, torch.Tensor]:
        """The same, but what was said follows the prompts: it is text, as their ends are."""
        prompts = made[self.text]

        def longer(part: torch.Tensor) -> torch.Tensor:
            return torch.cat([part, part[:, -1:].expand(-1, len(said[0]), *part.shape[2:])], dim=1)

        parallel = {
            name: longer(part)
            for name, part in made.items()
            if part.shape[:2] == prompts.shape and not name.startswith("pixel")
        }
        return made | parallel | {self.text: torch.cat([prompts, prompts.new_tensor(said)], dim=1)}

    def _scored(self, inputs: Any, bounds: Sequence[ImageTextBound]) -> torch.Tensor:
        """Logits (B, positions, tokens) of answers that have as many positions."""
        said = [bound.answer.forced for bound in bounds]
        count = len(said[0]) + 1
        if count > self._depth:
            return self._steps(self._batch(inputs, bounds, [()] * len(said)), said, count)
        return self._forward(self._batch(inputs, bounds, said), count)

    def _forward(self, batch: dict[str, torch.Tensor], count: int) -> torch.Tensor:
        """Logits (B, count, tokens) at the last positions, by one forward."""
        keep = {"logits_to_keep": count} if self._keeps else {}
        logits: torch.Tensor = self.module(**batch, **keep, use_cache=False).logits
        return logits[:, -count:]

    def _steps(self, batch: dict[str, torch.Tensor], said: AnswerIds, count: int) -> torch.Tensor:
        """The same by transformers' own generation, which is made to say each row's tokens."""
        made = self._generated(batch, max_new_tokens=count, min_new_tokens=count, logits_processor=[Forced(said)])
        return torch.stack(made.logits, dim=1)

    def _generated(self, batch: dict[str, torch.Tensor], **options: Any) -> Any:
        """What transformers' own greedy generation makes of a batch: `sequences` and `logits`."""
        greedy = {"do_sample": False, "num_beams": 1, "output_logits": True, "return_dict_in_generate": True}
        return self.module.generate(**batch, **greedy, **options)

    def _check(self, bound: ImageTextBound) -> None:
        """Decide, on the first image, how this model is run: compare with transformers' own generation."""
        both = torch.stack([bound.inputs, bound.fill_inputs])
        tokenizer = self.dialogue.tokenizer
        with torch.no_grad(), self._evaluating(), all_bits():
            alone = [self._batch(both[i : i + 1], [bound], [()]) for i in range(2)]
            first = _tried(lambda: self._steps(alone[0], [()], 1))
            if isinstance(first, Exception):
                raise unsupported(self.module, self.name, first, INSTEAD)
            likeliest = first[0, 0].argsort(descending=True).tolist()
            other = {*self.ends(), *tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}  # ends, images
            token = (next(token for token in likeliest if token not in other),)  # generation goes on after it
            expected = self._steps(alone[0], [token], 2)
            found = _tried(lambda: self._forward(self._batch(both[:1], [bound], [token]), 2))
            if not self._agree(found, expected):
                self._depth = float(self._agree(_tried(lambda: self._forward(alone[0], 1)), first))
            single = torch.cat([self._scored(both[i : i + 1], [bound]) for i in range(2)])
            self._together = self._agree(_tried(lambda: self._scored(both, [bound, bound])), single)
        if torch.equal(*single) and not torch.equal(*both):
            reason = ValueError("the image does not reach the model")
            raise unsupported(self.module, self.name, reason, INSTEAD)
        ways = {0: "step by step", 1: "first token by one forward, others step by step", inf: "one forward"}
        self.settings["answers"] = ways[self._depth]
        self.settings["batches"] = "together" if self._together else "one by one"
        self._checked = True

    def _agree(self, found: torch.Tensor | Exception, expected: torch.Tensor) -> bool:
        """Whether logits differ by no more than the rounding of the module's precision accounts for."""
        if isinstance(found, Exception) or found.shape != expected.shape:
            return False
        unit = torch.finfo(self.module.dtype).eps  # kernels of other shapes add up in another order
        largest = max(1.0, float(expected.float().abs().max()))
        most = min(256 * unit, 3 * unit**0.5) * largest
        return bool((found.float() - expected.float()).abs().max() <= most)

    def _evaluating(self) -> AbstractContextManager[None]:
        return evaluating(self.module) if self.borrowed else nullcontext()


def _pictures(canvas: Any, panels: tuple[Panel, ...]) -> Any:
    """A canvas (H, W, 3) as its image, or as the list of images on it."""
    return cut(canvas, panels) if panels else canvas


def _tried(run: Callable[[], torch.Tensor]) -> torch.Tensor | Exception:
    """What a family's own code returns, or the exception it raises, but for a lack of memory."""
    try:
        return run()
    except Exception as error:  # of any kind: it decides how the family is run
        if is_out_of_memory(error):
            raise
        return error
