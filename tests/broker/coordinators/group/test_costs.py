"""What a request or a step of the group coordinator costs, as a function of what is stored.

Costs are calls of functions, so they are the same on every machine. A cost that is not named in
``GROWING`` stays as it is however much is stored; one that is grows in proportion and no more. A
new public method of the coordinator has to have a line in ``STEPS``.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest

from benchmarks.call_counts import count_calls_by_function, make_call_profile
from tests.broker.coordinators.group.test_service import marker, verify_as_agreed
from tests.support.group_world import GROUP, HOME, PRODUCER, GroupBench, commit_of, run_groups
from txnsim.coordinators.group.service import GroupCoordinator
from txnsim.errors import Rejection
from txnsim.group.consumer_group import LEFT_EPOCH
from txnsim.group.offset_commands import CommitOffsets, DeleteOffsets, NewPosition
from txnsim.types import CoordinatorEpoch, TopicPartition

SIZES: Final = (10, 100, 1_000)
STEADY_MAX: Final = 1.3
"""A steady cost may differ by so much: a dictionary grows, a slice ends."""
PROPORTION_MAX: Final = 12.0
"""From one size to the next, ten times larger one."""

Step = Callable[[GroupBench], Awaitable[Any]]


async def members(group_bench: GroupBench, count: int) -> None:
    """Members of a consumer group; every second member subscribes to one more topic."""
    for member_number in range(count):
        topics = ("orders", f"t{member_number % 2}")
        join_reply = await group_bench.consume(f"m{member_number}", topic_names=topics)
        assert not isinstance(join_reply, Rejection), join_reply


async def classic(group_bench: GroupBench, count: int) -> None:
    """Let ``count`` members join one classic group and form a generation."""
    joins = [group_bench.later(group_bench.join()) for _ in range(count)]
    for join_task in joins:
        await join_task


async def names(group_bench: GroupBench, count: int) -> None:
    """Let another member subscribe to ``count`` topics."""
    await group_bench.consume(
        "other", topic_names=tuple(f"n{topic_number}" for topic_number in range(count))
    )


async def regexes(group_bench: GroupBench, count: int) -> None:
    """Let ``count`` members subscribe by the same regular expression."""
    for number in range(count):
        await group_bench.consume(f"r{number}", topic_names=None, topic_regex="o.*")


async def positions(group_bench: GroupBench, count: int, group_id: str = "other") -> None:
    """Commit positions of another group on ``count`` partitions."""
    new_positions = tuple(
        NewPosition(topic_partition=TopicPartition("wide", partition_index), offset=1)
        for partition_index in range(count)
    )
    await group_bench.groups.commit(CommitOffsets(group_id=group_id, positions=new_positions))


async def own_positions(group_bench: GroupBench, count: int) -> None:
    """Commit positions of the group itself on ``count`` partitions."""
    await positions(group_bench, count, GROUP)


async def pending(group_bench: GroupBench, count: int) -> None:
    """Commit ``count`` positions that wait for the marker of the same producer."""
    new_positions = tuple(
        NewPosition(topic_partition=TopicPartition("wide", partition_index), offset=1)
        for partition_index in range(count)
    )
    command = CommitOffsets(group_id=GROUP, positions=new_positions, is_transactional=True)
    await group_bench.groups.commit_in_transaction(command, PRODUCER, verify=verify_as_agreed)


STORED: Final = {
    step.__name__: step
    for step in (members, classic, names, regexes, positions, own_positions, pending)
}


async def joins(group_bench: GroupBench) -> None:
    await group_bench.consume("new", topic_names=("orders", "t0"))


async def joins_and_stays(group_bench: GroupBench) -> None:
    reply = await group_bench.consume("new")
    await group_bench.consume("new", 0 if isinstance(reply, Rejection) else reply.member_epoch)


async def joins_and_leaves(group_bench: GroupBench) -> None:
    await group_bench.consume("new")
    await group_bench.consume("new", LEFT_EPOCH)


async def falls_silent(group_bench: GroupBench) -> None:
    await group_bench.consume("new", group_id="silent")
    await group_bench.pass_ms(46_000)


async def own_classic(group_bench: GroupBench) -> None:
    """Send JoinGroup, SyncGroup, Heartbeat and LeaveGroup in a group of one member."""
    fields = {"group_id": "small"}
    join_reply = await group_bench.join(**fields)
    group_bench.heartbeat(join_reply.member_id, group_id="small")
    await group_bench.leave(join_reply.member_id, group_id="small")


async def transaction(group_bench: GroupBench) -> None:
    command = commit_of(9, is_transactional=True)
    await group_bench.groups.commit_in_transaction(command, PRODUCER, verify=verify_as_agreed)


async def delete_offsets(group_bench: GroupBench) -> None:
    partitions = (TopicPartition("orders", 0),)
    await group_bench.groups.delete_offsets(DeleteOffsets(group_id=GROUP, partitions=partitions))


async def awaitable_of(step: object) -> None:
    del step


STEPS: Final[Mapping[str, tuple[Step, str]]] = {
    "join of a consumer": (joins, "consumer_heartbeat"),
    "heartbeat of a consumer": (joins_and_stays, "consumer_heartbeat"),
    "leaving of a consumer": (joins_and_leaves, "consumer_heartbeat"),
    "end of a session": (falls_silent, "consumer_heartbeat"),
    "join of a small group": (own_classic, "join"),
    "heartbeat of a small group": (own_classic, "heartbeat"),
    "leaving of a small group": (own_classic, "leave"),
    "sync": (lambda group_bench: group_bench.sync("nobody"), "sync"),
    "commit": (lambda group_bench: group_bench.commit(member_id=""), "commit"),
    "commit in a transaction": (transaction, "commit_in_transaction"),
    "fetch": (lambda group_bench: group_bench.fetch(), "fetch"),
    "deletion of a position": (delete_offsets, "delete_offsets"),
    "deletion of a group": (lambda group_bench: group_bench.groups.delete("nobody"), "delete"),
    "marker": (
        lambda group_bench: awaitable_of(
            group_bench.groups.marker_written(HOME, marker(committed=True), 10**6)
        ),
        "marker_written",
    ),
    "deletion of a topic": (
        lambda group_bench: awaitable_of(
            group_bench.groups.topics_deleted({"orders": uuid.UUID(int=7)})
        ),
        "topics_deleted",
    ),
    "list": (lambda group_bench: awaitable_of(group_bench.groups.list()), "list"),
    "find": (lambda group_bench: awaitable_of(group_bench.groups.find(GROUP)), "find"),
    "shards": (lambda group_bench: awaitable_of(group_bench.groups.shards()), "shards"),
    "owns": (lambda group_bench: awaitable_of(group_bench.groups.owns(HOME)), "owns"),
    "expiry": (lambda group_bench: awaitable_of(group_bench.groups.expire()), "expire"),
    "load": (lambda group_bench: awaitable_of(group_bench.load()), "read"),
    "begin of a load": (
        lambda group_bench: awaitable_of(group_bench.groups.begin_load(HOME, CoordinatorEpoch(99))),
        "begin_load",
    ),
    "unload": (lambda group_bench: awaitable_of(group_bench.unload()), "unload"),
    "stop": (lambda group_bench: awaitable_of(group_bench.groups.stop()), "stop"),
}
GROWING: Final[Mapping[str, frozenset[str]]] = {
    # Once a second at most: the target is made of all members; records for those that changed.
    "join of a consumer": frozenset({"members", "names", "regexes"}),
    "heartbeat of a consumer": frozenset({"members", "names", "regexes"}),
    "leaving of a consumer": frozenset({"members", "names", "regexes"}),
    # All of them fall silent, too.
    "end of a session": frozenset({"members", "classic", "regexes", "names"}),
    # In slices.
    "expiry": frozenset({"members", "classic", "positions", "own_positions", "regexes"}),
    "load": frozenset(STORED),
    # A producer has 50,000 at most.
    "marker": frozenset({"pending"}),
    # The group's own are looked through.
    "deletion of a position": frozenset({"own_positions", "pending"}),
    # Those who wait for an answer, and all timers.
    "begin of a load": frozenset({"members", "classic", "regexes"}),
    "unload": frozenset({"members", "classic", "regexes"}),
    "stop": frozenset({"members", "classic", "regexes"}),
}


ASKED_OF_A_BROKER: Final = frozenset(
    {
        "share_heartbeat",
        "alter_share_offsets",
        "delete_share_offsets",
        "describe_share_offsets",
        "streams_heartbeat",
    }
)
"""Share groups and streams groups: tests/broker/simulation/test_costs.py has their requests."""


def cost(step: Step, stored_kind: str, count: int) -> int:
    """The number of function calls of a step when ``count`` elements are stored."""
    bytecodes_run = 0

    async def story(group_bench: GroupBench) -> None:
        nonlocal bytecodes_run
        await STORED[stored_kind](group_bench, count)
        await group_bench.pass_ms(1_500)  # a target may be made again
        profile = make_call_profile()
        profile.enable()
        await step(group_bench)
        await group_bench.pass_ms(1)
        profile.disable()
        bytecodes_run = sum(count_calls_by_function(profile).values())

    run_groups(story)
    return bytecodes_run


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize("stored_kind", STORED)
@pytest.mark.parametrize("name", STEPS)
def test_a_step_costs_no_more_than_is_declared(name: str, stored_kind: str) -> None:
    step, _ = STEPS[name]
    few, medium, many = (cost(step, stored_kind, size) for size in SIZES)
    may_grow = stored_kind in GROWING.get(name, ())
    many_max = PROPORTION_MAX if may_grow else STEADY_MAX
    assert many <= many_max * max(medium, 50), (few, medium, many)
    assert medium <= many_max * max(few, 50), (few, medium, many)


def test_each_step_of_the_coordinator_is_declared() -> None:
    public = {
        attribute_name
        for attribute_name, attribute_value in vars(GroupCoordinator).items()
        if callable(attribute_value) and not attribute_name.startswith("_")
    }
    assert {method for _, method in STEPS.values()} | ASKED_OF_A_BROKER == public


def test_what_is_declared_is_a_step_and_a_store() -> None:
    assert GROWING.keys() <= STEPS.keys()
    assert all(stored <= STORED.keys() for stored in GROWING.values())
