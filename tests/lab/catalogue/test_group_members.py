"""Consumers in groups as actors: a rebalance in the middle of a transaction, and members that have
been replaced and do not know it yet.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stories import MODES, call, seen, told
from txnsim_lab.check.observations import Ended, SentOffsets

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.session.timeout.ms": 6_000,
}


def play(steps: list[dict[str, Any]], protocol: str, mode: str, *, verdict: str) -> Any:
    """Two instances of an application, each a member and a producer of its own."""
    part = {
        "plays": "member",
        "group": "billing",
        "group-protocol": protocol,
        "session-timeout": "6s",
    }
    return told(
        steps,
        run=mode,
        topics={"out": 1, "in": 2},
        actors={
            "first": {**part, "instance-id": "1"},
            "second": {**part, "instance-id": "2"},
            "first-out": {"plays": "wire", "transactional-id": "billing-1"},
            "second-out": {"plays": "wire", "transactional-id": "billing-2"},
        },
        settings=SETTINGS,
        runs={mode: {"mode": mode, "verdict": verdict}},
    )


def process(
    instance: str, value: str, *, transaction: str, commits: dict[str, Any], end: str
) -> list[dict[str, Any]]:
    """Consume, transform, produce; the positions go into the transaction."""
    out, work = f"{instance}-out", f"work on {value}"
    return [
        call("begin", out, transaction=transaction),
        call("add-partitions", out, partitions="out-0"),
        call("produce", out, partition="out-0", value=f"{value} in {transaction}", item=work),
        call("add-offsets", out, group="billing"),
        call("commit-offsets", out, **commits),
        call(end, out),
    ]


BOTH = ["in-0", "in-1"]
BEGIN = [
    call("append", "bystander", partition="in-0", value="r1"),
    call("init-producer-id", "first-out"),
    call("init-producer-id", "second-out"),
    call("subscribe", "first", topics="in", assigned=BOTH),
]
worlds = pytest.mark.parametrize(
    ("protocol", "mode"), [(one, mode) for one in ("classic", "consumer") for mode in MODES]
)


def zombie(**commits: Any) -> list[dict[str, Any]]:
    """The first one stands still in the middle of a transaction. The second one takes its place."""
    middle = process("first", "r1", transaction="T1", commits={}, end="commit")[:4]
    end = "abort" if "error" in commits else "commit"
    return [
        *BEGIN,
        call("poll", "first", reads=["r1"], transaction="T1"),
        *middle,
        call("stand-still", "first"),
        call("subscribe", "second", topics="in", assigned=BOTH),
        call("poll", "second", reads=["r1"], transaction="T2"),
        *process("second", "r1", transaction="T2", commits={"member": "second"}, end="commit"),
        call("commit-offsets", "first-out", **commits),
        call(end, "first-out"),
    ]


@worlds
def test_a_zombie_s_positions_are_refused_and_so_its_work_is_done_once(
    protocol: str, mode: str
) -> None:
    steps = zombie(member="first", error="UNKNOWN_MEMBER_ID")
    result = play(steps, protocol, mode, verdict="healthy")
    assert result.as_declared, result.verdict
    assert [one.error for one in seen(result, SentOffsets)] == ["", "", *["UNKNOWN_MEMBER_ID"] * 2]


@worlds
def test_without_its_metadata_the_group_can_t_tell_a_zombie(protocol: str, mode: str) -> None:
    steps = zombie(group="billing", offsets={"in-0": 1})
    result = play(steps, protocol, mode, verdict="duplicate")
    assert result.as_declared, result.verdict


@worlds
def test_a_rebalance_in_the_middle_of_a_transaction(protocol: str, mode: str) -> None:
    """What the application knew of itself before the rebalance is of the old generation."""
    steps = [
        *BEGIN,
        call("poll", "first", reads=["r1"]),
        *process("first", "r1", transaction="T1", commits={}, end="commit")[:4],
        call("subscribe", "second", topics="in", background="joining"),
        call("poll", "first", assigned="in-0"),
        {"await": "joining"},
        call("poll", "second", assigned="in-1"),
        # It has kept in-0: a member of the consumer protocol may commit that all the same.
        call(
            "commit-offsets",
            "first-out",
            member="first",
            offsets={"in-0" if protocol == "classic" else "in-1": 1},
            error="ILLEGAL_GENERATION",
            generation=1,
        ),
        call("abort", "first-out"),
        call("seek", "first", partition="in-0", from_=0),
        call("poll", "first", reads=["r1"]),
        *process("first", "r1", transaction="T2", commits={"member": "first"}, end="commit"),
    ]
    result = play(steps, protocol, mode, verdict="healthy")
    assert result.as_declared, result.verdict
    assert [one.commit for one in seen(result, Ended)] == [False, True]
