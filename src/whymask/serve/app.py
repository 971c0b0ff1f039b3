"""The routes of the web view."""

import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI
from fastapi import Request as HttpRequest
from fastapi.responses import Response

from whymask.errors import WhymaskError
from whymask.models.base import Model
from whymask.results.base import Explanation
from whymask.results.plotting import encoded
from whymask.serve.again import offered_model, seen_again
from whymask.serve.examples import examples
from whymask.serve.guard import RequestError, protect
from whymask.serve.history import History
from whymask.serve.jobs import Job, Jobs, QueueFullError
from whymask.serve.limits import Turns, Uploads, unavailable
from whymask.serve.offer import page_options
from whymask.serve.request import MAX_BYTES, Request, read_image
from whymask.serve.what_if import MOST_WAITING, QUESTION_BYTES, parsed_question
from whymask.views.document import document
from whymask.views.report import VIEWER, asset, report

PAGE = ("page", "screen", "server", "form", "job", "cards", "gallery", "history", "result", "next")
SCRIPTS = (*VIEWER, *(f"{name}.js" for name in PAGE))
STYLES = ("viewer.css", "page.css", "form.css", "cards.css")
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
    """The web view as an ASGI application; models, folder and abilities (by default all) are those of `serve`.

    Args:
        hosts: the host names under which browsers may reach it.
        token: what every request must bring, where not everybody may use it.
        waiting: jobs that may wait; further ones get status 503.
        patience: seconds after which a job ends that no client asks about.
        body_seconds: seconds an upload may take.
    """
    history = History(folder)
    jobs = Jobs(models, history, waiting=waiting, patience=patience)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.jobs = jobs  # to be stopped by the server
    protect(app, hosts, token)
    app.include_router(page_routes(page_options(models, abilities or {})))
    app.include_router(job_routes(jobs, history, models, Uploads(UPLOADS, MAX_BYTES, body_seconds)))
    app.include_router(result_routes(jobs, history, models))
    app.include_router(what_if_routes(jobs, history, Uploads(MOST_WAITING, QUESTION_BYTES, body_seconds)))
    return app


def page_routes(offered: dict[str, Any]) -> APIRouter:
    """The page, its scripts and styles, and what can be chosen on it."""
    router = APIRouter()

    @router.api_route("/", methods=["GET", "HEAD"])
    def page() -> Response:
        return Response(asset("page.html"), media_type="text/html; charset=utf-8")

    @router.api_route("/static/{name}", methods=["GET", "HEAD"])
    def static(name: str) -> Response:
        if name not in (*SCRIPTS, *STYLES):
            raise RequestError(404, "there is no such file.")
        kind = "text/css" if name in STYLES else "text/javascript"
        return Response(asset(name), media_type=f"{kind}; charset=utf-8")

    @router.get("/api/options")
    def options() -> dict[str, Any]:
        return offered

    @router.get("/api/examples")
    def gallery() -> list[dict[str, Any]]:
        return examples()

    return router


def view(history: History, name: str, of: Callable[[Explanation], T]) -> T:
    """What `of` makes of a past result. Its file may come from anywhere, so any error is reported as a broken file."""
    try:
        result = history.load(name)
        if result is not None:
            return of(result)
    except Exception as error:
        log.warning("%s.npz cannot be shown: %r", name, error)
        raise RequestError(422, "this result cannot be shown: its file is broken.") from None
    raise RequestError(404, "there is no such result.")


def job_routes(jobs: Jobs, history: History, models: Collection[str], uploads: Uploads) -> APIRouter:
    """Submit, watch and cancel jobs."""
    router = APIRouter(prefix="/api/jobs")
    decoding = Turns(2, most=UPLOADS, seconds=3, what="images")  # a small file may hold many pixels

    def find(name: str) -> Job:
        job = jobs.jobs.get(name)
        if job is None:
            raise RequestError(404, "there is no such job.")
        return job

    @router.post("", status_code=202)
    async def submit(request: HttpRequest) -> dict[str, str]:
        given = dict(request.query_params)
        try:
            same = given.get("result")
            before = None if same is None else await decoding.run(view, history, same, lambda found: found)
            checked = Request.of(given, models, before)
            if jobs.full or decoding.full:
                raise unavailable()
        except (WhymaskError, RequestError):
            await uploads.drain(request)
            raise
        # Decoded once, and now: what cannot be read is refused before there is a job.
        content = await uploads.read(request)
        image = seen_again(before) if before else await decoding.run(read_image, content)
        try:
            return {"id": jobs.submit(checked, image, before).id}
        except QueueFullError:
            raise unavailable() from None

    @router.get("")
    def under_way() -> list[dict[str, Any]]:
        return jobs.under_way()

    @router.get("/{name}")
    def job(request: HttpRequest, name: str) -> dict[str, Any]:
        if name not in jobs.jobs and history.path(name):
            return {"id": name, "state": "done"}
        found = find(name)
        jobs.watch(found, hidden="hidden" in request.query_params)
        return found.as_dict() | {"ahead": jobs.ahead(found)}

    @router.get("/{name}/picture")
    def job_picture(name: str) -> dict[str, Any]:
        found = find(name).picture
        if found is None:
            raise RequestError(404, "the image is not ready yet.")
        return found

    @router.delete("/{name}")
    def cancel(name: str) -> dict[str, Any]:
        jobs.cancel(find(name))
        return find(name).as_dict()

    return router


def result_routes(jobs: Jobs, history: History, models: Collection[str]) -> APIRouter:
    """List, show, download and delete results."""
    router = APIRouter(prefix="/api/results")
    drawing = Turns(1, most=FIGURES, seconds=60, what="figures")  # matplotlib takes much memory

    def shown(found: Explanation) -> dict[str, Any]:
        return document([found], [found.provenance["method"]]) | {"model": offered_model(found, models)}

    @router.get("")
    def results() -> list[dict[str, Any]]:
        return history.latest()

    @router.get("/{name}")
    def result(name: str) -> dict[str, Any]:
        return view(history, name, shown)

    @router.delete("/{name}")
    def delete(name: str) -> dict[str, str]:
        if not history.delete(name):
            raise RequestError(404, "there is no such result.")
        jobs.forget(name)
        return {"id": name}

    @router.get("/{name}/result.npz")
    def download_result(name: str) -> Response:
        content = history.read(name)
        if content is None:
            raise RequestError(404, "there is no such result.")
        return attachment(content, "application/octet-stream", "result.npz")

    @router.get("/{name}/report.html")
    def download_report(name: str) -> Response:
        page = view(history, name, lambda found: report([found], [found.provenance["method"]]).encode())
        return attachment(page, "text/html; charset=utf-8", "report.html")

    @router.get("/{name}/figure.png")
    async def download_figure(name: str) -> Response:
        return attachment(await drawing.run(view, history, name, figure), "image/png", "figure.png")

    return router


def what_if_routes(jobs: Jobs, history: History, uploads: Uploads) -> APIRouter:
    """Ask the model of a past result about any of its regions."""
    router = APIRouter(prefix="/api/results")

    @router.post("/{name}/what-if")
    async def what_if(request: HttpRequest, name: str) -> dict[str, Any]:
        body = await uploads.read(request)
        if history.path(name) is None:
            raise RequestError(404, "there is no such result.")
        return await jobs.what_ifs.ask(name, *parsed_question(body))

    return router


def figure(found: Explanation) -> bytes:
    """The picture of a result as a PNG file."""
    return encoded(found.figure(), "png")


def attachment(content: bytes, kind: str, name: str) -> Response:
    """A file to save: browsers do not open it on this server's own origin."""
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="whymask-{name}"'})
