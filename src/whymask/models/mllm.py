"""Multimodal language models: what is explained about an answer, however the model runs."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from math import log
from typing import Any, Self, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray

from whymask.arrays import Floats
from whymask.errors import WhymaskError
from whymask.images.imaging import ImageSource, Resize
from whymask.models.base import Bound, GridModel, Response, View
from whymask.models.dialogue import Answer, Dialogue, TokenTexts, over_positions
from whymask.models.differentiable import Evidence
from whymask.models.torch_module import DTYPE_NAMES

Choose: TypeAlias = Callable[[torch.Tensor, Sequence[int]], torch.Tensor]
"""Takes logits (B, tokens) in fp32 and the numbers of their rows, and returns the next token of each, (B,)."""


@dataclass(frozen=True, eq=False)
class MllmBound(Bound):
    """An image, a question about it, and the answer whose probability is explained."""

    answer: Answer

    def answered(self, answer: Answer, probes: int) -> Self:
        """The same with an answer, which took `probes` forwards to find."""
        return replace(self, target=answer.target, answer=answer, probes=self.probes + probes)


class Mllm(GridModel):
    """A model of transformers that answers a question about an image in words.

    A family adds `prompted` (image and prompt in its own layout), `length`, `logits` and `write`.
    """

    deterministic = True
    default_k = 10

    fingerprint: str
    module: Any
    device: torch.device  # of the inputs

    def __init__(self, dialogue: Dialogue, *, view: str) -> None:
        self.dialogue, self.labels = dialogue, TokenTexts(dialogue)
        self.batch_size = 8 if self.device.type == "cpu" else 32
        self.settings = {
            "device": str(self.device),
            "dtype": DTYPE_NAMES.get(self.module.dtype, str(self.module.dtype)),
            "view": view,
            "transformers": version("transformers"),
        }

    @abstractmethod
    def prompted(self, view: View, prompt: str) -> MllmBound:
        """The image and a prompt as text, of whose continuation the first token is asked for (`dialogue.FIRST`)."""

    @abstractmethod
    def length(self, bound: MllmBound) -> int:
        """How many tokens the prompt has, the image's own included."""

    @abstractmethod
    def logits(self, inputs: Any, bounds: Sequence[MllmBound]) -> Iterator[torch.Tensor]:
        """Logits (E, tokens) at every position of the bounds' answers, row by row, in one or several pieces.

        Position i of an answer follows the prompt and the first i of its `forced` tokens.
        """

    @abstractmethod
    def write(
        self,
        inputs: Any,
        bounds: Sequence[Bound],
        tokens: int,
        choose: Choose | None = None,
        each: Sequence[int] | None = None,
    ) -> list[tuple[int, ...]]:
        """The tokens of answers to masked inputs (B, ...), of limited number, with the token that ends an answer.

        `choose` picks each token; by default it is the likeliest. `each` (B,) is how many answers to give to each
        input, by default one; the rows that `choose` gets are numbers of answers.
        """

    def generate(self, inputs: Any, bounds: Sequence[Bound], tokens: int = 8) -> list[str]:
        """The model's greedy answers to masked inputs (B, ...), at most `tokens` tokens long."""
        return [self.said(ids) for ids in self.write(inputs, bounds, tokens)]

    def within(self, **pixels: int) -> Self:
        """The same model with other limits of its preprocessing, such as max_pixels, where it has them."""
        raise WhymaskError(f"{self.name} has no limits of pixels: leave {' and '.join(pixels)} out.")

    def said(self, ids: Sequence[int]) -> str:
        """An answer as text, without the token that ends it."""
        ends = self.ends()
        return self.dialogue.read([token for token in ids if token not in ends])

    def pose(self, view: View, question: str) -> MllmBound:
        """The image and the question, of whose answer the first token is asked for."""
        return self.prompted(view, self.dialogue.prompt(question, len(view.panels) or 1))

    def settle(self, view: View, target: int | str | None, question: str | None) -> MllmBound:
        """Put the question into the chat template and the answer into tokens.

        Args:
            view: the image.
            target: an answer. By default the first token of the model's own. One word such as "Yes" that is a single
                token stands for all its surface forms. A word of several tokens such as "42" is scored by the product
                of their probabilities, each after those before it, a longer text by their mean, and a [[marked]] word
                of a text by its own. A number is the id of a first token.
            question: what is asked.
        """
        question = self.asked(question)
        bound, probes = self.pose(view, question), 0
        if target is None:
            top = self.respond(bound.inputs[None], [bound]).top
            assert top is not None
            target, probes = int(top[0]), 1
        return bound.answered(self.meant(target, question), probes)

    def answering(self, bound: Bound, target: int | str, question: str | None) -> MllmBound:
        """The same image and question with another answer."""
        answer = self.meant(target, self.asked(question))
        return cast(MllmBound, replace(bound, probes=0)).answered(answer, 0)

    def meant(self, target: int | str, question: str) -> Answer:
        """The answer to a question that a user means."""
        return self.dialogue.answer(target, question) if isinstance(target, str) else self.dialogue.token(target)

    def respond(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Probabilities of the bounds' answers (fp32 softmax), and the likeliest first tokens."""
        asked = cast(Sequence[MllmBound], bounds)
        # One entry a position of an answer; positions of one row follow each other, the first one first.
        entries = [(row, place, ids) for row, b in enumerate(asked) for place, ids in enumerate(b.answer.wanted)]
        rows, places = (np.array([entry[i] for entry in entries]) for i in (0, 1))
        chances, top = self._chances(inputs, asked, self.ids([ids for *_, ids in entries])[:, None])
        return Response(over_positions(chances[:, 0], rows, [bound.answer for bound in asked]), top[places == 0])

    def respond_each(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Probabilities (B, T) of the answers of all bounds, by one forward for those that share a text.

        That is every word of a text, and any word that is a single token.
        """
        answers = [cast(MllmBound, bound).answer for bound in bounds]
        scores = np.empty((len(inputs), len(answers)))
        for text, members in sharing(answers):
            asked = [cast(MllmBound, bounds[members[0]]).answered(text, 0)] * len(inputs)
            some = [answers[member] for member in members]
            places = len(text.wanted)
            wanted = self.ids(_by_place(some, places)).view(places, len(some), -1)
            chances, top = self._chances(inputs, asked, wanted.repeat(len(inputs), 1, 1))
            by_row = chances.reshape(len(inputs), places, len(some))
            for column, answer in enumerate(some):
                own = by_row[:, : len(answer.wanted), column]
                rows = np.repeat(np.arange(len(inputs)), len(answer.wanted))
                scores[:, members[column]] = over_positions(own.ravel(), rows, [answer] * len(inputs))
        return Response(scores, top.reshape(len(inputs), -1)[:, 0])

    def _chances(
        self, inputs: Any, bounds: Sequence[MllmBound], wanted: torch.Tensor
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Probabilities (E, T) of wanted tokens (E, T, m) at the positions of the bounds' answers, row by row.

        Also the likeliest token at each, (E,).
        """
        chances, tops, done = [], [], 0
        with torch.no_grad():
            for piece in self.logits(inputs, bounds):
                logits = piece.float()
                some = wanted[done : done + len(logits)].to(logits.device)
                own, total = evidence(logits, some.flatten(1))
                chances.append((own - total).exp().view(some.shape).sum(dim=2))
                tops.append(logits.argmax(dim=1))
                done += len(logits)
            return torch.cat(chances).double().cpu().numpy(), torch.cat(tops).cpu().numpy()

    def read(self, logits: torch.Tensor, answer: Answer) -> Evidence:
        """How the logits (B, positions, tokens) of one answer support it, for methods that use gradients.

        The logit of a word, or the log mean probability of a text; positions are those where any token is wanted.
        """
        count = len(logits)
        wanted = self.ids([ids for ids in answer.wanted if ids]).to(logits.device)
        forms, total = evidence(logits.float().flatten(0, 1), wanted.repeat(count, 1))
        own, total = (part.view(count, -1) for part in (forms.logsumexp(dim=1), total))
        if not answer.mean:
            return Evidence(own.sum(dim=1), total.sum(dim=1))
        mean = (own - total).logsumexp(dim=1) - log(len(answer.places))
        return Evidence(mean, torch.zeros_like(mean))

    def ids(self, wanted: Sequence[tuple[int, ...]]) -> torch.Tensor:
        """The ids of which any will do, by position, (E, m); -1 where there are fewer."""
        most = max(1, *(len(ids) for ids in wanted))
        return torch.tensor([ids + (-1,) * (most - len(ids)) for ids in wanted], device=self.device)

    def answer(self, image: ImageSource, question: str, *, tokens: int = 32, resize: Resize = "own") -> str:
        """The model's own answer to a question about the whole image."""
        bound = self.pose(self.view(image, resize), self.asked(question))
        return self.generate(bound.inputs[None], [bound], tokens)[0]

    def places(self, bound: Bound) -> tuple[int, ...]:
        """The positions of the tokens that a score is of, the first token of the answer being 0."""
        return cast(MllmBound, bound).answer.places

    def ends(self) -> set[int]:
        """Tokens that end an answer."""
        ends = self.module.generation_config.eos_token_id
        ends = set(ends if isinstance(ends, list) else [ends])
        return {token for token in (*ends, self.dialogue.tokenizer.eos_token_id) if token is not None}


def evidence(logits: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits (E, m) of wanted tokens (E, m) at positions of answers, and the log of the sum of exp (E, 1).

    `logits` (E, tokens) are the module's, in fp32; a token -1 is none. Scores and gradients are both made of this.
    """
    own = logits.gather(1, wanted.clamp(min=0)).masked_fill(wanted < 0, -torch.inf)
    return own, logits.logsumexp(dim=1, keepdim=True)


def sharing(answers: Sequence[Answer]) -> list[tuple[Answer, list[int]]]:
    """Texts that a forward may follow, each with the numbers of the answers that can be read from it.

    An answer is read along the way of a longer one that begins with the tokens it is fed.
    """
    longest = sorted(range(len(answers)), key=lambda number: -len(answers[number].forced))
    texts: list[tuple[tuple[int, ...], list[int]]] = []
    for number in longest:
        forced = answers[number].forced
        for said, members in texts:
            if said[: len(forced)] == forced:
                members.append(number)
                break
        else:
            texts.append((forced, [number]))
    return [(Answer("", ((),) * (len(said) + 1), said), members) for said, members in texts]


def _by_place(answers: Sequence[Answer], count: int) -> list[tuple[int, ...]]:
    """The tokens that each answer wants at the first position of a text, then at the next."""
    longer = [answer.wanted + ((),) * (count - len(answer.wanted)) for answer in answers]
    return [ids for place in zip(*longer, strict=True) for ids in place]


def weights_fingerprint(module: torch.nn.Module) -> str:
    """Identifies weights by a sample of every tensor: to hash all of them would take longer than an explanation."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        flat = tensor.flatten()
        some = flat[:: max(1, len(flat) // 1024)].float().cpu().numpy()
        digest.update(f"{name} {tuple(tensor.shape)}".encode() + some.tobytes())
    return digest.hexdigest()[:16]
