"""Replaces ``kio._kio_native``, which has no wheel for WebAssembly.

The simulator has codecs of its own (``txnsim.wire``), so kio's schemas only have to be importable.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn


def tz_aware_from_i64(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_: object) -> NoReturn:
        raise NotImplementedError(f"kio's {name} is native code, which is not there")

    return missing
