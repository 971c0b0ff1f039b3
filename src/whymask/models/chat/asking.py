"""Sending requests to a chat server, and learning from its errors what it expects."""

import re
from collections.abc import Sequence
from typing import TypeVar

from whymask.models.chat.messages import Conversation
from whymask.models.posting import StatusError
from whymask.models.remote import Body, Reader, Remote

T = TypeVar("T")
ROUTE = "/chat/completions"
NEWER = "max_completion_tokens"  # what OpenAI's reasoning models take in place of max_tokens


def ask(
    remote: Remote,
    talk: Conversation,
    requests: Sequence[tuple[Body, Reader[T]]],
    images: Sequence[int] | None = None,
    *,
    hedge: bool = True,
) -> list[T]:
    """As `Remote.ask`. A server whose error names `max_completion_tokens` is sent that from then on."""
    try:
        return remote.ask(requests, images, hedge=hedge)
    except StatusError as error:
        if error.status == 404:
            raise StatusError(f"{error}{_hint(remote, str(error))}", 404) from None
        if talk.limit == NEWER or NEWER not in str(error):
            raise
    talk.limit = NEWER
    return remote.ask(requests, images, hedge=hedge)


def _hint(remote: Remote, error: str) -> str:
    """What to try where the URL of the endpoint that failed has no version."""
    for endpoint in remote.endpoints:
        base = endpoint.shown.removesuffix(ROUTE)
        if error.startswith(f"{endpoint.shown} ") and base != endpoint.shown and not re.search(r"/v\d", base):
            return f" base_url usually ends with the version: try {base}/v1."
    return ""
