"""The libraries of the extra that are needed to read without Spark."""

from __future__ import annotations

from typing import Final

from txnsim import on_demand_imports

LIBRARIES: Final = ("numba", "pyarrow")


def require_libraries(*more_libraries: str) -> None:
    """Check that these libraries, and others that a command needs, are installed.

    Raises:
        MissingExtraError: One of them is missing.
    """
    on_demand_imports.require_libraries("spark", *LIBRARIES, *more_libraries)
