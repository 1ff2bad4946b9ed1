"""Where results are written: never over a file that exists."""

from __future__ import annotations

from pathlib import Path

from txnsim.errors import BadInputError


def refuse_existing(target: Path, kind: str) -> None:
    """Refuse a place that is taken.

    Args:
        target: Where to write.
        kind: "file" or "folder".

    Raises:
        BadInputError: Something is there.
    """
    if target.exists():
        raise BadInputError(f"{target} is there already; name another {kind}")
