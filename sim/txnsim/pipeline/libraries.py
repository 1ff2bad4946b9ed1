"""Whether the libraries of the extra are installed that are needed to read without Spark."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from txnsim.errors import MissingExtraError, pip_line

NO_EXTRA: Final = f"the extra spark is not installed: {pip_line('spark')}"


def require_libraries() -> None:
    """See that pyarrow and numba are there, without loading them.

    Raises:
        MissingExtraError: One of them is missing.
    """
    if any(find_spec(name) is None for name in ("numba", "pyarrow")):
        raise MissingExtraError(NO_EXTRA)
