"""From a question to the tokens of a prompt, and from an answer to the tokens that are scored."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Floats
from whymask.errors import WhymaskError, unknown, whole
from whymask.models.base import Target

MARKED = re.compile(r"\[\[(.+?)\]\]")


@dataclass(frozen=True)
class Answer:
    """What is explained: the probability of a word, or the mean probability of the tokens of a text.

    Both are over the positions where any token is wanted. A word of several tokens has the product of their
    probabilities: the mean would give "42" half of a score for the "2" that must follow a "4".
    """

    text: str
    wanted: tuple[tuple[int, ...], ...]  # by position of the answer, the ids of which any will do
    forced: tuple[int, ...] = ()  # ids fed after the prompt (teacher forcing), one fewer than positions
    mean: bool = False  # over the tokens of a text
    token: int | None = None  # where it is this very token

    @property
    def target(self) -> Target:
        """The answer as a target."""
        return Target.named(self.text) if self.token is None else Target(self.token, self.text)

    @property
    def scored(self) -> int:
        """How many positions count."""
        return sum(bool(ids) for ids in self.wanted)


FIRST = Answer("", ((),), mean=True)  # scores nothing: only the arg-max of the first position is of interest


class Context(NamedTuple):
    """What an answer follows."""

    text: str  # the prompt, with the space that its template puts before an answer
    ids: list[int]  # the prompt's tokens, without that space


class Dialogue:
    """A tokenizer, and how a question becomes a prompt: by the chat template, which a processor may hold instead.

    Where there is no chat template, the question as typed is the prompt, after `slot` where that stands for the image.
    """

    slot = ""

    def __init__(self, tokenizer: Any, name: str, template: Any = None) -> None:
        self.tokenizer, self.name = tokenizer, name
        self.template = tokenizer if template is None else template

    def around(self, prompt: str, image_token: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tokens of a prompt before and after the image's own, which take the place of one `image_token`."""
        ids = self.tokens(prompt)
        slots = [i for i, token in enumerate(ids) if token == image_token]
        if len(slots) != 1:
            slot = self.tokenizer.convert_ids_to_tokens(image_token)
            reason = f"its chat template must place {slot!r}"
            if slots:
                reason = f"leave {slot!r} out of the question, the chat template places it"
            raise WhymaskError(f"the prompt of {self.name} has {len(slots)} slots for the image: {reason}.")
        return tuple(ids[: slots[0]]), tuple(ids[slots[0] + 1 :])

    def prompt(self, question: str, images: int = 1) -> str:
        """The prompt as text, up to where the answer begins."""
        if not self._known(self._encode(question.strip())):  # whole words only: the model would be asked something else
            raise self._no_token("question", question.strip())
        return self.render(question, images=images)

    def token(self, index: int) -> Answer:
        """An answer that begins with this very token."""
        if whole("a target that is no text", index, 0) >= len(self.tokenizer):
            raise WhymaskError(f"token {index} is outside the vocabulary 0 ... {len(self.tokenizer) - 1}.")
        return Answer(self.read([index]), ((index,),), token=index)

    def answer(self, text: str, question: str) -> Answer:
        """What a user means by an answer to this question.

        One word that is a token: the answer begins with it, in any of its surface forms. A word of several tokens: all
        of them, as typed. Several words: the whole text. A [[marked]] word of a text: that word, after what stands
        before it.
        """
        text, plain, marked = unmarked(text)
        context = self.context(question)
        if marked is None and len(plain.split()) == 1 and (forms := self._forms(plain, context)):
            return Answer(plain, (forms,))
        ids, spans = self._continued(context, plain)
        if not self._known(ids):
            raise self._no_token("answer", plain)
        return spelt(text, plain, marked, ids, spans)

    def context(self, question: str) -> Context:
        """What an answer to this question follows."""
        prompt = self.render(question)
        return Context(prompt + self._gap(question, prompt), self._tokens(prompt)["input_ids"])

    def tokens(self, prompt: str) -> list[int]:
        """The tokens of a prompt."""
        return list(self._tokens(prompt)["input_ids"])

    def read(self, ids: list[int]) -> str:
        """Tokens as text."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=False)).strip()

    def render(self, question: str, answer: str | None = None, images: int = 1) -> str:
        """The prompt as text, up to where the answer begins; or the conversation with an answer."""
        if not self.template.chat_template:
            prompt = question if self.slot in question else self.slot + question
            return prompt if answer is None else f"{prompt} {answer}"
        content = [*[{"type": "image"}] * images, {"type": "text", "text": question.strip()}]
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if answer is not None:
            messages.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
        return self.chat(messages, add_generation_prompt=answer is None)

    def chat(
        self, messages: list[dict[str, Any]], *, add_generation_prompt: bool, continue_final_message: bool = False
    ) -> str:
        """A conversation as text: up to where an answer begins, or with a last message that is not ended."""
        ending = {"continue_final_message": True} if continue_final_message else {}
        options = {"tokenize": False, "add_generation_prompt": add_generation_prompt, **ending}
        return str(self.template.apply_chat_template(messages, **options))

    def _tokens(self, text: str) -> Any:
        """Tokens of a text that begins as the prompt does, with the characters that each of them stands for."""
        start = self.tokenizer.bos_token
        special = not (start and text.startswith(start))
        return self.tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)

    def _forms(self, word: str, context: Context) -> tuple[int, ...]:
        """The tokens that are this word in one of its surface forms, by case and with or without a space.

        Empty unless the word, in some case, is one token right after the prompt: " umbrella" may be one where an answer
        would begin with "umb", "rella".
        """
        first = [self._continued(context, form)[0] for form in cases(word)]
        if not any(len(ids) == 1 and self._known(ids) for ids in first):
            return ()
        forms = [*first, *(self._encode(space + form) for form in cases(word) for space in ("", " "))]
        return tuple(sorted({ids[0] for ids in forms if len(ids) == 1 and self._known(ids)}))

    def _continued(self, context: Context, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The tokens that an answer adds to the prompt, and the characters of the answer that each stands for."""
        both, length = self._tokens(context.text + text), len(context.text)
        if both["input_ids"][: len(context.ids)] == context.ids:
            spans = [(a - length, b - length) for a, b in both["offset_mapping"]]
            return both["input_ids"][len(context.ids) :], spans[len(context.ids) :]
        # The answer would change the prompt's last tokens, which the model is given as they are: take it on its own.
        alone = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return alone["input_ids"], alone["offset_mapping"]

    def _gap(self, question: str, prompt: str) -> str:
        """What stands between the prompt and an answer: what the template puts there, else what one would type."""
        try:
            full = self.render(question, "answer")
        except Exception:  # templates that take no answer fail in ways of their own
            full = ""
        gap, found, _ = full.removeprefix(prompt).partition("answer")
        if full.startswith(prompt) and found and not gap.strip():
            return gap
        return "" if prompt[-1:].isspace() or prompt.endswith(tuple(self.tokenizer.all_special_tokens)) else " "

    def _encode(self, text: str) -> list[int]:
        """Tokens of a text on its own."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _known(self, ids: list[int] | tuple[int, ...]) -> bool:
        return bool(ids) and self.tokenizer.unk_token_id not in ids

    def _no_token(self, kind: str, text: str) -> WhymaskError:
        word = next((word for word in text.split() if not self._known(self._encode(word))), text)
        vocabulary = (token.lstrip("Ġ▁") for token in self.tokenizer.get_vocab())
        closest = str(unknown("word", word, [token for token in vocabulary if token.isalnum()])).partition("; ")[2]
        return WhymaskError(f"the {kind} {text!r} has no token for {word!r} in {self.name}; {closest}")


class TokenTexts:
    """The answers of a language model by number: its tokens as text."""

    def __init__(self, dialogue: Dialogue) -> None:
        self.dialogue = dialogue

    def __len__(self) -> int:
        return len(self.dialogue.tokenizer)

    def __getitem__(self, index: int) -> str:
        return self.dialogue.read([index])


def cases(word: str) -> list[str]:
    """A word as it may be written at the beginning of an answer."""
    return list(dict.fromkeys((word, word.lower(), word.capitalize(), word.upper())))


def spelt(
    text: str, plain: str, marked: re.Match[str] | None, ids: Sequence[int], spans: Sequence[tuple[int, int]]
) -> Answer:
    """What a user means by an answer, from its tokens and the characters that each of them stands for."""
    start, end = (marked.start(), marked.start() + len(marked[1])) if marked else (0, len(plain))
    # A token of the space before the answer alone is part of no word: it is fed and not scored.
    here = [number for number, (a, b) in enumerate(spans) if a < end and b > start]
    wanted = tuple((i,) if number in here else () for number, i in enumerate(ids[: here[-1] + 1]))
    return Answer(text, wanted, tuple(ids[: here[-1]]), mean=marked is None and len(plain.split()) > 1)


def over_positions(chances: Floats, rows: NDArray[np.int64], answers: Sequence[Answer]) -> Floats:
    """The score (B,) of every answer, from the probabilities at its positions (row by row)."""
    means = np.bincount(rows, chances) / np.maximum(1, [answer.scored for answer in answers])
    products = np.ones(len(answers))
    counts = np.array([bool(ids) for answer in answers for ids in answer.wanted])
    np.multiply.at(products, rows[counts], chances[counts])
    return np.where([answer.mean for answer in answers], means, products)


def unmarked(text: str) -> tuple[str, str, re.Match[str] | None]:
    """An answer as typed, without its marks, and where its [[marked]] word is, if it has one."""
    marks = MARKED.findall(text)
    if len(marks) > 1 or not "".join(marks or "x").strip():
        raise WhymaskError(f"mark one word of the answer, as in 'a [[dog]] on a sofa', not {text!r}.")
    text = re.sub(r"\[\[(\s*)(.+?)(\s*)\]\]", r"\1[[\2]]\3", text).strip()  # spaces belong to no word
    plain = MARKED.sub(r"\1", text)
    if not plain:
        raise WhymaskError("the answer is empty: pass a word such as 'Yes', or a text.")
    return text, plain, MARKED.search(text)
