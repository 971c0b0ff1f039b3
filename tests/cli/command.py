"""The command line in this process: a new one takes seconds to import torch, so only tests of processes start one."""

import io
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch

from whymask import cli


def whymask_command(*words, stdin=""):
    """Runs a command; its exit code and what it printed are as a process would give them."""
    out, err = io.StringIO(), io.StringIO()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with (
            patch.object(sys, "argv", ["whymask", *map(str, words)]),
            patch.object(sys, "stdin", io.StringIO(stdin)),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            cli.main()
    except SystemExit as end:
        return CompletedProcess(words, end.code or 0, out.getvalue(), err.getvalue())
    finally:
        signal.signal(signal.SIGTERM, handler)
    raise AssertionError("a command ends with an exit code")
