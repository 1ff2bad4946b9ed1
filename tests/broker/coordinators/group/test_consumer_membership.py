"""Members of the consumer protocol from the outside: when they are answered, which timers fire."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.consumer_groups import image, parts
from tests.support.group_api import SUBSCRIPTION
from tests.support.group_world import GROUP, GroupWorld, run_groups
from tests.support.within import within
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.consumer_group import LEFT, ConsumerGroup
from txnsim.group.subscription import write_assignment

E = ErrorCode


def consumers(world: GroupWorld) -> ConsumerGroup:
    group = world.group()
    assert isinstance(group, ConsumerGroup)
    return group


@within(run_groups)
async def test_a_heartbeat_is_answered_when_its_records_are_replicated(world: GroupWorld) -> None:
    world.log.held = True
    waits = world.later(world.consume("a"))
    await world.pass_ms(1_000)
    assert not waits.done()
    world.log.release()
    assert (await waits).member_epoch == 2
    written = len(world.log.batches)
    assert (await world.consume("a", 2)).member_epoch == 2
    assert len(world.log.batches) == written  # nothing has changed, nothing to wait for


@within(run_groups)
async def test_records_that_are_refused_or_not_replicated_are_an_error(world: GroupWorld) -> None:
    world.log.refusal = E.not_enough_replicas
    assert (await world.consume("a")).error is E.coordinator_not_available
    world.log.refusal = None
    world.log.held = True
    waits = world.later(world.consume("a"))
    await world.pass_ms(1)
    world.log.release(E.request_timed_out)
    assert (await waits).error is E.coordinator_not_available


@within(run_groups)
async def test_a_silent_member_is_fenced(world: GroupWorld) -> None:
    await world.consume("a")
    await world.pass_ms(44_000)
    assert (await world.consume("a", 2)).member_epoch == 2
    await world.pass_ms(44_000)
    assert not consumers(world).is_empty
    await world.pass_ms(1_001)
    assert consumers(world).is_empty
    assert (await world.consume("a", 2)).error is E.unknown_member_id


@within(run_groups)
async def test_who_gives_nothing_up_in_time_is_fenced(world: GroupWorld) -> None:
    await world.consume("a", rebalance_timeout_ms=20_000)
    await world.pass_ms(1_500)  # target assignments are made once a second at most
    await world.consume("b")
    asked = await world.consume("a", 2)
    assert len(asked.assignment) == 2
    for _ in range(3):
        await world.pass_ms(6_000)
        await world.consume("a", 2)
    assert set(consumers(world).members) == {"a", "b"}
    await world.pass_ms(2_001)
    assert set(consumers(world).members) == {"b"}


@within(run_groups)
async def test_who_gives_up_in_time_goes_on(world: GroupWorld) -> None:
    await world.consume("a", rebalance_timeout_ms=20_000)
    await world.pass_ms(1_500)
    await world.consume("b")
    asked = await world.consume("a", 2)
    kept = frozenset(asked.assignment)
    moved = await world.consume("a", 2, owned=kept)
    assert moved.member_epoch == 3
    for epoch in (3, 3, 3):
        await world.pass_ms(15_000)
        assert (await world.consume("a", epoch)).member_epoch == 3
        await world.consume("b", consumers(world).members["b"].member_epoch)
    assert (len(kept), len(parts("orders", 0, 1, 2) - kept)) == (2, 1)


@within(run_groups)
async def test_regular_expressions_are_looked_up_after_the_heartbeat(world: GroupWorld) -> None:
    regex: dict[str, Any] = {"topic_names": None, "topic_regex": "ord.*"}
    joined = await world.consume("a", **regex)
    assert joined.assignment == ()
    await world.pass_ms(1_500)
    told = await world.consume("a", joined.member_epoch)
    assert frozenset(told.assignment) == parts("orders", 0, 1, 2)


@within(run_groups)
async def test_the_log_may_refuse_a_write_without_a_waiting_request(world: GroupWorld) -> None:
    await world.consume("a")
    world.log.refusal = E.not_enough_replicas
    await world.pass_ms(45_001)  # the session is over, but that could not be written
    world.log.refusal = None
    assert (await world.consume("a", 2)).member_epoch == 2


@within(run_groups)
async def test_a_new_coordinator_gives_each_member_a_session(world: GroupWorld) -> None:
    await world.consume("a")
    world.unload()
    await world.pass_ms(100_000)
    world.load()
    assert (await world.consume("a", 2)).member_epoch == 2
    await world.pass_ms(45_001)
    assert consumers(world).is_empty


@within(run_groups)
async def test_a_deleted_group_has_no_timers(world: GroupWorld) -> None:
    await world.consume("a")
    assert isinstance(await world.groups.delete(GROUP), Rejection)
    await world.consume("a", -1)
    assert await world.groups.delete(GROUP) is None
    await world.pass_ms(600_000)
    assert world.groups.list() == ()


@within(run_groups)
async def test_a_group_that_is_not_there_is_only_joined(world: GroupWorld) -> None:
    assert (await world.consume("a", 2)).error is E.group_id_not_found
    await world.commit(5)  # a group without members, so it may become one of consumers
    assert (await world.consume("a")).member_epoch == 2
    assert consumers(world).state_name == "Stable"
    assert await world.fetch() == 5
    world.unload()
    world.load()
    assert consumers(world).state_name == "Stable"


@within(run_groups)
async def test_new_partitions_are_assigned_with_a_new_epoch(world: GroupWorld) -> None:
    await world.consume("a")
    await world.pass_ms(1_500)
    world.image = image(offset=2, orders=4)
    told = await world.consume("a", 2)
    assert (told.member_epoch, len(told.assignment)) == (3, 4)


# Configs of the group


def configured(world: GroupWorld, **configs: str) -> None:
    own = {name.replace("_", "."): value for name, value in configs.items()}
    world.image = world.image.with_group_configs(GROUP, own)


@within(run_groups)
async def test_a_group_has_its_own_intervals(world: GroupWorld) -> None:
    configured(world, consumer_session_timeout_ms="60000", consumer_heartbeat_interval_ms="9000")
    joined = await world.consume("a")
    assert joined.heartbeat_interval_ms == 9_000
    await world.pass_ms(59_999)
    assert not consumers(world).is_empty
    await world.pass_ms(2)
    assert consumers(world).is_empty
    configured(world)
    joined = await world.consume("b")
    assert joined.heartbeat_interval_ms == 5_000
    await world.pass_ms(45_001)
    assert consumers(world).is_empty


@within(run_groups)
async def test_a_group_may_be_assigned_at_every_change(world: GroupWorld) -> None:
    configured(world, consumer_assignment_interval_ms="0")
    await world.consume("a")
    await world.consume("b")
    assert consumers(world).assignment_epoch == consumers(world).epoch
    configured(world, consumer_assignment_interval_ms="15000")
    await world.consume("c")
    assert consumers(world).assignment_epoch < consumers(world).epoch


# Policies of the broker


@within(run_groups, group_consumer_assignors="range")
async def test_the_assignors_of_the_broker_are_those_that_there_are(world: GroupWorld) -> None:
    refused = await world.consume("a", server_assignor="uniform")
    assert refused.error is E.unsupported_assignor
    assert refused.reason.endswith("Supported assignors: range.")
    assert not isinstance(await world.consume("a", server_assignor="range"), Rejection)


@pytest.mark.parametrize(
    ("policy", "is_upgraded"),
    [("bidirectional", True), ("Upgrade", True), ("downgrade", False), ("disabled", False)],
)
def test_a_classic_group_is_upgraded_where_the_policy_allows_it(
    policy: str, *, is_upgraded: bool
) -> None:
    async def main(world: GroupWorld) -> None:
        joined = await world.join(protocols=(("range", SUBSCRIPTION),))
        given = {joined.member_id: write_assignment(0, {"orders": [0, 1, 2]})}
        await world.sync(joined.member_id, joined.generation, given=given)
        answer = await world.consume("a")
        assert isinstance(world.group(), ConsumerGroup) is is_upgraded
        if not is_upgraded:
            assert answer.error is E.group_id_not_found
            assert answer.reason.endswith("because online upgrade is disabled.")

    run_groups(main, group_consumer_migration_policy=policy)


@pytest.mark.parametrize(
    ("policy", "joins", "is_downgraded"),
    [
        ("bidirectional", True, True),
        ("downgrade", True, True),
        ("upgrade", True, False),
        ("disabled", False, False),
    ],
)
def test_a_consumer_group_is_mixed_and_downgraded_where_the_policy_allows_it(
    policy: str, *, joins: bool, is_downgraded: bool
) -> None:
    async def main(world: GroupWorld) -> None:
        await world.consume("a")
        joined = await world.join(protocols=(("range", SUBSCRIPTION),))
        expected = E.none if joins else E.inconsistent_group_protocol
        assert joined.error is expected
        await world.consume("a", LEFT)
        assert isinstance(world.group(), ClassicGroup) is is_downgraded

    run_groups(main, group_consumer_migration_policy=policy)
