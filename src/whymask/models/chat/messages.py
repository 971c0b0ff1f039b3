"""What is sent to a chat server: pictures, the messages around them, the fields of a request, and its key."""

import os
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from threading import Lock
from typing import Any

from PIL import Image

from whymask.errors import unknown
from whymask.images.imaging import Canvas
from whymask.images.panels import Panel, cut
from whymask.utils.redact import urls_in

FORMATS: dict[str, dict[str, Any]] = {
    "png": {"compress_level": 1},  # a third of the default's time, a tenth larger
    "webp": {"lossless": True, "quality": 0, "method": 0},  # "quality" is effort here; a fifth smaller than PNG
    "jpeg": {"quality": 95, "subsampling": 0},
}
"""How pictures are encoded. JPEG alone changes pixels."""
LOSSY = {"jpeg": "jpeg, quality 95: pixels differ a little from those that are explained"}


def check_format(name: str) -> str:
    """A known format, or an error."""
    if name not in FORMATS:
        raise unknown("image_format", name, FORMATS)
    return name


def encoded(canvas: Canvas, form: str) -> str:
    """Pixels (H, W, 3) as a file in base64."""
    file = BytesIO()
    Image.fromarray(canvas).save(file, form, **FORMATS[form])
    return b64encode(file.getvalue()).decode()


class Pictures:
    """The images of one question. They are encoded once, by the first request that is sent about them."""

    def __init__(self, canvas: Canvas, panels: Sequence[Panel] = (), form: str = "png") -> None:
        self.form = form
        self._canvases = cut(canvas, panels) if panels else [canvas]
        self._lock = Lock()  # requests are made in threads
        self._encoded: list[str] = []

    @property
    def encoded(self) -> list[str]:
        """Each of them as a file in base64."""
        with self._lock:
            if not self._encoded:
                self._encoded = [encoded(canvas, self.form) for canvas in self._canvases]
            return self._encoded


@dataclass
class Conversation:
    """What all requests to a chat server share.

    A request begins with it, then come the pictures, so that servers which keep the beginnings of prompts can use them.
    """

    model: str
    system: str | None = None
    seed: int | None = None  # of the server's sampling
    max_pixels: int | None = None  # to which the server's own preprocessing reduces an image
    limit: str = field(default="max_tokens", init=False)  # the name of the field, which depends on the model

    def body(
        self, pictures: Pictures, question: str, said: str | None = None, *, tokens: int = 1, **fields: Any
    ) -> dict[str, Any]:
        """The JSON of a request for an answer, or for none after what the model is made to have said."""
        content: list[dict[str, Any]] = [
            {"type": "image_url", "image_url": {"url": f"data:image/{pictures.form};base64,{one}"}}
            for one in pictures.encoded
        ]
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": [*content, {"type": "text", "text": question}]},
        ]
        if self.system is not None:
            messages.insert(0, {"role": "system", "content": self.system})
        body: dict[str, Any] = {"model": self.model, "messages": messages, self.limit: tokens, "temperature": 0}
        if said is not None:
            messages.append({"role": "assistant", "content": said})
            body |= {"add_generation_prompt": False, "continue_final_message": True}
        if self.seed is not None:
            body["seed"] = self.seed
        if self.max_pixels is not None:
            body["mm_processor_kwargs"] = {"max_pixels": self.max_pixels}
        return body | fields


def bearer(base_url: str | Sequence[str], api_key: str | None) -> dict[str, str]:
    """The header by which a client says who it is; without a key, that of the environment."""
    if api_key is None:  # what is in the URL was given for this server, what is in the environment was not
        known = any(re.match(r"\w+://[^/?#]*@", str(url)) for url in urls_in(base_url))
        api_key = "" if known else os.environ.get("OPENAI_API_KEY", "")
    key = api_key.strip()
    return {"Authorization": f"Bearer {key}"} if key else {}
