"""A session factory for code that must work without Spark."""

from __future__ import annotations

from typing import NoReturn


def no_session() -> NoReturn:
    """Fail, as the code under test must not create a Spark session."""
    raise AssertionError("Spark is not needed here")
