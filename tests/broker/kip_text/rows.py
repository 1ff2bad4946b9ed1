"""Which rows of ``kip_text.differences`` have a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

SHOWN: Final[set[str]] = set()

_Test = TypeVar("_Test", bound=Callable[..., Any])


def shows(*rows: str) -> Callable[[_Test], _Test]:
    """Note that a test shows the behaviour of these rows, with and without the KIP's text."""
    SHOWN.update(rows)
    return lambda test: test
