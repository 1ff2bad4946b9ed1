"""Tests of the limits, and of the figures of a neighbour's waits."""

from __future__ import annotations

from importlib.util import find_spec

import msgspec

from tests.attacks.figures import Figures, NeighbourWaits, line
from tests.attacks.neighbour import waits_of
from tests.attacks.roster import ATTACKS
from tests.attacks.ticking_server import FIRST_USED
from tests.support.processor_delays import SLOWNESS_MAX, undelayed_s

HARMLESS = Figures(
    name="nothing",
    seconds=1.0,
    sent_bytes=100,
    gap_ms=2_000.0,
    gap_cpu_ms=90.0,
    memory_mib=60.0,
    quiet=NeighbourWaits(answers=100, p99_ms=3.0, worst_ms=9.0),
    attacked=NeighbourWaits(answers=100, p99_ms=14.0, worst_ms=90.0),
    log_bytes=0,
)


def test_a_gap_counts_by_the_cpu_time_in_it() -> None:
    assert HARMLESS.broken_limits() == []
    assert len(msgspec.structs.replace(HARMLESS, gap_cpu_ms=101.0).broken_limits()) == 1


def test_memory_and_a_server_that_is_gone_count() -> None:
    harmful_figures = msgspec.structs.replace(HARMLESS, memory_mib=65.0, trouble=("dead",))
    assert len(harmful_figures.broken_limits()) == 2
    assert line(harmful_figures).count("OVER") == 2


def test_a_neighbours_long_waits_are_told_and_break_no_limit() -> None:
    slow_waits = NeighbourWaits(answers=100, p99_ms=16.0, worst_ms=90.0)
    slow_figures = msgspec.structs.replace(HARMLESS, attacked=slow_waits)
    assert slow_figures.broken_limits() == []
    assert line(slow_figures).endswith("slow: a neighbour's p99 was 16.0 ms")
    assert not HARMLESS.remarks()
    assert not msgspec.structs.replace(slow_figures, is_refused=True).remarks()


def test_an_attack_has_its_limit_beside_the_waits_for_a_processor() -> None:
    assert undelayed_s(100.0, 0.0) == 100.0
    assert undelayed_s(100.0, 70.0) == 30.0
    assert undelayed_s(100.0, 1_000.0) == 100.0 / SLOWNESS_MAX > 0


def test_the_p99_of_a_hundred_waits_is_the_longest_but_none() -> None:
    waits = waits_of([float(wait) for wait in range(1, 101)])
    assert waits == NeighbourWaits(answers=100, p99_ms=100.0, worst_ms=100.0)


def test_attacks_have_names_of_their_own_and_say_what_they_do() -> None:
    assert all(attack.about.endswith(".") for attack in ATTACKS.values())
    assert all(attack_name == attack.name for attack_name, attack in ATTACKS.items())


def test_the_modules_that_a_server_loads_first_are_there() -> None:
    """The program skips one that its checkout does not have, and so must not name a wrong one."""
    for module_name in (*FIRST_USED, ".runtime.real_world"):
        assert find_spec(f"txnsim{module_name}"), module_name
