"""What a client may ask a served model: the fields of an OpenAI chat request and of vLLM's, checked before any work."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from whymask.errors import WhymaskError
from whymask.serve.guard import RequestError
from whymask.serve.request import MAX_PIXELS, read_image

MAX_BYTES = 20_000_000  # of a body
MAX_IMAGES = 16
MAX_TEXT = 100_000  # characters of all messages
MAX_TOKENS = 4096  # of all answers to a request
MAX_LOGPROBS = 100_000  # in a reply
MAX_CHOICES = 128
TOP_LOGPROBS = 20  # the most at a position, as vLLM's own limit
SHORT = 256  # tokens of an answer whose length is not given

T = TypeVar("T", bound=BaseModel)


class FieldError(RequestError):
    """A field of a request is wrong."""

    def __init__(self, field: str, what: str) -> None:
        super().__init__(400, f"{field} {what}")
        self.field = field


class Strict(BaseModel):
    """A field that is not listed is an error: what is ignored without a word is believed to have worked."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Address(Strict):
    """The URL of an image."""

    url: str
    detail: str | None = None


class TextPart(Strict):
    """Text of a message."""

    type: Literal["text"]
    text: str


class ImagePart(Strict):
    """An image of a message."""

    type: Literal["image_url"]
    image_url: Address


class Message(Strict):
    """One turn."""

    role: Literal["system", "user", "assistant"]
    content: str | list[Annotated[TextPart | ImagePart, Field(discriminator="type")]]

    @property
    def parts(self) -> list[TextPart | ImagePart]:
        """Its texts and images in order."""
        return [TextPart(type="text", text=self.content)] if isinstance(self.content, str) else list(self.content)


class Conversation(Strict):
    """Messages, and how they end."""

    model: str | None = None
    messages: list[Message] = Field(min_length=1, max_length=100)
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: Literal[False] = False

    def check(self) -> None:
        """Raise an error for what the types alone allow."""
        if self.continue_final_message and self.add_generation_prompt:
            raise FieldError("continue_final_message", "needs add_generation_prompt: false.")
        if self.continue_final_message and self.messages[-1].role != "assistant":
            raise FieldError("continue_final_message", "needs a last message of the assistant.")
        if sum(len(part.text) for part in self.parts if isinstance(part, TextPart)) > MAX_TEXT:
            raise FieldError("messages", f"may hold {MAX_TEXT} characters.")
        if sum(isinstance(part, ImagePart) for part in self.parts) > MAX_IMAGES:
            raise FieldError("messages", f"may hold {MAX_IMAGES} images.")

    @property
    def parts(self) -> list[TextPart | ImagePart]:
        """The parts of all messages."""
        return [part for message in self.messages for part in message.parts]

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The messages as chat templates take them."""

        def plain(part: TextPart | ImagePart) -> dict[str, str]:
            return {"type": "text", "text": part.text} if isinstance(part, TextPart) else {"type": "image"}

        return [{"role": one.role, "content": [plain(part) for part in one.parts]} for one in self.messages]

    def images(self) -> list[Image.Image]:
        """The images, decoded."""
        return [_image(part.image_url.url) for part in self.parts if isinstance(part, ImagePart)]


class Limits(Strict):
    """Limits on the pixels of an image."""

    min_pixels: int | None = Field(None, ge=1, le=MAX_PIXELS)
    max_pixels: int | None = Field(None, ge=1, le=MAX_PIXELS)


class ChatRequest(Conversation):
    """POST /v1/chat/completions."""

    max_tokens: int | None = Field(None, ge=1, le=MAX_TOKENS)
    max_completion_tokens: int | None = Field(None, ge=1, le=MAX_TOKENS)
    n: int = Field(1, ge=1, le=MAX_CHOICES)
    temperature: float = Field(1.0, ge=0, le=100, allow_inf_nan=False)
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=TOP_LOGPROBS)
    logprob_token_ids: list[int] | None = Field(None, min_length=1, max_length=1024)
    prompt_logprobs: int | None = Field(None, ge=0, le=TOP_LOGPROBS)
    return_tokens_as_token_ids: bool = False
    return_token_ids: bool = False
    mm_processor_kwargs: Limits = Field(default_factory=lambda: Limits.model_validate({}))
    stream: Literal[False] = False
    user: str | None = None

    def check(self) -> None:
        """Raise an error for what the types alone allow."""
        super().check()
        if (self.top_logprobs or self.logprob_token_ids) and not self.logprobs:
            raise FieldError("top_logprobs" if self.top_logprobs else "logprob_token_ids", "needs logprobs: true.")
        if self.prompt_logprobs is not None and not (self.continue_final_message and self.tokens == 1):
            raise FieldError(
                "prompt_logprobs", "are those of the last message: they need continue_final_message and max_tokens 1."
            )
        if self.n * self.tokens > MAX_TOKENS:
            raise FieldError("n", f"all answers together may have {MAX_TOKENS} tokens: lower n or max_tokens.")
        if self.n * self.tokens * len(self.logprob_token_ids or ()) > MAX_LOGPROBS:
            raise FieldError(
                "logprob_token_ids", f"make more than {MAX_LOGPROBS:,} log-probabilities: lower max_tokens."
            )
        if not any(isinstance(part, ImagePart) for part in self.parts):
            raise FieldError("messages", "need an image: this server is for questions about images.")

    @property
    def tokens(self) -> int:
        """The most that an answer may have."""
        return self.max_completion_tokens or self.max_tokens or min(SHORT, MAX_TOKENS // self.n)


class TokenizeRequest(Conversation):
    """POST /tokenize, of messages."""

    return_token_strs: bool = False


class TokenizeTextRequest(Strict):
    """POST /tokenize, of a text."""

    model: str | None = None
    prompt: str = Field(max_length=MAX_TEXT)
    add_special_tokens: bool = True
    return_token_strs: bool = False


class DetokenizeRequest(Strict):
    """POST /detokenize."""

    model: str | None = None
    tokens: list[Annotated[int, Field(ge=0)]] = Field(max_length=MAX_TEXT)


@dataclass(frozen=True)
class Asked:
    """A checked request with its images."""

    request: ChatRequest
    images: list[Image.Image]


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object of a body, without the fields that are null."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is not JSON.") from None
    if not isinstance(fields, dict):
        raise RequestError(400, "the body must be a JSON object.")
    return {name: value for name, value in fields.items() if value is not None}


def checked(kind: type[T], fields: dict[str, Any]) -> T:
    """The request of these fields; the first one that is wrong raises an error that names it."""
    try:
        request = kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:100]
        what = "is not supported by this server" if first["type"] == "extra_forbidden" else f"is wrong: {first['msg']}"
        raise FieldError(where, f"{what}.") from None
    if isinstance(request, Conversation):
        request.check()
    return request


def _image(url: str) -> Image.Image:
    kind, comma, content = url.partition(",")
    if not (kind.startswith("data:image/") and kind.endswith(";base64") and comma):
        raise FieldError("image_url", "must be a data URI (data:image/png;base64,...); URLs are not fetched.")
    try:
        return read_image(b64decode(content, validate=True))
    except WhymaskError as error:
        raise FieldError("image_url", f"cannot be read: {error}") from None
    except ValueError:
        raise FieldError("image_url", "is not base64.") from None
