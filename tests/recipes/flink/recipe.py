"""Flink: its exactly-once sink; a job that fails, and one that goes on from its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.recipes.lab import Lab
from tests.recipes.making import LAUNCHER, RECIPES, java_command
from tests.recipes.recipe import Recipe

FOLDER: Final = Path(__file__).parent
_ORDERS: Final = 1_500
_QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


def play(lab: Lab) -> str:
    """The test, under JUnit's launcher; Flink's cluster is in that process."""
    java, *options = java_command(FOLDER, more=[RECIPES / "java" / "Txnsim.java"])
    lab.run([java, _QUIET, *options, *LAUNCHER], directory=FOLDER, timeout_s=240)
    receipts = lab.judge.only_topic("receipts-")
    lab.judge.assert_exactly_once(
        receipts, (f"receipt of order {number}" for number in range(_ORDERS))
    )
    aborted = lab.judge.assert_aborted(receipts)
    ids = lab.judge.transactional_ids()
    return f"{_ORDERS} orders, {_ORDERS} receipts, {aborted} aborted; {len(ids)} transactional ids"


RECIPE: Final = Recipe("flink", play)
