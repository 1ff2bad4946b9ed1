"""Why a bug is not found, where that is known: no judge looks there, or it is no bug at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

UNFOUND: Final[Mapping[str, str]] = {}
