"""How the coordinator ends work that nobody waits for."""

from __future__ import annotations

import asyncio
from typing import Any


def settled(_result: Any, error: BaseException | None) -> None:
    """``done`` of ``Tasks.drive``: the outcome is in the entries; what is thrown is a bug of
    ours.
    """
    if error is not None and not isinstance(error, asyncio.CancelledError):
        raise error
