"""What a command of the tests tells as it goes."""

from __future__ import annotations

import sys


def say(*lines: str) -> None:
    """Print lines at once, also into a pipe."""
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
