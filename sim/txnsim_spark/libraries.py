"""Whether the libraries of the extra are installed that are needed to read without Spark."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from txnsim.errors import MissingExtraError, pip_line

NO_EXTRA: Final = f"the extra spark is not installed: {pip_line('spark')}"


def has_libraries() -> bool:
    """Whether pyarrow and numba are installed; loads neither."""
    return all(find_spec(name) is not None for name in ("numba", "pyarrow"))


def require_libraries(*others: str) -> None:
    """See that they are, and others that a command needs.

    Raises:
        MissingExtraError: One of them is missing.
    """
    if not has_libraries() or None in map(find_spec, others):
        raise MissingExtraError(NO_EXTRA)
