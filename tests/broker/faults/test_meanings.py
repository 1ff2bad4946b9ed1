"""Which action means something where: the table is whole, and says no in words."""

from __future__ import annotations

import pytest

from txnsim.faults.actions import CrossingAction, Duplicate, Fail, Hold
from txnsim.faults.cluster_actions import ClusterAction, Crash
from txnsim.faults.meanings import (
    CLUSTER_ACTIONS,
    CROSSING_ACTIONS,
    TAKES,
    can_wait,
    name_of,
    refusal,
)
from txnsim.faults.points import FaultPoint


def test_every_point_and_every_action_is_in_the_table() -> None:
    assert list(TAKES) == list(FaultPoint)
    assert set(CROSSING_ACTIONS) == set(CrossingAction.__args__)
    assert set(CLUSTER_ACTIONS) == set(ClusterAction.__args__)
    assert {action for takes in TAKES.values() for action in takes} == set(CROSSING_ACTIONS)


def test_actions_on_the_cluster_are_allowed_everywhere() -> None:
    assert [refusal(point, Crash(broker=1)) for point in FaultPoint] == [None] * len(FaultPoint)


@pytest.mark.parametrize("point", list(FaultPoint))
def test_a_refusal_lists_what_the_point_takes(point: FaultPoint) -> None:
    said = refusal(point, Duplicate())
    if Duplicate in TAKES[point]:
        assert said is None
    else:
        assert said is not None
        assert said.startswith(f"duplicate has no meaning at {point}")
        for action in (*TAKES[point], *CLUSTER_ACTIONS):
            assert name_of(action) in said


def test_a_refusal_may_say_why() -> None:
    assert "there is no request to answer" in str(
        refusal(FaultPoint.CONNECTION_OPEN, Fail(error="NOT_COORDINATOR"))
    )


def test_where_nothing_can_wait() -> None:
    assert not can_wait("log.index")
    assert [point for point in FaultPoint if can_wait(point) != (Hold in TAKES[point])] == []
