"""Every part has a budget, and together they keep that of CI."""

from __future__ import annotations

import pytest

from tests.check import SEEDS_FULL
from tests.ci.parts import MINUTES, PARTS_FIRST, PARTS_TOGETHER, SEEDS
from tests.ci.run import LANES, in_budget


def test_the_budgets_of_all_parts_are_those_of_ci() -> None:
    first = sum(part.minutes for part in PARTS_FIRST)
    together = sum(part.minutes for part in PARTS_TOGETHER)
    assert all(part.minutes > 0 for part in (*PARTS_FIRST, *PARTS_TOGETHER))
    assert first + together / LANES <= MINUTES


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(90, "  1.5  of  6.0 min"), (360, "  6.0  of  6.0 min"), (480, "  8.0! of  6.0 min")],
)
def test_what_takes_longer_than_its_budget_is_marked(seconds: float, told: str) -> None:
    assert in_budget(seconds, 6) == told


def test_seeds_go_on_where_make_test_ends() -> None:
    assert min(SEEDS) == SEEDS_FULL
