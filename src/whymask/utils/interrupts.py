"""SIGTERM ends a command as Ctrl-C does, with its own exit code."""

import signal
import threading
from types import FrameType


class Terminated(BaseException):
    """Raised in the main thread by SIGTERM, so that what cleans up after Ctrl-C does so here too."""


INTERRUPTS = (KeyboardInterrupt, Terminated)


def handle_sigterm() -> None:
    """Raise `Terminated` on SIGTERM from now on; for commands only, as a process has one handler for a signal."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)


def exit_code(interrupt: BaseException) -> int:
    """What shells expect of a process that was interrupted: 128 and the number of the signal."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
