"""Spring Kafka: a template and a listener in transactions, both of which fail in the middle."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.recipes.lab import Lab
from tests.recipes.making import LAUNCHER, RECIPES, java_command
from tests.recipes.recipe import Recipe

FOLDER: Final = Path(__file__).parent
_ORDERS: Final = 20
_QUIET: Final = ("-Dlogging.level.root=warn", "-Dspring.main.banner-mode=off")


def play(lab: Lab) -> str:
    """The tests, under JUnit's launcher."""
    java, *options = java_command(FOLDER, more=[RECIPES / "java" / "Txnsim.java"])
    lab.run([java, *_QUIET, *options, *LAUNCHER], directory=FOLDER)
    receipts = lab.judge.only_topic("receipts-")
    orders = lab.judge.only_topic("orders-")
    lab.judge.assert_exactly_once(orders, (f"order {number}" for number in range(_ORDERS)))
    lab.judge.assert_exactly_once(
        receipts, (f"receipt of order {number}" for number in range(_ORDERS))
    )
    aborted = lab.judge.assert_aborted(receipts) + lab.judge.assert_aborted(orders)
    ids = lab.judge.transactional_ids()
    return f"{_ORDERS} orders, {_ORDERS} receipts, {aborted} aborted; {len(ids)} transactional ids"


RECIPE: Final = Recipe("spring", play)
