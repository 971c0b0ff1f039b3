"""`whymask serve`: the page in a browser; `whymask serve-model`: a model behind a chat API."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from whymask.cli.options import Device, Dtype, values
from whymask.errors import WhymaskError
from whymask.models.registry import MODELS, find, load
from whymask.utils.redact import public

Host = Annotated[str, typer.Option(help="The address to listen on; the default is for this machine only.")]
Port = Annotated[int, typer.Option(help="The port; 0 picks a free one.")]


def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model to offer on the page; may be repeated. By default all that are installed."),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another host name under which browsers may reach this server; may be repeated."),
    ] = None,
    device: Device = None,
    model_option: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the models; may be repeated.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("whymask-out/served"),
) -> None:
    """Serve a local web page that explains the images you drop on it."""
    from whymask.serve import serve as run

    options = values("--model-option", model_option) | ({} if device is None else {"device": device})
    names = model or [name for name, entry in MODELS.items() if entry.installed]
    if not names:
        raise WhymaskError("no model is installed: pip install 'whymask[lite]', or name one with --model.")
    entries = {name: find(name)[0] for name in names}
    for name, entry in entries.items():
        if not entry.installed:
            raise WhymaskError(f"{name} needs more packages: {entry.install}.")
    shown = {name: public(name) for name in entries}
    if len({*shown.values()}) < len(shown):
        raise WhymaskError("two models differ only in the user, password or query of their URL: serve one of them.")
    run(
        {shown[name]: partial(load, name, **options) for name in entries},
        out,
        abilities={shown[name]: entry.can for name, entry in entries.items()},
        host=host,
        port=port,
        allow_hosts=allow_host or (),
        ready=_serving,
    )


def _serving(url: str) -> None:
    if "?token=" in url:
        print("whymask: anybody who has this address can use the models and see all results.", file=sys.stderr)
    print(f"Serving {url} (Ctrl-C ends it).", flush=True)


def serve_model(
    model: Annotated[str, typer.Argument(help="A multimodal model: tiny-qwen, Qwen/Qwen3-VL-4B-Instruct, a folder.")],
    host: Host = "127.0.0.1",
    port: Port = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another host name under which clients may reach this server; may be repeated."),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="WHYMASK_API_KEY",
            help="The key that every request must carry; by default none on this machine, a random one elsewhere.",
        ),
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
    model_option: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the model; may be repeated.")] = None,
) -> None:
    """Serve a multimodal model as an OpenAI-compatible chat endpoint, with vLLM's request fields."""
    from whymask.models.mllm import Mllm
    from whymask.serve import serve_model as run

    given = {name: value for name, value in (("device", device), ("dtype", dtype)) if value is not None}
    loaded = load(model, **values("--model-option", model_option), **given)
    if not isinstance(loaded, Mllm):
        raise WhymaskError(f"{public(model)} is not a multimodal model that generates text: use 'whymask serve'.")
    ready = partial(_ready, given=api_key is not None)
    run(loaded, host=host, port=port, allow_hosts=allow_host or (), api_key=api_key, ready=ready)


def _ready(url: str, key: str | None, given: bool) -> None:
    shown = f" with the key {key}" if key and not given else ""
    print(f"Serving {url}{shown} (Ctrl-C ends it).", flush=True)
