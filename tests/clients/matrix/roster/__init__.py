"""Every client of the matrix: one module per language, each with its ``CLIENTS``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence

from tests.clients.matrix.client import Client


def clients() -> Sequence[Client]:
    """All of them, in order of language module and then as listed there."""
    found: list[Client] = []
    for module in sorted(each.name for each in pkgutil.iter_modules(__path__)):
        found += importlib.import_module(f"{__name__}.{module}").CLIENTS
    return found
