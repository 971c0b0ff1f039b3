"""What scores are made of, whatever the server: probabilities of the next token, and of the tokens of a text."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from whymask.models.chat.messages import Conversation, Pictures
from whymask.models.chat.replies import Replies
from whymask.models.chat.tokens import Piece, Said

T = TypeVar("T")


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request: its JSON, made when it is sent, and what to read from the JSON of the reply."""

    body: Callable[[], dict[str, Any]]
    read: Callable[[Any], T]


@dataclass(frozen=True)
class Next:
    """What an answer may begin with."""

    chances: dict[int, float]  # by token; not all that were asked for, where a server returns only the likeliest
    top: int  # the token that the model gives
    rest: float = 0.0  # the most that a token which is not in `chances` can have


@dataclass(frozen=True)
class Continued:
    """The probabilities of an answer's tokens, each after those before it."""

    chances: list[float]
    top: int  # the token that the model would give first


class Engine(ABC):
    """A kind of server, by what its replies hold. Tokens have the server's numbers."""

    level: str  # for the provenance
    every_token = True  # whether a token has a probability however unlikely it is

    def __init__(self, talk: Conversation, replies: Replies) -> None:
        self.talk, self.replies = talk, replies
        self.words: dict[int, str] = {}  # the texts of tokens, as far as they are known

    def learn(self, token: int, text: Any) -> None:
        """Keep the text of a token."""
        if isinstance(text, str) and text.strip():
            self.words.setdefault(token, text.strip())

    @abstractmethod
    def following(self, pictures: Pictures, question: str, ids: Collection[int]) -> Request[Next]:
        """The probabilities of some tokens to be the first of the answer."""

    @abstractmethod
    def generated(self, pictures: Pictures, question: str, tokens: int) -> Request[str]:
        """The model's own answer, at most `tokens` tokens long."""

    def continued(self, pictures: Pictures, question: str, said: Said) -> Request[Continued]:
        """The probabilities of a text's tokens to be the answer's, where a server returns them."""
        raise NotImplementedError

    def pieces(self, pictures: Pictures, question: str, text: str) -> Request[list[Piece]]:
        """The tokens of the prompt followed by those of a text, or the last of them, where a server returns them."""
        raise NotImplementedError
