"""Output of the tests' own commands."""

from __future__ import annotations

import sys


def say(*lines: str) -> None:
    """Print lines and flush them, also into a pipe."""
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
