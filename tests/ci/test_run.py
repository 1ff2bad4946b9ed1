"""Every part has a budget, and together they keep that of CI."""

from __future__ import annotations

import pytest

from tests.check import SEEDS_FULL
from tests.ci.parts import CORES, MINUTES, PARTS_FIRST, PARTS_TOGETHER, PROGRAMS, SEEDS, Part
from tests.ci.process import PartOutcome
from tests.ci.run import PARTS_MAX, in_budget, next_part


def played() -> tuple[float, list[tuple[Part, ...]]]:
    """The minutes of all parts that run together, if each takes its budget; and who ran when."""
    waiting, running = list(PARTS_TOGETHER), dict[str, tuple[float, Part]]()
    now, seen = 0.0, []
    while waiting or running:
        while (part := next_part(waiting, [one for _, one in running.values()])) is not None:
            waiting.remove(part)
            running[part.name] = now + part.minutes, part
        seen.append(tuple(part for _, part in running.values()))
        now, first = min((ends, part.name) for ends, part in running.values())
        del running[first]
    return now, seen


def test_the_budgets_of_all_parts_are_those_of_ci() -> None:
    assert all(part.minutes > 0 for part in (*PARTS_FIRST, *PARTS_TOGETHER))
    assert sum(part.minutes for part in PARTS_FIRST) + played()[0] <= MINUTES


def test_parts_that_run_together_have_cores_for_each() -> None:
    _, seen = played()
    assert {part.name for some in seen for part in some} == {part.name for part in PARTS_TOGETHER}
    assert all(sum(part.cores for part in some) <= CORES for some in seen)
    assert max(map(len, seen)) <= PARTS_MAX


def test_a_part_that_needs_programs_waits_for_them() -> None:
    asks = Part("asks", 1, lambda _: PartOutcome(1, 0))
    alone = asks._replace(needs_programs=False)
    assert next_part([asks], [PROGRAMS]) is None
    assert next_part([asks, PROGRAMS], []) is PROGRAMS
    assert next_part([asks, alone], [PROGRAMS]) is alone
    assert next_part([asks], []) is asks


def test_a_part_that_is_too_large_runs_alone() -> None:
    large = Part("large", 1, lambda _: PartOutcome(1, 0), cores=CORES + 1)
    assert next_part([large], [PROGRAMS._replace(name="another", cores=0.5)]) is None
    assert next_part([large], []) is large


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(90, "  1.5  of  6.0 min"), (360, "  6.0  of  6.0 min"), (480, "  8.0! of  6.0 min")],
)
def test_what_takes_longer_than_its_budget_is_marked(seconds: float, told: str) -> None:
    assert in_budget(seconds, 6) == told


def test_seeds_go_on_where_make_test_ends() -> None:
    assert min(SEEDS) == SEEDS_FULL
