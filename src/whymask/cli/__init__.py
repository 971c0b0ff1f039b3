"""The command line: parse, call, print."""

from whymask.cli.app import app, main

__all__ = ["app", "main"]
