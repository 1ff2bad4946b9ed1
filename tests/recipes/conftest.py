"""The tests of a recipe run in an environment of its own, by ``tests.recipes.run``."""

from __future__ import annotations

collect_ignore = ["faststream", "quix", "share"]
