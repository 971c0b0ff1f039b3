"""A vision tower and a language model, run apart: the fast path of the families whose parts are known.

One call of the tower encodes all masked images of a batch, one prefill of the language model scores them. A family says
how it sees an image (`encode`, `spread`, `see`) and where its image tokens stand (`positions`, `token_grid`).
"""

import json
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from whymask.errors import WhymaskError
from whymask.images.imaging import Canvas, ImageSource, Resize
from whymask.images.masking import Fill
from whymask.models.base import Bound, View, composed
from whymask.models.batching import is_out_of_memory
from whymask.models.dialogue import FIRST, Dialogue
from whymask.models.differentiable import Differentiable, Evidence, ImageTokens, stretch
from whymask.models.hf import configuration, from_checkpoint, model_from_checkpoint, normalisation, tokenization
from whymask.models.mllm import Choose, Mllm, MllmBound, weights_fingerprint
from whymask.models.torch_module import device_of, dtype_of

LOGITS = 256  # positions whose logits are held at once: 150 MB in fp32 for 150 thousand tokens


@dataclass(frozen=True, eq=False)
class TowerBound(MllmBound):
    """An image and a question whose tokens stand around the image's own."""

    before: tuple[int, ...]  # tokens of the prompt before the image's own
    after: tuple[int, ...]  # and after them
    spread: Callable[[NDArray[np.int32]], NDArray[np.int64]]

    def index(self, labels: NDArray[np.int32]) -> Any:
        """The region of every input element, in the family's own layout."""
        return torch.from_numpy(self.spread(labels)).to(self.inputs.device)


class TowerMllm(Mllm):
    """A vision tower and a language model: one prefill scores a batch of masked images."""

    pays = 30_000  # masked images after which compiling would have paid (docs/performance.md)

    processor: Any  # of images
    cam_depth: float  # how far down the decoder, as a share, its image tokens are looked at by llava-cam

    def __init__(
        self, module: Any, tokenizer: Any, *, view: str, name: str, device: str = "cpu", compile: bool | None = None
    ) -> None:
        self.device, self.dtype = device_of(device), module.dtype
        self.name = name
        self.fingerprint = composed(
            weights_fingerprint(module),
            geometry=self.geometry.fingerprint,
            pixels=normalisation(self.processor),
            configuration=configuration(module),
            tokens=tokenization(tokenizer),
            ends=module.generation_config.eos_token_id,
        )
        self.module = module.eval().requires_grad_(False).to(self.device)  # rotary tables stay in fp32
        fuse_norms(self.module.model.language_model)
        super().__init__(Dialogue(tokenizer, name), view=view)
        self.settings["compiled"] = "no"
        self._compile, self._seen = compile, 0

    @abstractmethod
    def encode(self, canvas: Canvas) -> torch.Tensor:
        """Pixels (H, W, 3) in the layout of the vision tower; each element must depend on its own pixel only."""

    @abstractmethod
    def spread(self, labels: NDArray[np.int32]) -> NDArray[np.int64]:
        """A label map (H, W) in the layout of `encode`, broadcastable to it."""

    @abstractmethod
    def see(self, inputs: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        """Image tokens (B, T, D) of inputs (B, ...) that stand for canvases of `shape`."""

    def layers(self) -> list[Any]:
        """The decoder's, which are compiled as they are."""
        return list(self.module.model.language_model.layers)

    def positions(self, before: int, shape: tuple[int, int], length: int) -> torch.Tensor | None:
        """Position ids of a sequence whose image follows `before` tokens; None where they just count up."""
        return None

    def view(self, image: ImageSource, resize: Resize = "own", fill: Fill = "black") -> View:
        """The image on the input grid."""
        if isinstance(image, list):
            raise WhymaskError(f"{self.name} takes one image on its fast path: load it with fast=False for several.")
        return super().view(image, resize, fill)

    def prompted(self, view: View, prompt: str) -> TowerBound:
        """The image in the tower's layout, the prompt's tokens before and after it."""
        before, after = self.dialogue.around(prompt, self.module.config.image_token_id)
        return TowerBound(
            **vars(view),
            target=FIRST.target,
            inputs=self.encode(view.canvas),
            fill_inputs=self.encode(view.fill),
            key=(view.canvas.shape, before),
            probes=0,
            answer=FIRST,
            before=before,
            after=after,
            spread=self.spread,
        )

    def logits(self, inputs: Any, bounds: Sequence[MllmBound]) -> Iterator[torch.Tensor]:
        """Logits as `Mllm.logits` says, by one prefill; only the positions of answers reach the head.

        A batch of one is doubled where it would be compiled anew.
        """
        asked = cast(Sequence[TowerBound], bounds)
        self._compile_if_it_pays(inputs, asked)
        if self._alone(asked):
            inputs, asked = torch.cat([inputs, inputs]), [*asked, *asked]
        forced = [b.answer.forced for b in asked]
        hidden, last = self._read(self.see(inputs, asked[0].canvas.shape[:2]), asked, forced)
        first = last - np.array([len(ids) for ids in forced])
        places = [(row, first[row] + place) for row, b in enumerate(bounds) for place in range(len(b.answer.wanted))]
        rows, columns = torch.tensor(places).T
        needed = hidden[rows, columns]
        for start in range(0, len(needed), LOGITS):
            yield self.module.lm_head(needed[start : start + LOGITS])

    def differentiable(self, bound: Bound) -> Differentiable:
        """The image for methods that use gradients."""
        asked = cast(TowerBound, bound)
        shape = asked.canvas.shape[:2]
        places = [place for place, ids in enumerate(asked.answer.wanted) if ids]

        def read(inputs: torch.Tensor) -> Evidence:
            rows = [asked] * len(inputs)
            hidden, last = self._read(self.see(inputs.to(self.dtype), shape), rows, [asked.answer.forced] * len(inputs))
            first = int(last[0]) - len(asked.answer.forced)
            return self.read(self.module.lm_head(hidden[:, [first + place for place in places]]), asked.answer)

        layers = self.layers()
        tokens = ImageTokens(
            first=len(asked.before),
            grid=self.token_grid(shape),
            norms=[layer.post_attention_layernorm for layer in layers],
            usual=round(self.cam_depth * len(layers)),
            place=lambda cells: self.on_canvas(cells, shape),
        )
        return Differentiable(bound, self.module, read, self.encode, tokens, at_once=1)

    @abstractmethod
    def token_grid(self, shape: tuple[int, int]) -> tuple[int, int]:
        """(rows, columns) of the image tokens of a canvas of this shape."""

    def on_canvas(self, cells: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        """A map of the image tokens (rows, columns), stretched over the canvas (H, W)."""
        return stretch(cells, shape)

    def length(self, bound: MllmBound) -> int:
        """Text and image tokens."""
        asked = cast(TowerBound, bound)
        return len(asked.before) + prod(self.token_grid(asked.canvas.shape[:2])) + len(asked.after)

    def write(
        self,
        inputs: Any,
        bounds: Sequence[Bound],
        tokens: int,
        choose: Choose | None = None,
        each: Sequence[int] | None = None,
    ) -> list[tuple[int, ...]]:
        """Answers of a limited length; each image is encoded once, and the common beginning of answers is read once."""
        asked, ends = cast(Sequence[TowerBound], bounds), self.ends()
        about = [i for i, count in enumerate(each or [1] * len(asked)) for _ in range(count)]
        said: list[tuple[int, ...]] = [() for _ in about]
        with torch.no_grad():
            both = torch.cat([inputs, inputs]) if self._alone(asked) else inputs
            seen = self.see(both, asked[0].canvas.shape[:2])
            for _ in range(tokens):
                live = [answer for answer, ids in enumerate(said) if not ids or ids[-1] not in ends]
                if not live:
                    break
                texts = list(dict.fromkeys((about[answer], said[answer]) for answer in live))
                place = {text: number for number, text in enumerate(texts)}
                texts = texts * 2 if self._alone(texts) else texts
                images = [image for image, _ in texts]
                hidden, last = self._read(seen[images], [asked[i] for i in images], [ids for _, ids in texts])
                logits = self.module.lm_head(hidden[torch.arange(len(texts)), torch.from_numpy(last)]).float()
                logits = logits[[place[about[answer], said[answer]] for answer in live]]
                chosen = logits.argmax(dim=1) if choose is None else choose(logits, live)
                for answer, token in zip(live, chosen.tolist(), strict=True):
                    said[answer] += (token,)
        return said

    def compile(self) -> None:
        """Compile the layers; the next forward takes up to half a minute more, and all later ones less."""
        for layer in self.layers():
            layer.compile(dynamic=True)
        self.settings["compiled"] = "yes"

    def uncompile(self) -> None:
        """Run every layer as it is again."""
        for layer in self.layers():
            layer._compiled_call_impl = None
        self.settings["compiled"] = "no"

    def _alone(self, rows: Sequence[Any]) -> bool:
        """Whether to double a batch of one: it would be compiled anew, all larger ones share one compilation."""
        return len(rows) == 1 and self.settings["compiled"] == "yes"

    def _compile_if_it_pays(self, inputs: torch.Tensor, bounds: Sequence[TowerBound]) -> None:
        """Compile when asked to, or once the images seen would have paid for it: how many will follow is not known."""
        self._seen += len(inputs)
        pays = self._seen > self.pays and compiles_by_itself(self.device)
        wanted = pays if self._compile is None else self._compile
        if not wanted or len(inputs) == 1:
            return
        self._compile = False
        try:
            self.compile()
            self._read(self.see(inputs, bounds[0].canvas.shape[:2]), bounds, [b.answer.forced for b in bounds])
        except Exception as error:  # no compiler on this machine, or one that fails: the layers run as they are
            if is_out_of_memory(error):
                raise
            self.uncompile()
            warnings.warn(f"{self.name} runs without compilation, which failed: {error}", stacklevel=2)

    def _read(
        self, seen: torch.Tensor, bounds: Sequence[TowerBound], said: Sequence[tuple[int, ...]]
    ) -> tuple[torch.Tensor, NDArray[np.int64]]:
        """Last hidden states (B, L, D) of prompts with their images and what has been said, and where each row ends.

        Shorter texts are filled up at their end, which no earlier position sees.
        """
        texts = [bound.after + more for bound, more in zip(bounds, said, strict=True)]
        lengths = np.array([len(text) for text in texts])
        longest = int(lengths.max())
        ids = torch.tensor([text + (0,) * (longest - len(text)) for text in texts]).to(self.device)
        embed = self.module.get_input_embeddings()
        before = embed(torch.tensor(bounds[0].before, dtype=torch.int64).to(self.device)).expand(len(seen), -1, -1)
        embeds = torch.cat([before, seen.to(before.dtype), embed(ids)], dim=1)
        positions = self.positions(len(bounds[0].before), bounds[0].canvas.shape[:2], embeds.shape[1])
        output = self.module.model.language_model(inputs_embeds=embeds, position_ids=positions, use_cache=False)
        return output.last_hidden_state, embeds.shape[1] - longest + lengths - 1


def compiles_by_itself(device: torch.device) -> bool:
    """Whether compiling gains enough on this device to do so unasked."""
    return device.type == "cuda"


def fuse_norms(module: torch.nn.Module) -> None:
    """Put torch's fused RMSNorm in the place of transformers' own, which makes six passes over memory.

    Only where both agree on the module itself, so a norm that computes something else stays.
    """
    for parent in list(module.modules()):
        for name, norm in list(parent.named_children()):
            if not type(norm).__name__.endswith("RMSNorm") or not hasattr(norm, "variance_epsilon"):
                continue
            weight, epsilon = cast(torch.nn.Parameter, norm.weight), cast(float, norm.variance_epsilon)
            fused = torch.nn.RMSNorm(len(weight), epsilon, device="meta")
            fused.weight = weight
            x = torch.linspace(-3, 5, len(weight), device=weight.device)[None]
            ours = torch.nn.functional.rms_norm(x, (len(weight),), weight.float(), epsilon)
            if torch.allclose(ours, norm(x).float(), rtol=1e-5, atol=1e-6):
                setattr(parent, name, fused)


def load_parts(checkpoint: str, kind: Any, dtype: str) -> tuple[Any, Any]:
    """The module (safetensors only) and the tokenizer of a checkpoint, by hub name or folder."""
    from transformers import AutoTokenizer

    folder = Path(checkpoint)
    if folder.is_dir():
        needed = {
            "*.safetensors": "weights (*.safetensors)",
            "tokenizer*.json": "a tokenizer (tokenizer.json)",
            "*processor_config.json": "an image processor (preprocessor_config.json)",
        }
        missing = [what for pattern, what in needed.items() if not any(folder.glob(pattern))]
        if missing:
            raise WhymaskError(f"the checkpoint folder {checkpoint} lacks {' and '.join(missing)}.")
    module = model_from_checkpoint(kind, checkpoint, dtype=dtype_of(dtype), use_safetensors=True)
    tokenizer = from_checkpoint(AutoTokenizer, checkpoint)
    if not tokenizer.chat_template:
        tokenizer.chat_template = _legacy_template(checkpoint)
    if not tokenizer.chat_template:
        raise WhymaskError(f"{checkpoint} has no chat template: add its chat_template.jinja to the checkpoint.")
    return module, tokenizer


def _legacy_template(checkpoint: str) -> str | None:
    """The chat template of checkpoints that keep it in a JSON file of their processor."""
    from transformers.utils.hub import cached_file

    file = cached_file(checkpoint, "chat_template.json", _raise_exceptions_for_missing_entries=False)
    return None if file is None else str(json.loads(Path(file).read_text(encoding="utf-8"))["chat_template"])
