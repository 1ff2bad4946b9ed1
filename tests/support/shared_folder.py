"""The folder in which processes of one run of pytest keep what ``tests.support.shared_results``
made.
"""

from __future__ import annotations

from typing import Final

FOLDER: Final = "TXNSIM_TOLD_ONCE"
"""Environment variable with the folder's path. It has a module of its own, as every run of pytest
sets it and few import the rest.
"""
