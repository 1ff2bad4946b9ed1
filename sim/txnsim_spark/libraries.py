"""The libraries of the extra that are needed to read without Spark."""

from __future__ import annotations

from typing import Final

from txnsim import extensions

LIBRARIES: Final = ("numba", "pyarrow")


def require_libraries(*others: str) -> None:
    """See that they are installed, and others that a command needs.

    Raises:
        MissingExtraError: One of them is missing.
    """
    extensions.require_libraries("spark", *LIBRARIES, *others)
