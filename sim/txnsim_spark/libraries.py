"""Whether the libraries of the extra are installed that are needed to read without Spark."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from txnsim import extensions
from txnsim.errors import pip_line

LIBRARIES: Final = ("numba", "pyarrow")
NO_EXTRA: Final = f"the extra spark is not installed: {pip_line('spark')}"


def has_libraries() -> bool:
    """Whether pyarrow and numba are installed; loads neither."""
    return None not in map(find_spec, LIBRARIES)


def require_libraries(*others: str) -> None:
    """See that they are, and others that a command needs.

    Raises:
        MissingExtraError: One of them is missing.
    """
    extensions.require_libraries("spark", *LIBRARIES, *others)
