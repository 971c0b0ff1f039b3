"""Small matrices are computed fastest by one thread: a team takes longer to meet than to compute."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """In this context numpy and scipy compute with one thread, whatever the environment says."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


@cache
def _controller() -> ThreadpoolController:
    """Made at first use, when the libraries are loaded: finding them takes longer than a fit."""
    return ThreadpoolController()
