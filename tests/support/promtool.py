"""Prometheus' ``promtool``, which judges alert rules: the machine's own, or that of Debian's
package, unpacked below ``.cache/``. As a command it prints where the program is::

    python -m tests.support.promtool
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from tests.support.debian import FETCHERS, DebianError, unpack_packages

PROGRAM: Final = Path("usr", "bin", "promtool")


def is_to_be_had() -> bool:
    """Whether this machine has the program, or what it takes to fetch it."""
    return shutil.which("promtool") is not None or all(map(shutil.which, FETCHERS))


def promtool() -> Path:
    """Path of the program, fetched on first use.

    Raises:
        DebianError: This machine has none, and apt or dpkg is missing or failed.
    """
    installed = shutil.which("promtool")
    return Path(installed) if installed else unpack_packages("prometheus", has=PROGRAM) / PROGRAM


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{promtool()}\n")
    except DebianError as failure:
        sys.exit(str(failure))
