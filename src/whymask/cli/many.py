"""`whymask explain` for many images: which they are, which are done already, and the index page."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from glob import glob, has_magic
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from tqdm import tqdm

from whymask.cli.options import Options, write_as
from whymask.errors import ExhaustedError, ImageError, WhymaskError, whole
from whymask.explainer.explainer import Explainer
from whymask.images.imaging import DRAWN, FORMATS, read_file
from whymask.images.masking import fill_names
from whymask.models.base import Wanted
from whymask.models.spending import Spends
from whymask.results.base import Explanation
from whymask.results.ordering import Ordering
from whymask.utils.digest import digest
from whymask.utils.files import atomic, writable
from whymask.utils.interrupts import INTERRUPTS, exit_code
from whymask.utils.redact import redacted
from whymask.version import __version__
from whymask.views.index import Entry, index_page

INDEX = "index.html"
SUFFIXES = {".jpg", ".jpeg", ".tif", ".heic", *(f".{kind.lower()}" for kind in FORMATS)}
CHUNK = 16  # images that a process is given at a time


@dataclass(frozen=True)
class Task:
    """What to explain of every image."""

    options: Options
    model: str
    target: Wanted
    question: str | None

    def explainer(self) -> Explainer:
        """The model with the settings."""
        return Explainer(self.options.load(self.model), self.options.settings)


@dataclass(frozen=True)
class Outcome:
    """What became of an image: the report of its result, or why there is none."""

    path: str
    report: dict[str, Any]
    line: str
    error: str = ""


def is_one(arguments: Sequence[str]) -> bool:
    """Whether these arguments name a single image."""
    (first, *more) = arguments
    named = Path(first).is_file() or not (first == "-" or Path(first).is_dir() or has_magic(first))
    return not more and named


def images_of(arguments: Iterable[str], out: Path | None = None) -> list[str]:
    """The images that files, folders, patterns and "-" (a list on stdin, a line each) name, each of them once."""
    found: list[str] = []
    for argument in arguments:
        path = Path(argument)
        if argument == "-":
            found += [line.rstrip("\r\n") for line in sys.stdin if line.strip()]
        elif path.is_dir():
            if out is not None and out.exists() and path.samefile(out):
                raise WhymaskError(f"{path} is the folder of the results: pass another folder as --out.")
            inside = sorted(str(file) for file in path.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
            if not inside:
                raise WhymaskError(f"there is no image in {path}; to search subfolders too, pass '{path}/**/*'.")
            found += inside
        elif has_magic(argument) and not path.exists():
            matching = sorted(file for file in glob(argument, recursive=True) if Path(file).suffix.lower() in SUFFIXES)
            if not matching:
                raise WhymaskError(f"no image matches {argument!r}.")
            found += matching
        else:
            found.append(argument)
    if not found:
        raise WhymaskError("the list on stdin names no image.")
    return list(dict.fromkeys(found))


def explain_many(arguments: Sequence[str], task: Task, jobs: int) -> None:
    """Explain every image that has no result with these settings yet; write an index page about all of them."""
    options = task.options
    whole("--jobs", jobs, 1)
    if jobs > 1 and (options.max_requests is not None or options.max_cost is not None):
        raise WhymaskError("--max-requests and --max-cost are counted in one process: leave --jobs out.")
    paths = images_of(arguments, options.out)
    _ = options.settings  # checked before a model is loaded
    writable(options.out)
    explainer = task.explainer()
    names, failed = _names(paths, task, explainer)
    limited = isinstance(explainer.model, Spends) and options.budget is None
    remaining = {path: name for path, name in names.items() if not _is_done(options.out, name, limited)}
    for path, error in failed.items():
        _print(Outcome(path, {"error": error}, "", error), options)
    try:
        outcomes = _in_processes(task, remaining, jobs) if jobs > 1 else _explained(task, explainer, remaining)
        for outcome in tqdm(outcomes, total=len(remaining), unit="image", disable=not options.progress, leave=False):
            if outcome.error:
                failed[outcome.path] = outcome.error
            _print(outcome, options)
    except ExhaustedError as error:
        print(f"whymask: {error} {_so_far(names, options.out, limited)}", file=sys.stderr)
        raise typer.Exit(1) from None
    except INTERRUPTS as interrupt:
        print(f"whymask: interrupted. {_so_far(names, options.out, limited)}", file=sys.stderr)
        raise typer.Exit(exit_code(interrupt)) from None
    _write_index(paths, names, failed, options.out)
    if not options.as_json:
        counts = {"explained": len(remaining.keys() - failed), "explained before": len(names) - len(remaining)}
        counts |= {"failed": len(failed)}
        print(f"{', '.join(f'{n} {what}' for what, n in counts.items() if n)}. Index: {options.out / INDEX}")
    if failed:
        raise typer.Exit(1)


def _names(paths: Sequence[str], task: Task, explainer: Explainer) -> tuple[dict[str, str], dict[str, str]]:
    """The name of every image's result, which says by its end what it depends on; and what cannot be read."""
    options = asdict(task.options)
    for name in ("out", "as_json", "quiet", "price", "max_requests", "max_cost"):
        del options[name]
    files = {name: _content(value) for name, value in options.items() if isinstance(value, str)}
    given = [
        *fill_names(task.options.fill or ""),
        *(pair.partition("=")[2] for pair in task.options.model_option or []),
    ]
    files |= {value: _content(value) for value in given}
    model = explainer.model
    about = [options, files, task.target, task.question, model.name, model.fingerprint, model.settings, __version__]
    names: dict[str, str] = {}
    failed: dict[str, str] = {}
    for path in paths:
        try:
            image = path if path.startswith(DRAWN) else hashlib.sha256(read_file(path)).hexdigest()
        except ImageError as error:
            failed[path] = str(error)
        else:
            stem = path.replace(":", "-") if path.startswith(DRAWN) else Path(path).stem
            names[path] = f"{stem}-{explainer.recipe.name}-{digest([image, *about])[:8]}"
    return names, failed


def _content(value: str) -> str | None:
    """The digest of the file that an option names, if it names one."""
    try:
        return hashlib.sha256(Path(value).read_bytes()).hexdigest()
    except OSError:
        return None


def _is_done(out: Path, name: str, limited: bool) -> bool:
    """Whether there is a result; where requests are limited, a complete one."""
    if not all((out / f"{name}{suffix}").is_file() for suffix in (".npz", ".png")):
        return False
    return not limited or Explanation.load(out / f"{name}.npz").complete


def _so_far(names: dict[str, str], out: Path, limited: bool) -> str:
    """How many images are done, and what to do about the others."""
    done = sum(_is_done(out, name, limited) for name in names.values())
    return f"{done} of {len(names)} images have a complete result: run the same command again to continue."


def _explained(task: Task, explainer: Explainer, remaining: dict[str, str]) -> Iterator[Outcome]:
    """Explain images in common batches and write their results."""
    paths = list(remaining)
    wrong: list[Outcome] = []

    def fail(number: int, error: ImageError) -> None:
        wrong.append(Outcome(paths[number], {"error": str(error)}, "", str(error)))

    targets, questions = [task.target] * len(paths), [task.question] * len(paths)
    for number, found in explainer.many(paths, targets=targets, questions=questions, on_error=fail):
        while wrong:
            yield wrong.pop(0)
        if isinstance(found, Ordering):
            found = found.with_curves(explainer.replay(found))
        files = write_as(found, task.options.out, remaining[paths[number]])
        line = str(getattr(found, "verdict", found))
        yield Outcome(paths[number], found.as_dict() | {"files": files}, line)
    yield from wrong


def _in_processes(task: Task, remaining: dict[str, str], jobs: int) -> Iterator[Outcome]:
    """As `_explained`, in several processes, each with its own model."""
    items = list(remaining.items())
    size = max(1, min(CHUNK, -(-len(items) // jobs)))
    chunks = [dict(items[start : start + size]) for start in range(0, len(items), size)]
    with _fewer_threads(jobs):
        with _interrupts_ignored():  # by what is started here: this process ends the others
            pool = get_context("spawn").Pool(min(jobs, len(chunks) or 1), _start, (task,))
        with pool:
            for outcomes in pool.imap_unordered(_chunk, chunks):
                yield from outcomes
            pool.close()
            pool.join()  # without an interrupt they end by themselves


@contextmanager
def _fewer_threads(jobs: int) -> Iterator[None]:
    """Processes that are started here share the cores."""
    given = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = given or str(max(1, (os.cpu_count() or 1) // jobs))
    try:
        yield
    finally:
        if given is None:
            del os.environ["OMP_NUM_THREADS"]


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_given: list[Task] = []
"""The task of this process, if it is one of several."""


def _start(task: Task) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where that is not inherited
    signal.signal(signal.SIGTERM, _end)
    _given.append(task)


def _end(number: int, frame: FrameType | None) -> None:
    """End this process silently, after removing what it was writing."""
    sys.exit(128 + number)


@cache
def _own() -> Explainer:
    """Loaded with the first images: a pool reports what fails there, and starts a process that fails before again."""
    return _given[0].explainer()


def _chunk(remaining: dict[str, str]) -> list[Outcome]:
    return list(_explained(_given[0], _own(), remaining))


def _print(outcome: Outcome, options: Options) -> None:
    error = redacted(outcome.error)
    if options.as_json:
        tqdm.write(json.dumps({"image": outcome.path} | outcome.report), file=sys.stdout)
    elif not error:
        tqdm.write(f"{outcome.path}: {outcome.line}", file=sys.stdout)
    if error:
        where = "" if outcome.path in error else f"{outcome.path}: "
        tqdm.write(f"whymask: {where}{error}", file=sys.stderr)


def _write_index(paths: Sequence[str], names: dict[str, str], failed: dict[str, str], out: Path) -> None:
    entries = (  # one in memory at a time
        Entry(path, error=failed[path])
        if path in failed
        else Entry(path, Explanation.load(out / f"{names[path]}.npz"), f"{names[path]}.png")
        for path in paths
    )
    with atomic(out / INDEX) as file:
        file.write(index_page(entries, f"{len(paths)} image{'s' if len(paths) > 1 else ''}").encode())
