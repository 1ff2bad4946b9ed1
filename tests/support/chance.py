"""What tests leave to chance: nothing in the gate, so that it says the same every time; in nightly
runs the order of tests, what Hypothesis draws and the hashes of strings.

Standard library only, as CI reads it before any environment is made. ``pyproject.toml`` has the
fixed order, ``tests/conftest.py`` the profiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PROFILE_CERTAIN: Final = "certain"
PROFILE_DRAWN: Final = "drawn"

DRAWN: Final = ("--randomly-seed=default", f"--hypothesis-profile={PROFILE_DRAWN}")
"""Options of pytest with which another order and other examples are drawn each time."""

CERTAIN: Final[Mapping[str, str]] = MappingProxyType({"PYTHONHASHSEED": "0"})
"""Environment variables under which a program does the same in every run."""
