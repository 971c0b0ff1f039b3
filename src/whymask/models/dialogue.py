"""From a question to the tokens of a prompt, and from an answer to the tokens that are scored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from whymask.errors import WhymaskError, unknown, whole

MARKED = re.compile(r"\[\[(.+?)\]\]")


@dataclass(frozen=True)
class Answer:
    """What is explained: the mean probability, over the positions that have any, of the tokens wanted there."""

    text: str
    wanted: tuple[tuple[int, ...], ...]  # by position of the answer, the ids of which any will do
    forced: tuple[int, ...] = ()  # ids fed after the prompt (teacher forcing), one fewer than positions
    index: int = -1  # the token itself, where it is one

    @property
    def scored(self) -> int:
        """How many positions count."""
        return sum(bool(ids) for ids in self.wanted)


FIRST = Answer("", ((),))  # scores nothing: only the arg-max of the first position is of interest


class Dialogue:
    """A tokenizer with its chat template."""

    def __init__(self, tokenizer: Any, image_token: int, name: str) -> None:
        self.tokenizer, self.image_token, self.name = tokenizer, image_token, name
        if not tokenizer.chat_template:
            raise WhymaskError(f"{name} has no chat template: add its chat_template.jinja to the checkpoint.")

    def prompt(self, question: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tokens before and after the image's own."""
        question = question.strip()
        if not self._known(self._encode(question)):  # whole words only: the model would be asked something else
            raise self._no_token("question", question)
        content = [{"type": "image"}, {"type": "text", "text": question}]
        text = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        start = self.tokenizer.bos_token
        ids = self.tokenizer.encode(text, add_special_tokens=not (start and text.startswith(start)))
        slots = [i for i, token in enumerate(ids) if token == self.image_token]
        if len(slots) != 1:
            slot = self.tokenizer.convert_ids_to_tokens(self.image_token)
            reason = (
                f"its chat template must place {slot!r}"
                if not slots
                else f"leave {slot!r} out of the question, the chat template places it"
            )
            raise WhymaskError(f"the prompt of {self.name} has {len(slots)} slots for the image: {reason}.")
        return tuple(ids[: slots[0]]), tuple(ids[slots[0] + 1 :])

    def token(self, index: int) -> Answer:
        """An answer that begins with this very token."""
        if whole("a target that is no text", index, 0) >= len(self.tokenizer):
            raise WhymaskError(f"token {index} is outside the vocabulary 0 ... {len(self.tokenizer) - 1}.")
        return Answer(self.read([index]), ((index,),), index=index)

    def answer(self, text: str) -> Answer:
        """What a user means by an answer.

        One word: the answer begins with it, in any of its surface forms. Several words: the whole text. A [[marked]]
        word of a text: that word, after what stands before it.
        """
        text = text.strip()
        marks = MARKED.findall(text)
        if len(marks) > 1 or not "".join(marks or "x").strip():
            raise WhymaskError(f"mark one word of the answer, as in 'a [[dog]] on a sofa', not {text!r}.")
        text = re.sub(r"\[\[(\s*)(.+?)(\s*)\]\]", r"\1[[\2]]\3", text).strip()  # spaces belong to no word
        marked = MARKED.search(text)
        plain = MARKED.sub(r"\1", text)
        if not plain:
            raise WhymaskError("the answer is empty: pass a word such as 'Yes', or a text.")
        if marked is None and len(plain.split()) == 1:
            return Answer(plain, (self.word(plain),))
        encoded = self.tokenizer(plain, add_special_tokens=False, return_offsets_mapping=True)
        ids = tuple(encoded["input_ids"])
        if not self._known(ids):
            raise self._no_token("answer", plain)
        if marked is None:
            return Answer(text, tuple((i,) for i in ids), ids[:-1])
        start, end = marked.start(), marked.start() + len(marked[1])
        here = [number for number, (a, b) in enumerate(encoded["offset_mapping"]) if a < end and b > start]
        wanted = tuple((i,) if number in here else () for number, i in enumerate(ids[: here[-1] + 1]))
        return Answer(text, wanted, ids[: here[-1]])

    def word(self, word: str) -> tuple[int, ...]:
        """The tokens that begin an answer with this word: its surface forms, by case and with or without a space.

        Forms of several tokens count by the first of them only where no form is a token of its own, and only as
        typed: the "Y" of "YES" begins "You" as well.
        """
        cases = dict.fromkeys((word, word.lower(), word.capitalize(), word.upper()))
        forms = [self._encode(space + form) for form in cases for space in ("", " ")]
        single = {ids[0] for ids in forms if len(ids) == 1 and self._known(ids)}
        typed = {ids[0] for ids in forms[:2] if self._known(ids)}
        if not single | typed:
            raise self._no_token("answer", word)
        return tuple(sorted(single or typed))

    def read(self, ids: list[int]) -> str:
        """Tokens as text."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=False)).strip()

    def _encode(self, text: str) -> list[int]:
        """Tokens of a text on its own, without those that only hold a leading space."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        while len(ids) > 1 and not self.tokenizer.decode(ids[:1]).strip():
            ids = ids[1:]
        return ids

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
