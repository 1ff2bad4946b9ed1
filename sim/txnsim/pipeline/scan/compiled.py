"""How the walks are compiled: by numba, without the interpreter's lock, and kept on disk where
there is room.

numba compiles a function at its first call in a process (some seconds) and keeps the machine code:
in ``NUMBA_CACHE_DIR`` if that is set, else in ``__pycache__`` beside the source, else below the
user's cache directory. A worker that can't write to any of them compiles again. It does not report
that, and its answers are the same. numba compares only the file of a function with the kept code,
and not the files of the functions that it calls. After a change of ``kernel`` alone, empty the
cache (CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """The function as machine code, with its signature."""
    try:
        made = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # "no locator available": nowhere to keep it
        made = njit(nogil=True)(function)
    return cast("Callable[P, R]", made)
