"""Kafka Connect: a source connector with exactly-once support, whose worker is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.recipes.lab import Lab
from tests.recipes.making import LAUNCHER, RECIPES, java_command
from tests.recipes.recipe import Recipe

FOLDER: Final = Path(__file__).parent
_SHARDS: Final = 4
_COUNT: Final = 400
_QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def play(lab: Lab) -> str:
    """The test, under JUnit's launcher; it starts the workers."""
    java, *options = java_command(FOLDER, more=[RECIPES / "java" / "Txnsim.java"])
    lab.run([java, _QUIET, *options, *LAUNCHER], directory=FOLDER, timeout_s=240)
    counted = lab.judge.only_topic("counted-")
    lab.judge.assert_exactly_once(
        counted, (f"{shard}-{count}" for shard in range(_SHARDS) for count in range(_COUNT))
    )
    aborted = len(lab.judge.everything(counted)) - len(lab.judge.committed(counted))
    ids = lab.judge.transactional_ids()
    return (
        f"{_SHARDS * _COUNT} records, 1 worker killed, {aborted} aborted; "
        f"{len(ids)} transactional ids"
    )


RECIPE: Final = Recipe("connect", play)
