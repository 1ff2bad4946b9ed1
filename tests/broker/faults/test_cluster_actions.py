"""Actions on the cluster as values: checked when they are made, and said in words."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from txnsim.faults.cluster_actions import (
    CLOCK_MS_MAX,
    ClockJump,
    ClusterAction,
    Crash,
    FillDisk,
    LagReplica,
    MoveLeader,
    Partition,
    ResignLeader,
)

WORDS: list[tuple[ClusterAction, str, int | None]] = [
    (Crash(), "crash the broker struck", None),
    (
        Crash(broker=2, lose_unflushed=True, restart_after_ms=5),
        "crash broker 2, unflushed data lost, restart after 5 ms",
        5,
    ),
    (MoveLeader(topic="t", partition=1), "move-leader t-1 to another replica", None),
    (MoveLeader(topic="t", partition=1, to=3), "move-leader t-1 to broker 3", None),
    (ResignLeader(topic="t", partition=1), "resign-leader t-1", None),
    (
        Partition(groups=((1,), (2, 3)), heal_after_ms=0),
        "partition 1 | 2 3, heal after 0 ms",
        0,
    ),
    (ClockJump(by_ms=-5), "clock -5 ms on every clock", None),
    (ClockJump(by_ms=5, broker=1), "clock +5 ms on the clock of broker 1", None),
    (FillDisk(broker=1, free_after_ms=9), "fill-disk broker 1, free after 9 ms", 9),
    (LagReplica(broker=3, topic="t", partition=0), "lag-replica t-0 on broker 3", None),
]


@pytest.mark.parametrize(("action", "words", "ends_after_ms"), WORDS)
def test_actions_are_read_back_and_said(
    action: ClusterAction, words: str, ends_after_ms: int | None
) -> None:
    assert msgspec.json.decode(msgspec.json.encode(action), type=ClusterAction) == action
    assert str(action) == words
    assert action.ends_after_ms == ends_after_ms


def test_every_action_is_here() -> None:
    assert {type(action) for action, _, _ in WORDS} == set(ClusterAction.__args__)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Crash(restart_after_ms=-1), "restart_after_ms is -1"),
        (lambda: FillDisk(free_after_ms=-1), "free_after_ms is -1"),
        (lambda: Partition(groups=((1,), (2,)), heal_after_ms=-1), "heal_after_ms is -1"),
        (lambda: Partition(groups=((1, 2),)), "two sides"),
        (lambda: Partition(groups=((1, 2), ())), "two sides"),
        (lambda: Partition(groups=((1, 2), (2, 3))), "one side only"),
        (lambda: ClockJump(by_ms=0), "would not move"),
        (lambda: ClockJump(by_ms=1 << 70), "ten years"),
        (lambda: ClockJump(by_ms=-CLOCK_MS_MAX - 1), "ten years"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
