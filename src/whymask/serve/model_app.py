"""A multimodal model behind the routes of OpenAI's chat API, with the request fields that vLLM adds to them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Collection
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, Response

from whymask.models.mllm import Mllm
from whymask.serve.chat import (
    MAX_BYTES,
    Asked,
    ChatRequest,
    DetokenizeRequest,
    FieldError,
    TokenizeRequest,
    TokenizeTextRequest,
    checked,
    parsed,
)
from whymask.serve.connections import MOST
from whymask.serve.engine import Engine, Reply, context, rendered
from whymask.serve.guard import RequestError, protect
from whymask.serve.limits import Turns, Uploads, unavailable
from whymask.serve.sampling import Place

LEAST = -9999.0  # in place of the log of 0, which JSON cannot hold; as vLLM does
KINDS = {400: "BadRequestError", 401: "AuthenticationError", 404: "NotFoundError", 503: "ServiceUnavailableError"}


def create_model_app(
    model: Mllm,
    name: str,
    *,
    hosts: Collection[str],
    token: str | None = None,
    waiting: int = 512,
    seconds: float = 30.0,
) -> FastAPI:
    """The endpoint as an ASGI application.

    Args:
        model: what it serves.
        name: the name that requests give.
        hosts: the host names under which it may be reached.
        token: what every request must bring as "Authorization: Bearer", where not everybody may use it.
        waiting: requests that may wait; further ones get status 503.
        seconds: that a body may take to arrive.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    engine = Engine(model, waiting=waiting)
    app.state.jobs = engine  # to be stopped by the server
    protect(app, hosts, token, failed)
    app.include_router(routes(engine, name, Uploads(MOST, MAX_BYTES, seconds)))
    return app


def routes(engine: Engine, name: str, uploads: Uploads) -> APIRouter:
    """Chat completions, and what clients ask about the model."""
    router = APIRouter()
    model, dialogue = engine.model, engine.model.dialogue
    decoding = Turns(4, most=MOST, seconds=30, what="images")
    started = int(time.time())

    async def fields(request: Request) -> dict[str, Any]:
        given = parsed(await uploads.read(request))
        if given.get("model", name) != name:
            raise RequestError(404, f"the model {str(given['model'])[:80]!r} does not exist: this server has {name!r}.")
        return given

    @router.get("/health")
    def health() -> Response:
        return Response()

    @router.get("/v1/models")
    def models() -> dict[str, Any]:
        about = {"created": started, "owned_by": "whymask", "max_model_len": context(model)}
        return {"object": "list", "data": [{"id": name, "object": "model", **about}]}

    @router.post("/v1/chat/completions")
    async def complete(request: Request) -> dict[str, Any]:
        if engine.full:
            await uploads.drain(request)
            raise unavailable("requests")
        chat = checked(ChatRequest, await fields(request))
        if max(chat.logprob_token_ids or [0]) >= len(dialogue.tokenizer) or min(chat.logprob_token_ids or [0]) < 0:
            raise FieldError("logprob_token_ids", f"must lie in the vocabulary 0 ... {len(dialogue.tokenizer) - 1}.")
        images = await decoding.run(chat.images)
        reply = await asyncio.wrap_future(engine.submit(Asked(chat, images)))
        return completion(model, name, chat, reply)

    @router.post("/tokenize")
    async def tokenize(request: Request) -> dict[str, Any]:
        given = await fields(request)
        asked: TokenizeRequest | TokenizeTextRequest
        if "messages" in given:
            asked = checked(TokenizeRequest, given)
            ids = dialogue.tokens(rendered(model, asked))
        else:
            asked = checked(TokenizeTextRequest, given)
            ids = dialogue.tokenizer.encode(asked.prompt, add_special_tokens=asked.add_special_tokens)
        texts = dialogue.tokenizer.convert_ids_to_tokens(ids) if asked.return_token_strs else None
        return {"count": len(ids), "max_model_len": context(model), "tokens": ids, "token_strs": texts}

    @router.post("/detokenize")
    async def detokenize(request: Request) -> dict[str, str]:
        asked = checked(DetokenizeRequest, await fields(request))
        if max(asked.tokens, default=0) >= len(dialogue.tokenizer):
            raise FieldError("tokens", f"must lie in the vocabulary 0 ... {len(dialogue.tokenizer) - 1}.")
        return {"prompt": dialogue.tokenizer.decode(asked.tokens)}

    return router


def completion(model: Mllm, name: str, chat: ChatRequest, reply: Reply) -> dict[str, Any]:
    """The body of a chat completion."""
    written = sum(len(choice.ids) for choice in reply.choices)
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": choice.text},
            "logprobs": {"content": [logprob(model, chat, p) for p in choice.places]} if chat.logprobs else None,
            "finish_reason": "stop" if choice.ended else "length",
            "token_ids": list(choice.ids) if chat.return_token_ids else None,
        }
        for index, choice in enumerate(reply.choices)
    ]
    return {
        "id": f"chatcmpl-{secrets.token_hex(16)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": name,
        "choices": choices,
        "usage": {
            "prompt_tokens": reply.prompt,
            "completion_tokens": written,
            "total_tokens": reply.prompt + written,
        },
        "prompt_logprobs": prompt_logprobs(model, chat, reply),
        "prompt_token_ids": reply.prompt_ids if chat.return_token_ids else None,
    }


def logprob(model: Mllm, chat: ChatRequest, place: Place) -> dict[str, Any]:
    """The log-probability of a token of an answer, and of the likeliest alternatives."""

    def entry(token: int, value: float) -> dict[str, Any]:
        text = f"token_id:{token}" if chat.return_tokens_as_token_ids else token_text(model, token)
        return {"token": text, "logprob": max(value, LEAST), "bytes": list(text.encode())}

    others = [entry(token, value) for token, value, _ in place.others]
    return entry(place.token, place.logprob) | {"top_logprobs": others}


def prompt_logprobs(model: Mllm, chat: ChatRequest, reply: Reply) -> list[dict[str, Any] | None] | None:
    """One entry for every token of the prompt; null before the message that is continued, which alone is scored."""
    if chat.prompt_logprobs is None:
        return None

    def entry(token: int, value: float, rank: int) -> dict[str, Any]:
        return {"logprob": max(value, LEAST), "rank": rank, "decoded_token": token_text(model, token)}

    written: list[dict[str, Any] | None] = [
        {str(token): entry(token, value, rank) for token, value, rank in ((p.token, p.logprob, p.rank), *p.others)}
        for p in reply.continued or []
    ]
    return [None] * (reply.prompt - len(written)) + written


def token_text(model: Mllm, token: int) -> str:
    """A token as text, with its spaces."""
    return str(model.dialogue.tokenizer.decode([token]))


def failed(error: RequestError) -> Response:
    """An error in the form of OpenAI's API."""
    message = str(error) if error.status != 401 else "send the key of this server as 'Authorization: Bearer KEY'."
    kind = KINDS.get(error.status, "InternalServerError" if error.status >= 500 else "BadRequestError")
    written = {"message": message, "type": kind, "param": getattr(error, "field", None), "code": error.status}
    return JSONResponse({"error": written}, error.status, headers=error.headers)
