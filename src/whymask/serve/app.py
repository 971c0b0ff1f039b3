"""The routes of the web view."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response, StreamingResponse

from whymask import METHOD
from whymask.errors import WhymaskError
from whymask.masking import FILLS
from whymask.models.base import Model
from whymask.models.registry import Ability
from whymask.results import EvidenceMask, Ordering
from whymask.search.recipes import METHODS
from whymask.serve.guard import Guard, RefusedError, drain, read_body
from whymask.serve.history import History
from whymask.serve.jobs import Job, Jobs, QueueFullError
from whymask.serve.request import MAX_BYTES, Request, read_image
from whymask.views.document import document
from whymask.views.report import VIEWER, asset, report

SCRIPTS = (*VIEWER, "page.js")
STYLES = ("viewer.css", "page.css")
EVERYTHING = get_args(Ability)
UPLOADS = 8  # images on their way in at the same time
TICK = 0.1  # seconds between two looks at a job that is watched


def create_app(
    models: Mapping[str, Callable[[], Model]],
    folder: Path,
    *,
    abilities: Mapping[str, Collection[str]] | None = None,
    hosts: Collection[str],
    waiting: int = 8,
    patience: float = 20.0,
    body_seconds: float = 30.0,
) -> FastAPI:
    """The web view as an ASGI application.

    Args:
        models: what a client may choose from; each is loaded when it is first asked for.
        folder: where results are kept.
        abilities: by model, what it can besides being run forward; everything where that is not told.
        hosts: the host names under which browsers may reach it.
        waiting: jobs that may wait; another one is answered 503.
        patience: seconds a job goes on when nobody watches it.
        body_seconds: seconds an upload may take.
    """
    told = abilities or {}
    history = History(folder)
    jobs = Jobs(models, history, waiting=waiting, patience=patience)
    uploads = asyncio.Semaphore(UPLOADS)
    decoding = asyncio.Semaphore(1)  # a small file may hold many pixels: one at a time
    # Now rather than when the first page asks: looking at parameters imports what the methods need.
    methods = [
        {
            "name": method.name,
            "returns": method.returns,
            "summary": method.summary,
            "k": "k" in method.parameters,
            "models": [name for name in models if method.abilities <= set(told.get(name, EVERYTHING))],
        }
        for method in METHODS.values()
    ]
    asked = [name for name in models if "question" in told.get(name, EVERYTHING)]

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.jobs = jobs  # to be stopped by the server
    app.add_middleware(Guard, hosts=hosts)

    @app.exception_handler(RefusedError)
    async def refused(_: HttpRequest, error: RefusedError) -> Response:
        return error.response

    @app.exception_handler(WhymaskError)
    async def mistake(_: HttpRequest, error: WhymaskError) -> Response:
        return JSONResponse({"error": str(error)}, 400)

    @app.exception_handler(404)
    @app.exception_handler(405)
    async def nowhere(_: HttpRequest, error: Any) -> Response:
        return JSONResponse({"error": f"{error.detail.lower()}."}, error.status_code, headers=error.headers)

    def find(name: str) -> Job:
        if name not in jobs.jobs:
            raise RefusedError(404, "there is no such job.")
        return jobs.jobs[name]

    def past(name: str) -> EvidenceMask | Ordering:
        result = history.load(name)
        if result is None:
            raise RefusedError(404, "there is no such result.")
        return result

    @app.api_route("/", methods=["GET", "HEAD"])
    def page() -> Response:
        return Response(asset("page.html"), media_type="text/html; charset=utf-8")

    @app.api_route("/static/{name}", methods=["GET", "HEAD"])
    def static(name: str) -> Response:
        if name not in (*SCRIPTS, *STYLES):
            raise RefusedError(404, "there is no such file.")
        kind = "text/css" if name in STYLES else "text/javascript"
        return Response(asset(name), media_type=f"{kind}; charset=utf-8")

    @app.get("/api/options")
    def options() -> dict[str, Any]:
        return {
            "models": list(models),
            "asked": asked,  # those that answer questions
            "methods": methods,
            "method": METHOD,
            "fills": FILLS,
            "max_bytes": MAX_BYTES,
        }

    @app.post("/api/jobs", status_code=202)
    async def submit(request: HttpRequest) -> dict[str, str]:
        try:
            wish = Request.of(dict(request.query_params), models)
            if jobs.full or uploads.locked():
                raise busy()
        except (WhymaskError, RefusedError):
            await drain(request, MAX_BYTES, body_seconds)
            raise
        async with uploads:
            image = await read_body(request, MAX_BYTES, body_seconds)
            async with decoding:
                await run_in_threadpool(read_image, image)  # what cannot be read is refused now
        try:
            return {"id": jobs.submit(wish, image).id}
        except QueueFullError:
            raise busy() from None

    @app.get("/api/jobs/{name}")
    def job(name: str) -> dict[str, Any]:
        if name not in jobs.jobs and history.path(name):
            return {"id": name, "state": "done"}
        return find(name).as_dict()

    @app.get("/api/jobs/{name}/picture")
    def job_picture(name: str) -> dict[str, Any]:
        found = find(name).picture
        if found is None:
            raise RefusedError(404, "the image has not been looked at yet.")
        return found

    @app.get("/api/jobs/{name}/events")
    async def events(name: str) -> Response:
        return StreamingResponse(follow(find(name)), media_type="text/event-stream")

    async def follow(found: Job) -> AsyncIterator[str]:
        """Everything that changes about a job, as server-sent events; a sign of life when nothing does."""
        last, quiet = "", 0
        with jobs.watch(found):
            while True:
                over = found.over
                now = json.dumps(found.as_dict())
                quiet += 1
                if now != last or quiet * TICK > 5:
                    yield f"data: {now}\n\n" if now != last else ": still here\n\n"
                    last, quiet = now, 0
                if over:
                    return
                await asyncio.sleep(TICK)

    @app.delete("/api/jobs/{name}")
    def cancel(name: str) -> dict[str, Any]:
        jobs.cancel(find(name))
        return find(name).as_dict()

    @app.get("/api/results")
    def results() -> list[dict[str, Any]]:
        return history.latest()

    @app.get("/api/results/{name}")
    def result(name: str) -> dict[str, Any]:
        found = past(name)
        return document([found], [found.provenance["method"]])

    @app.get("/api/results/{name}/result.npz")
    def download_result(name: str) -> Response:
        path = history.path(name)
        if path is None:
            raise RefusedError(404, "there is no such result.")
        return attachment(path.read_bytes(), "application/octet-stream", "result.npz")

    @app.get("/api/results/{name}/report.html")
    def download_report(name: str) -> Response:
        found = past(name)
        page = report([found], [found.provenance["method"]])
        return attachment(page.encode(), "text/html; charset=utf-8", "report.html")

    @app.get("/api/results/{name}/figure.png")
    def download_figure(name: str) -> Response:
        png = BytesIO()
        past(name).figure().savefig(png, format="png", dpi=220)
        return attachment(png.getvalue(), "image/png", "figure.png")

    return app


def busy() -> RefusedError:
    """The answer while there is no room for another job."""
    return RefusedError(
        503, "too many images are waiting; try again in a moment.", Retry_After="10", Connection="close"
    )


def attachment(content: bytes, kind: str, name: str) -> Response:
    """A file to save: browsers do not open it on this server's own origin."""
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="whymask-{name}"'})
