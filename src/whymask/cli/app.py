"""The command line: its commands, and what becomes of errors and interrupts."""

import sys
from collections.abc import Callable
from functools import wraps
from inspect import getdoc
from typing import Annotated, ParamSpec

import typer

from whymask.cli.bench import bench
from whymask.cli.check import check
from whymask.cli.explain import explain, repair
from whymask.cli.lists import lists
from whymask.cli.report import report
from whymask.cli.serve import serve, serve_model
from whymask.errors import WhymaskError
from whymask.utils.interrupts import INTERRUPTS, Terminated, exit_code, handle_sigterm
from whymask.utils.redact import redacted
from whymask.version import __version__

app = typer.Typer(
    name="whymask",
    help="Find which few regions of an image are enough for a vision model's answer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench, name="bench")
app.add_typer(lists)
P = ParamSpec("P")


def _version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def _interruptible(command: Callable[P, None]) -> Callable[P, None]:
    """The command, which reports Ctrl-C and SIGTERM in one line; it writes its files at its end, all or none."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except INTERRUPTS as interrupt:
            print(f"whymask: {command.__name__} was interrupted; nothing was written.", file=sys.stderr)
            raise typer.Exit(exit_code(interrupt)) from None

    return run


for command in (_interruptible(explain), _interruptible(report), serve, _interruptible(repair), _interruptible(check)):
    app.command()(command)
app.command("serve-model")(serve_model)
for info in (*app.registered_commands, *bench.registered_commands, *lists.registered_commands):
    # The terminal breaks the lines of a paragraph, not the docstring.
    paragraphs = (getdoc(info.callback) or "").split("\n\n")
    info.help = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


def main() -> None:
    """Entry point: an error of the user's is one line on stderr and exit code 2."""
    try:
        handle_sigterm()
        app()
    except Terminated as interrupt:  # of a command that does not handle it
        raise SystemExit(exit_code(interrupt)) from None
    except WhymaskError as error:
        print(f"whymask: {redacted(str(error))}", file=sys.stderr)
        raise SystemExit(2) from None
