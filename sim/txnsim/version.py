"""The version of this distribution, as pyproject.toml has it: metadata take long to read."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.2.0"
TXNSIM: Final = f"txnsim {VERSION}"
"""As programs print it."""
