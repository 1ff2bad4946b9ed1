"""Spring Kafka: a listener that fails in the middle, and a marker that is lost; as it is copied."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.recipes.lab import Lab
from tests.recipes.making import tested_by_maven
from tests.recipes.recipe import Recipe

FOLDER: Final = Path(__file__).parent


def play(lab: Lab) -> str:
    """``mvn test`` in a copy: its brokers are those that the helper starts."""
    return f"{tested_by_maven(lab, FOLDER, least=2)} tests passed"


RECIPE: Final = Recipe("spring", play, has_brokers=True)
