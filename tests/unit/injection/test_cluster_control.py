"""Which action on the cluster calls which method of the cluster."""

from __future__ import annotations

import pytest

from tests.support.cluster_control import RecordingControl
from txnsim.faults.cluster_actions import (
    ClockJump,
    ClusterAction,
    Crash,
    FillDisk,
    LagReplica,
    MoveLeader,
    Partition,
    ResignLeader,
)
from txnsim.injection.cluster_control import carry_out
from txnsim.types import BrokerId


@pytest.mark.parametrize(
    ("action", "done"),
    [
        (Crash(broker=2, lose_unflushed=True), "crash 2 losing what was not flushed"),
        (Crash(), "crash 7"),
        (MoveLeader(topic="t", partition=1), "move t-1 to somebody"),
        (MoveLeader(topic="t", partition=1, to=3), "move t-1 to 3"),
        (ResignLeader(topic="t", partition=1), "resign t-1"),
        (Partition(groups=((1,), (2, 3))), "partition ((1,), (2, 3))"),
        (ClockJump(by_ms=-5), "clock -5 of all"),
        (ClockJump(by_ms=5, broker=1), "clock 5 of 1"),
        (FillDisk(broker=1), "fill 1"),
        (FillDisk(), "fill 7"),
        (LagReplica(broker=3, topic="t", partition=0), "lag t-0 on 3"),
    ],
)
async def test_an_action_is_carried_out_and_tells_how_to_end_it(
    action: ClusterAction, done: str
) -> None:
    control = RecordingControl()
    undo = await carry_out(control, action, struck=BrokerId(7))
    assert control.done == [done]
    assert (undo is None) == isinstance(action, MoveLeader | ResignLeader)
    if undo is not None:
        await undo()
        assert control.done == [done, f"undo {done}"]
