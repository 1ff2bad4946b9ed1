"""Starts the command: ``python -m txnsim`` and ``txnsim`` both begin here.

Ctrl-C is handled before anything is imported: imports are most of a start.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run one command; returns the exit status, also after Ctrl-C in the middle of an import."""
    try:
        from txnsim.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as shells report it


if __name__ == "__main__":
    sys.exit(main())
