"""``python -m txnsim`` is the command ``txnsim``."""

from __future__ import annotations

import sys

from txnsim.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
