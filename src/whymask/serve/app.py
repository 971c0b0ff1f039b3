"""The routes of the web view."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar, get_args

from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response

from whymask.errors import WhymaskError
from whymask.images.masking import FILLS
from whymask.methods import METHOD, methods
from whymask.models.base import Model
from whymask.models.registry import Ability
from whymask.results.mask import EvidenceMask
from whymask.results.ordering import Ordering
from whymask.serve.guard import Guard, RefusedError
from whymask.serve.history import History
from whymask.serve.jobs import Job, Jobs, QueueFullError
from whymask.serve.limits import Turns, Uploads, busy
from whymask.serve.request import MAX_BYTES, Request, read_image
from whymask.views.document import document
from whymask.views.report import VIEWER, asset, report

SCRIPTS = (*VIEWER, "page.js")
STYLES = ("viewer.css", "page.css")
EVERYTHING = get_args(Ability)
UPLOADS = 8  # images on their way in, or to be decoded, at the same time
FIGURES = 8  # figures asked for at the same time

log = logging.getLogger(__name__)
T = TypeVar("T")


def create_app(
    models: Mapping[str, Callable[[], Model]],
    folder: Path,
    *,
    abilities: Mapping[str, Collection[str]] | None = None,
    hosts: Collection[str],
    token: str | None = None,
    waiting: int = 8,
    patience: float = 20.0,
    body_seconds: float = 30.0,
) -> FastAPI:
    """The web view as an ASGI application.

    Args:
        models: what a client may choose from; each is loaded when it is first asked for.
        folder: where results are kept.
        abilities: by model, what it can besides being run forward; by default everything.
        hosts: the host names under which browsers may reach it.
        token: what every request must bring, where not everybody may use it.
        waiting: jobs that may wait; another one is answered 503.
        patience: seconds a job goes on when nobody asks about it.
        body_seconds: seconds an upload may take.
    """
    able = abilities or {}
    history = History(folder)
    jobs = Jobs(models, history, waiting=waiting, patience=patience)
    uploads = Uploads(UPLOADS, MAX_BYTES, body_seconds)
    decoding = Turns(2, most=UPLOADS, seconds=3, what="images")  # a small file may hold many pixels
    drawing = Turns(1, most=FIGURES, seconds=60, what="figures")  # matplotlib takes much memory
    # Now rather than when the first page asks: looking at parameters imports what the methods need.
    offered = [
        {
            "name": method.name,
            "returns": method.returns,
            "summary": method.summary,
            "k": "k" in method.parameters,
            "models": [name for name in models if method.abilities <= set(able.get(name, EVERYTHING))],
        }
        for method in methods()
    ]
    asked = [name for name in models if "question" in able.get(name, EVERYTHING)]

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.jobs = jobs  # to be stopped by the server
    app.add_middleware(Guard, hosts=hosts, token=token)

    @app.exception_handler(RefusedError)
    async def refused(_: HttpRequest, error: RefusedError) -> Response:
        return error.response

    @app.exception_handler(WhymaskError)
    async def mistake(_: HttpRequest, error: WhymaskError) -> Response:
        return JSONResponse({"error": str(error)}, 400)

    @app.exception_handler(404)
    @app.exception_handler(405)
    async def not_found(_: HttpRequest, error: Any) -> Response:
        return JSONResponse({"error": f"{error.detail.lower()}."}, error.status_code, headers=error.headers)

    def find(name: str) -> Job:
        job = jobs.jobs.get(name)
        if job is None:
            raise RefusedError(404, "there is no such job.")
        return job

    def view(name: str, of: Callable[[EvidenceMask | Ordering], T]) -> T:
        """A view of a past result. Its file may be from elsewhere: whatever is wrong with it is no fault of ours."""
        try:
            result = history.load(name)
            if result is not None:
                return of(result)
        except Exception as error:
            log.warning("%s.npz cannot be shown: %r", name, error)
            raise RefusedError(422, "this result cannot be shown: its file is broken.") from None
        raise RefusedError(404, "there is no such result.")

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
            "methods": offered,
            "method": METHOD,
            "fills": FILLS,
            "max_bytes": MAX_BYTES,
        }

    @app.post("/api/jobs", status_code=202)
    async def submit(request: HttpRequest) -> dict[str, str]:
        try:
            wish = Request.of(dict(request.query_params), models)
            if jobs.full or decoding.full:
                raise busy()
        except (WhymaskError, RefusedError):
            await uploads.drain(request)
            raise
        # Decoded once, and now: what cannot be read is refused before there is a job.
        image = await decoding.run(read_image, await uploads.read(request))
        try:
            return {"id": jobs.submit(wish, image).id}
        except QueueFullError:
            raise busy() from None

    @app.get("/api/jobs/{name}")
    def job(request: HttpRequest, name: str) -> dict[str, Any]:
        if name not in jobs.jobs and history.path(name):
            return {"id": name, "state": "done"}
        found = find(name)
        jobs.watch(found, hidden="hidden" in request.query_params)
        return found.as_dict()

    @app.get("/api/jobs/{name}/picture")
    def job_picture(name: str) -> dict[str, Any]:
        found = find(name).picture
        if found is None:
            raise RefusedError(404, "the image has not been looked at yet.")
        return found

    @app.delete("/api/jobs/{name}")
    def cancel(name: str) -> dict[str, Any]:
        jobs.cancel(find(name))
        return find(name).as_dict()

    @app.get("/api/results")
    def results() -> list[dict[str, Any]]:
        return history.latest()

    @app.get("/api/results/{name}")
    def result(name: str) -> dict[str, Any]:
        return view(name, lambda found: document([found], [found.provenance["method"]]))

    @app.delete("/api/results/{name}")
    def delete(name: str) -> dict[str, str]:
        if not history.delete(name):
            raise RefusedError(404, "there is no such result.")
        jobs.forget(name)
        return {"id": name}

    @app.get("/api/results/{name}/result.npz")
    def download_result(name: str) -> Response:
        content = history.read(name)
        if content is None:
            raise RefusedError(404, "there is no such result.")
        return attachment(content, "application/octet-stream", "result.npz")

    @app.get("/api/results/{name}/report.html")
    def download_report(name: str) -> Response:
        page = view(name, lambda found: report([found], [found.provenance["method"]]).encode())
        return attachment(page, "text/html; charset=utf-8", "report.html")

    @app.get("/api/results/{name}/figure.png")
    async def download_figure(name: str) -> Response:
        def draw(found: EvidenceMask | Ordering) -> bytes:
            png = BytesIO()
            found.figure().savefig(png, format="png", dpi=220)
            return png.getvalue()

        return attachment(await drawing.run(view, name, draw), "image/png", "figure.png")

    return app


def attachment(content: bytes, kind: str, name: str) -> Response:
    """A file to save: browsers do not open it on this server's own origin."""
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="whymask-{name}"'})
