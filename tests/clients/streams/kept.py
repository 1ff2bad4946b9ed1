"""What kills have come to, as the repository keeps it: ``kills.json`` beside this module.

Per level of ``transaction.version`` the seed and how often each point was struck, in the last run
that was exact and asked to be kept. docs/clients.md shows it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.clients.streams.points import POINTS

FILE: Final = Path(__file__).with_name("kills.json")


class KillRun(NamedTuple):
    """The stored result of one run: how often each point was struck."""

    seed: int
    kills: Mapping[str, int]


def load(file: Path = FILE) -> dict[int, KillRun]:
    """The stored runs by level of ``transaction.version``."""
    if not file.exists():
        return {}
    content = json.loads(file.read_text("utf-8"))
    return {int(level): KillRun(run["seed"], run["kills"]) for level, run in content.items()}


def save(runs: Mapping[int, KillRun], file: Path = FILE) -> None:
    """Write the runs in the order of levels and points."""
    content = {
        level: {"seed": run.seed, "kills": _in_order(run.kills)}
        for level, run in sorted(runs.items())
    }
    file.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def _in_order(kills: Mapping[str, int]) -> dict[str, int]:
    return {point.name: kills[point.name] for point in POINTS if point.name in kills}
