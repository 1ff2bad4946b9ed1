"""The recipes of docs/recipes, played: ``python -m tests.recipes.run [NAME...]``.

Each one has brokers of its own. What it needs is built on first use, with npm, pip or Maven. One
line per recipe; exit status 1 if one failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from tests.recipes.connect.recipe import RECIPE as CONNECT
from tests.recipes.flink.recipe import RECIPE as FLINK
from tests.recipes.judge import RecipeError
from tests.recipes.kafkajs.recipe import RECIPE as KAFKAJS
from tests.recipes.lab import CLUSTER, Lab
from tests.recipes.quix.recipe import RECIPE as QUIX
from tests.recipes.recipe import Recipe
from tests.recipes.spring.recipe import RECIPE as SPRING
from tests.support.txnsim_server import TxnsimServer, TxnsimServerError

RECIPES: Final[Mapping[str, Recipe]] = {
    recipe.name: recipe for recipe in (KAFKAJS, SPRING, CONNECT, FLINK, QUIX)
}
LEVELS: Final = (0, 1, 2)


def main(argv: Sequence[str] | None = None) -> int:
    """Play what is asked for, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.recipes.run", description=__doc__)
    parser.add_argument(
        "recipe",
        nargs="*",
        choices=[*RECIPES, []],
        metavar="NAME",
        help=f"of {', '.join(RECIPES)} (default: all)",
    )
    parser.add_argument(
        "--level",
        type=int,
        nargs="+",
        choices=LEVELS,
        default=[2],
        help="of transaction.version (default 2)",
    )
    options = parser.parse_args(argv)
    outcomes = [
        _passes(RECIPES[name], level)
        for name in options.recipe or RECIPES
        for level in options.level
    ]
    _say(f"{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed")
    return 0 if all(outcomes) else 1


def _passes(recipe: Recipe, level: int) -> bool:
    start_s = time.monotonic()
    name = f"{recipe.name}, transaction.version {level}"
    try:
        with TxnsimServer(
            transaction_version=level, arguments=("--config", str(CLUSTER))
        ) as server:
            seen = recipe.play(Lab(server, level))
    except (RecipeError, TxnsimServerError) as failure:
        reason, _, details = str(failure).partition("\n")
        if details:
            _say(details)
        _say(f"FAIL {name}: {reason}")
        return False
    _say(f"PASS {name} ({seen}; {time.monotonic() - start_s:.0f} s)")
    return True


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
