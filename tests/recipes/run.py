"""The recipes of docs/recipes, played: ``python -m tests.recipes.run [NAME...]``.

Each one has brokers of its own, unless ``--bootstrap`` names some. What it needs is built on first
use, with npm, pip or Maven. One line per recipe; exit status 1 if one failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final

from tests.recipes.judge import RecipeError
from tests.recipes.lab import CLUSTER, Lab
from tests.recipes.recipe import ALL, Recipe
from tests.support.console import say
from tests.support.txnsim_server import TxnsimServer, TxnsimServerError
from txnsim.client.errors import ClientError

LEVELS: Final = (0, 1, 2)


def main(argv: Sequence[str] | None = None) -> int:
    """Play the chosen recipes, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.recipes.run", description=__doc__)
    parser.add_argument(
        "recipe",
        nargs="*",
        choices=[*ALL, []],
        metavar="NAME",
        help=f"of {', '.join(ALL)} (default: all)",
    )
    parser.add_argument(
        "--level",
        type=int,
        nargs="+",
        choices=LEVELS,
        default=[2],
        help="of transaction.version (default 2)",
    )
    parser.add_argument(
        "--bootstrap", metavar="ADDRESSES", help="three brokers that are there, a real Kafka's"
    )
    options = parser.parse_args(argv)
    names = options.recipe or list(ALL)
    if options.bootstrap is not None:
        outside_names = [ALL[name] for name in names if not ALL[name].has_brokers]
        outcomes = [_recipe_passes(recipe, options.bootstrap, "there") for recipe in outside_names]
    else:
        outcomes = [_passes_here(ALL[name], level) for name in names for level in options.level]
    say(f"{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed")
    return 0 if all(outcomes) else 1


def _passes_here(recipe: Recipe, transaction_version: int) -> bool:
    """Whether the recipe passes against a server started for it."""
    place_name = f"transaction.version {transaction_version}"
    try:
        with TxnsimServer(
            transaction_version=transaction_version, arguments=("--config", str(CLUSTER))
        ) as server:
            return _recipe_passes(recipe, server.bootstrap, place_name)
    except TxnsimServerError as failure:
        return _report_failure(f"{recipe.name}, {place_name}", failure)


def _recipe_passes(recipe: Recipe, bootstrap: str, place_name: str) -> bool:
    start_s = time.monotonic()
    name = f"{recipe.name}, {place_name}"
    try:
        summary = recipe.play(Lab(bootstrap))
    except (RecipeError, ClientError, TimeoutError) as failure:
        return _report_failure(name, failure)
    say(f"PASS {name} ({summary}; {time.monotonic() - start_s:.0f} s)")
    return True


def _report_failure(name: str, failure: Exception) -> bool:
    reason, _, details_text = (str(failure) or type(failure).__name__).partition("\n")
    if details_text:
        say(details_text)
    say(f"FAIL {name}: {reason}")
    return False


if __name__ == "__main__":
    sys.exit(main())
