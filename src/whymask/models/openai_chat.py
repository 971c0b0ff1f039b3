"""Any chat server of a multimodal model: the probability of an answer to a question."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, cast

from whymask.errors import WhymaskError, whole
from whymask.images.imaging import ImageSource, Resize, WholeImage
from whymask.models.base import Bound, Response, View, composed
from whymask.models.chat.asking import ROUTE, ask
from whymask.models.chat.engine import Request
from whymask.models.chat.messages import LOSSY, Conversation, Pictures, bearer, check_format
from whymask.models.chat.probe import cut, probe
from whymask.models.chat.replies import Replies
from whymask.models.chat.scored import Masked, scored
from whymask.models.chat.tokens import Said
from whymask.models.chat.top import TopTokens
from whymask.models.dialogue import FIRST, Answer, cases, spelt, unmarked
from whymask.models.remote import Remote, RemoteBound, Served
from whymask.models.spending import Spending, prompt_tokens

LARGEST_REPLY = 16 * 2**20  # bytes: prompt_logprobs take some 200 for every token that the images become


@dataclass(frozen=True, eq=False)
class ChatBound(RemoteBound):
    """Images, a question about them, and the answer whose probability is explained."""

    answer: Answer
    said: tuple[Said, ...]  # the texts that the model is made to have said, where a score needs them

    def answered(self, answer: Answer, said: tuple[Said, ...], probes: int) -> Self:
        """The same with an answer."""
        return replace(self, target=answer.target, answer=answer, said=said, probes=probes)


class Words(dict[int, str]):
    """The texts of tokens by number, as far as they are known."""

    def __missing__(self, token: int) -> str:
        return f"token {token}"


class OpenAIChatModel(Served):
    """A model that answers questions about images behind an OpenAI-compatible chat server, or SGLang's `/generate`.

    What the server returns is learned when the model is made (`settings["scores"]`). With log-probabilities of a
    prompt's tokens, answers mean what they mean for a model that runs here. With those of the likeliest first tokens
    alone, an answer is one word and one token; a word that is not among them gets a floor, and `floored` counts those
    answers. Scores vary a little with what else the server is doing, hence not deterministic.
    """

    default_k = 10
    deterministic = False
    takes_several = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | Sequence[str],
        api_key: str | None = None,
        max_side: int = 448,
        timeout: float = 60.0,
        retries: int = 4,
        concurrency: int | None = None,
        floor: float | None = None,
        system: str | None = None,
        seed: int | None = None,
        max_pixels: int | None = None,
        image_format: str = "png",
        prompt: str | None = None,
        ca: str | None = None,
        price: str | None = None,
        max_requests: int | None = None,
        max_cost: float | None = None,
    ) -> None:
        """A model of a chat server.

        Args:
            model: its name on the server.
            base_url: up to the version, such as http://localhost:8000/v1; with `prompt` up to the port. Several, a list
                or separated by commas, are endpoints of one and the same model.
            api_key: by default the environment's OPENAI_API_KEY, unless base_url has a password; "" sends none.
            max_side, timeout, retries, concurrency, ca, price, max_requests, max_cost: as for `HttpModel`.
            floor: the score of a word that is not among the returned tokens; by default as large as it can be, the
                smaller of the least returned probability and what the returned ones leave of 1.
            system: the system prompt.
            seed: of the server's sampling.
            max_pixels: to which the server's own preprocessing reduces an image (vLLM's mm_processor_kwargs).
            image_format: "png" or "webp", both without loss, or "jpeg".
            prompt: for SGLang's /generate: the model's chat template as text, with its image token and {question}.
        """
        if floor is not None and not 0 <= floor <= 1:
            raise WhymaskError(f"floor must lie in [0, 1], not {floor!r}.")
        self.form = check_format(image_format)
        self.talk = Conversation(
            model,
            system,
            None if seed is None else whole("seed", seed, 0),
            None if max_pixels is None else whole("max_pixels", max_pixels, 1),
        )
        if prompt is not None and (system is not None or max_pixels is not None):
            raise WhymaskError("with prompt=, put the system prompt into the prompt; max_pixels is not available.")
        self.geometry = WholeImage(max_side)
        self.remote = Remote(
            base_url,
            ROUTE if prompt is None else "/generate",
            timeout=timeout,
            retries=retries,
            concurrency=concurrency,
            headers=bearer(base_url, api_key),
            ca=ca,
            largest=LARGEST_REPLY,
            spending=Spending(price, max_requests, max_cost),
        )
        self.model, self.name = model, f"openai:{model}"
        self.floor, self.floored = floor, 0
        # Several rounds, so that one slow answer does not leave the server idle.
        self.batch_size = 8 * self.remote.at_once
        self.engine = probe(partial(self._ask, images=0), self.talk, Replies(self.remote.shown, model), prompt)
        self.labels = self.engine.words = Words(self.engine.words)
        self._known: dict[tuple[str, str], Said | None] = {}
        self.settings = {"url": self.remote.shown, "scores": self.engine.level}
        if image_format in LOSSY:
            self.settings["image_format"] = LOSSY[image_format]
        self.fingerprint = composed(
            f"openai {model} {self.remote.fingerprint}",
            geometry=self.geometry.fingerprint,
            scores=self.engine.level,
            floor=floor,
            system=system,
            seed=seed,
            max_pixels=max_pixels,
            image_format=LOSSY.get(image_format),
            prompt=prompt,
        )

    def tokens_expected(self, height: int, width: int, question: str | None) -> tuple[float, float]:
        """About how many tokens a request has, and its reply."""
        return prompt_tokens(height, width, question), 1

    def settle(self, view: View, target: int | str | None, question: str | None) -> ChatBound:
        """Settle the answer; without a target it is the first token that the model gives for the whole image."""
        question, probes = self.asked(question), 0
        bound = self._posed(view, question)
        if target is None:
            (first,) = self._ask([self.engine.following(self._pictures(view.canvas, bound), question, ())])
            probes, target = 1, first.top
            if isinstance(self.engine, TopTokens):  # whose numbers mean nothing elsewhere
                target = self.labels.get(first.top)
                if target is None:
                    raise WhymaskError(f"{self.name} begins its answer with white space: pass a target, such as 'Yes'.")
        return bound.answered(*self.meant(target, question), probes)

    def answering(self, bound: Bound, target: int | str, question: str | None) -> ChatBound:
        """The same images and question with another answer."""
        return cast(ChatBound, bound).answered(*self.meant(target, self.asked(question)), 0)

    def respond(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Probabilities of the bounds' answers to masked images (B, H, W, 3), and the first tokens that are given."""
        found = self._responses(inputs, [[cast(ChatBound, bound)] for bound in bounds])
        return replace(found, score=found.score[:, 0])

    def respond_each(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Probabilities (B, T) of all answers; those that share a text, and all words, take one request an image."""
        return self._responses(inputs, [cast(Sequence[ChatBound], bounds)] * len(inputs))

    def generate(self, inputs: Any, bounds: Sequence[Bound], tokens: int) -> list[str]:
        """The model's answers to masked images, at most `tokens` tokens long."""
        asked = zip(inputs, cast(Sequence[ChatBound], bounds), strict=True)
        return self._ask(
            [self.engine.generated(self._pictures(canvas, b), cast(str, b.sent), tokens) for canvas, b in asked]
        )

    def answer(self, image: ImageSource, question: str, *, tokens: int = 32, resize: Resize = "own") -> str:
        """The model's own answer to a question about the whole image."""
        bound = self._posed(self.view(image, resize), self.asked(question))
        return self.generate(bound.inputs[None], [bound], tokens)[0]

    def places(self, bound: Bound) -> tuple[int, ...]:
        """The positions of the tokens that a score is of, the first token of the answer being 0."""
        return cast(ChatBound, bound).answer.places

    def meant(self, target: int | str, question: str) -> tuple[Answer, tuple[Said, ...]]:
        """The answer to a question that a user means, and what the model is made to have said for it.

        The tokens of a text are learned from the server, once.
        """
        if not isinstance(target, str):
            token = whole("a target that is no text", target, 0)
            return Answer(self.labels[token], ((token,),), token=token), ()
        text, plain, marked = unmarked(target)
        one_word = marked is None and len(plain.split()) == 1
        if isinstance(self.engine, TopTokens):
            if not one_word:
                raise self.engine.first_only(target)
            return Answer(plain, ((self.engine.word(plain),),)), ()
        if one_word and (forms := self._forms(plain, question)):
            ids = tuple(sorted(form.ids[0] for form in forms))
            return Answer(plain, (ids,)), () if self.engine.every_token else forms
        (said,) = self._cut(question, [plain])
        if said is None:
            raise WhymaskError(f"{self.remote.shown} does not take {plain!r:.80} as an answer of {self.model}.")
        return spelt(text, plain, marked, said.ids, said.spans), (said,)

    def _forms(self, word: str, question: str) -> tuple[Said, ...]:
        """The surface forms of a word that is a single token right after the prompt."""
        texts = [space + case for space in ("", " ") for case in cases(word)]
        found = self._cut(question, texts)
        single = [said for said in found if said is not None and len(said.ids) == 1]
        bare = [said for said in single if not said.text.startswith(" ")]
        return tuple({said.ids: said for said in reversed(single)}.values()) if bare else ()

    def _cut(self, question: str, texts: Sequence[str]) -> list[Said | None]:
        """The tokens of texts as answers."""
        fresh = [text for text in texts if (question, text) not in self._known]
        if fresh:
            found = cut(partial(self._ask, images=0), self.engine, question, fresh)
            self._known |= {(question, text): said for text, said in zip(fresh, found, strict=True)}
        return [self._known[question, text] for text in texts]

    def _responses(self, inputs: Any, bounds: Sequence[Sequence[ChatBound]]) -> Response:
        images = [
            Masked(self._pictures(canvas, asked[0]), cast(str, asked[0].sent), asked)
            for canvas, asked in zip(inputs, bounds, strict=True)
        ]
        found = scored(self._ask, self.engine, images, self.floor)
        self.floored += found.floored
        return Response(found.each, found.top)

    def _posed(self, view: View, question: str) -> ChatBound:
        return ChatBound.of(view, FIRST.target, sent=question, probes=0, answer=FIRST, said=())

    def _pictures(self, canvas: Any, bound: ChatBound) -> Pictures:
        return Pictures(canvas, bound.panels, self.form)

    def _ask(self, requests: Sequence[Request[Any]], images: int = 1) -> list[Any]:
        """What was read from the replies; a grey image is none of those that each request is about."""
        sent = [(request.body, request.read) for request in requests]
        return ask(self.remote, self.talk, sent, [images] * len(requests))
