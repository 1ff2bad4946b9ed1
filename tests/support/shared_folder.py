"""The folder in which processes of one run of pytest keep what ``tests.support.shared_results``
made.
"""

from __future__ import annotations

from typing import Final

FOLDER: Final = "TXNSIM_TOLD_ONCE"
"""Variable with its path. Here, as every run of pytest sets it and few import what uses it."""
