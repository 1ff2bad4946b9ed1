"""Every suite: a module of this folder per ecosystem, each with its ``SUITES``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from tests.peers.recorded import RECORDED
from tests.peers.suite import Suite


def ecosystems() -> list[str]:
    """Names of the modules in this folder that have suites."""
    return [
        file.stem
        for file in sorted(Path(__file__).parent.glob("*.py"))
        if "\nSUITES: Final" in file.read_text("utf-8")
    ]


def suites(ecosystem: str | None = None) -> Sequence[Suite]:
    return [
        suite
        for name in ([ecosystem] if ecosystem else ecosystems())
        for suite in importlib.import_module(f"tests.peers.{name}").SUITES
    ]


def all_suites() -> Sequence[Suite]:
    """All suites, including those that can't be run from here."""
    return [*suites(), *RECORDED]
