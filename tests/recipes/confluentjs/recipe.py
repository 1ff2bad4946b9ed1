"""Confluent's JavaScript client: a service that fails in the middle, and a marker that is lost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.recipes.judge import RecipeError
from tests.recipes.lab import Lab, outside
from tests.recipes.making import node_project
from tests.recipes.recipe import Recipe
from tests.support.apache_kafka import REPOSITORY, tool

FOLDER: Final = Path(__file__).parent
HELPER: Final = REPOSITORY / "helpers" / "node"
_TESTS: Final = 2


def play(lab: Lab) -> str:
    """Its tests; their brokers are those that the helper starts."""
    node = tool("node", "this recipe needs Node.js 20", RecipeError)
    project = node_project(FOLDER, helper=HELPER, builds=True)
    tests = [node, "--test", "receipts.test.mjs"]  # the helper beside it has tests of its own
    printed = lab.run(tests, directory=project, environment=outside())
    if f"pass {_TESTS}" not in re.findall(r"pass \d+", printed):
        raise RecipeError(f"fewer than {_TESTS} tests ran:\n{printed}")
    return f"{_TESTS} tests passed"


RECIPE: Final = Recipe("confluentjs", play, has_brokers=True)
