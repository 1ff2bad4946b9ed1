"""KafkaJS: consume, transform, produce; a service that fails between receipt and position."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.recipes.judge import RecipeError
from tests.recipes.lab import Lab, outside
from tests.recipes.making import node_project
from tests.recipes.recipe import Recipe
from tests.support.apache_kafka import tool

FOLDER: Final = Path(__file__).parent
_ORDERS: Final = 20
_PARTITIONS: Final = 3


def play(lab: Lab) -> str:
    """The tests on a cluster that was there before, then on one that they start themselves."""
    node = tool("node", "this recipe needs Node.js 20", RecipeError)
    project = node_project(FOLDER)
    lab.run([node, "--test"], directory=project)
    receipts = lab.judge.only_topic("receipts-")
    lab.judge.assert_exactly_once(
        receipts,
        (f"receipt of order {number}" for number in range(_ORDERS)),
        ends=_PARTITIONS,
    )
    aborted = lab.judge.assert_aborted(receipts)
    ids = lab.judge.transactional_ids()
    lab.run([node, "--test"], directory=project, environment=outside())
    return f"{_ORDERS} orders, {_ORDERS} receipts, {aborted} aborted; {len(ids)} transactional ids"


RECIPE: Final = Recipe("kafkajs", play)
