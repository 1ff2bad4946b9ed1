"""What a recipe is: a small application of a framework, its tests, and what must come of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.recipes.lab import Lab


class Recipe(NamedTuple):
    """One framework's."""

    name: str
    """That of its folder and of its page."""
    play: Callable[[Lab], str]
    """Builds, runs and judges; answers with what it saw, in a few words.

    Raises RecipeError where something is not as it should be.
    """
    has_brokers: bool = False
    """It starts brokers itself, by the helper for its language; they are judged by its tests."""
