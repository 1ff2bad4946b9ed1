"""Every client of the matrix: ``roster/`` has a module per language, each with its ``CLIENTS``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from tests.clients.matrix.client import Client


def clients() -> Sequence[Client]:
    """All clients, module by module, in the order of each module's list."""
    all_clients: list[Client] = []
    for file in sorted(Path(__file__).with_name("roster").glob("*.py")):
        all_clients += importlib.import_module(f"tests.clients.matrix.roster.{file.stem}").CLIENTS
    return all_clients
