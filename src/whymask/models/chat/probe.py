"""What a server can do, learned from its replies: some accept `logprobs` and ignore them."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from whymask.errors import WhymaskError
from whymask.models.chat.engine import Engine, Request
from whymask.models.chat.messages import Conversation, Pictures
from whymask.models.chat.replies import LackingError, Replies
from whymask.models.chat.sglang import InputTokens
from whymask.models.chat.tokens import Said, said
from whymask.models.chat.top import TopTokens
from whymask.models.chat.vllm import ChosenTokens, PromptTokens
from whymask.models.posting import RETRIED, StatusError

Ask: TypeAlias = Callable[[Sequence[Request[Any]]], list[Any]]
"""Sends requests and returns what was read from the replies."""

PLAIN = np.full((64, 64, 3), 128, dtype=np.uint8)  # tokens of text do not depend on the image: any will do
QUESTION = "Is there a cup in the image ?"
FIRST_IDS = (0, 1, 2, 3)  # every vocabulary has them, and they are hardly the likeliest
LATER = RETRIED - {500}  # statuses that say nothing about what a server can do


def probe(ask: Ask, talk: Conversation, replies: Replies, prompt: str | None) -> Engine:
    """The engine for a server, by a few requests about a grey image.

    Args:
        ask: sends requests.
        talk: what the requests share.
        replies: reads what comes back.
        prompt: the chat template as text, where the server applies none.
    """
    plain = Pictures(PLAIN)
    if prompt is not None:
        engine = InputTokens(talk, replies, prompt)
        (first,) = ask([engine.following(plain, QUESTION, FIRST_IDS)])
        ask([engine.continued(plain, QUESTION, _said(ask, engine, engine.words.get(first.top, "")))])
        return engine
    likeliest = TopTokens(talk, replies)
    try:
        (first,) = ask([likeliest.following(plain, QUESTION)])
    except (LackingError, StatusError) as error:
        if isinstance(error, StatusError) and "logprobs" not in str(error):  # OpenAI's reasoning models have none
            raise
        hint = f"answers:{replies.model} measures scores from answers instead"
        raise LackingError(f"{str(error).rstrip('.')}; {hint}.") from None
    by_prompt = PromptTokens(talk, replies)
    try:
        own = _said(ask, by_prompt, likeliest.words.get(first.top, ""))
        ask([by_prompt.continued(plain, QUESTION, own), by_prompt.following(plain, QUESTION)])
    except (LackingError, StatusError) as error:
        _check(error)
        return likeliest
    chosen = ChosenTokens(talk, replies)
    try:
        ask([chosen.following(plain, QUESTION, FIRST_IDS)])
    except (LackingError, StatusError) as error:
        _check(error)
        return by_prompt
    return chosen


def cut(ask: Ask, engine: Engine, question: str, texts: Sequence[str]) -> list[Said | None]:
    """The tokens of texts as answers to a question; None for those that the server does not take as they are."""
    plain = Pictures(PLAIN)
    found = ask([engine.pieces(plain, question, text) for text in texts])
    return [said(text, pieces) for text, pieces in zip(texts, found, strict=True)]


def _said(ask: Ask, engine: Engine, word: str) -> Said:
    """An answer in tokens; an error where the server does not continue it."""
    (found,) = cut(ask, engine, QUESTION, [word if word.isalpha() else "Yes"])
    if found is None:
        raise engine.replies.lacking("log-probabilities at the end of a prompt")
    return found


def _check(error: WhymaskError) -> None:
    """Raise the error of a server that is only busy."""
    if isinstance(error, StatusError) and error.status in LATER:
        raise error
