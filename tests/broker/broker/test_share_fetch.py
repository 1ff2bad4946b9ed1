"""ShareFetch and ShareAcknowledge at a leader: what takes time, other leaders, faults.

What one broker answers at once is in the casebook (``leader/shares``).
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from tests.support.broker_api import Api
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.share_members import FROM_RESET, ShareMember, acquired_ranges, errors, fill
from tests.support.within_environment import within
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.actions import Fail, Hold
from txnsim.faults.points import FaultPoint
from txnsim.interbroker.share_state import ReadShareState
from txnsim.metadata.image import SHARE_VERSION
from txnsim.share.sessions import SessionKey
from txnsim.types import BrokerId, TopicPartition

B1 = BrokerId(1)
ORDERS_0 = TopicPartition("orders", 0)
LOCK_MS = 30_000


def configure_group(cluster: VirtualCluster, **configs: str) -> None:
    """Set share configs of the group g."""
    metadata = cluster.sim.metadata
    group_configs = {
        f"share.{config_name.replace('_', '.')}": config_value
        for config_name, config_value in configs.items()
    }
    metadata.publish(metadata.image.with_group_configs("g", group_configs, keeps_empty=True))


async def member_of(cluster: VirtualCluster, *sizes: int) -> ShareMember:
    """A member of a share group with a state, and a log with batches of these sizes."""
    member = ShareMember(Api(cluster.sim, cluster.leader(ORDERS_0)))
    await member.initialize()
    await fill(member.api, *sizes)
    return member


def second_member(member: ShareMember, name: str = "m2", group: str = "g") -> ShareMember:
    return ShareMember(member.api, name, group)


def shares_of(member: ShareMember) -> Any:
    return member.api.broker.share_fetching.shares


# Waiting


@within(run_cluster, brokers=1)
async def test_a_fetch_waits_for_the_state_and_for_the_next_record(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 2)
    assert await member.get() == "0-1:1"
    fetch_task = member.start_get()
    await asyncio.sleep(1)
    assert not fetch_task.done()
    await fill(member.api, 3)
    assert await fetch_task == "2-4:1"


@within(run_cluster, brokers=1)
async def test_of_two_that_wait_one_gets_the_record(cluster: VirtualCluster) -> None:
    first_member = await member_of(cluster, 1)
    other_member = second_member(first_member)
    assert await first_member.get() == "0-0:1"
    fetch_tasks = [first_member.start_get(wait=3_000), other_member.start_get(wait=3_000)]
    await asyncio.sleep(1)
    await fill(first_member.api, 1)
    assert sorted([await fetch_task for fetch_task in fetch_tasks]) == ["", "1-1:1"]


@within(run_cluster, brokers=1)
async def test_a_fetch_waits_for_as_many_bytes_as_it_wants(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1)
    assert await member.get() == "0-0:1"
    fetch_task = member.start_get(min_bytes=210)
    await asyncio.sleep(1)
    for _ in range(2):  # of 70 bytes each; what was there at the look before counts once
        await fill(member.api, 1)
        await asyncio.sleep(1)
        assert not fetch_task.done()
    await fill(member.api, 1)
    await asyncio.sleep(1)
    assert fetch_task.done()  # long before its time is over
    assert await fetch_task == "1-3:1"


@within(run_cluster, brokers=1)
async def test_without_time_a_fetch_answers_while_the_state_is_read(
    cluster: VirtualCluster,
) -> None:
    member = await member_of(cluster, 1)
    assert await member.get(wait=0) == ""
    await asyncio.sleep(1)
    assert await member.get(wait=0) == "0-0:1"


@within(run_cluster, brokers=1)
async def test_a_group_may_lock_no_more_than_its_limit(cluster: VirtualCluster) -> None:
    configure_group(cluster, partition_max_record_locks="100")
    member = await member_of(cluster, *[10] * 12)
    assert await member.get() == "0-99:1"
    fetch_task = second_member(member).start_get()
    await asyncio.sleep(1)
    assert not fetch_task.done()
    assert errors(await member.acknowledge("0-99:1")) == {0: "none"}
    assert await fetch_task == "100-119:1"


@within(run_cluster, brokers=1)
async def test_a_read_of_very_many_batches_is_looked_at_as_far_as_locks_go(
    cluster: VirtualCluster,
) -> None:
    """The log may have hundreds of thousands of them; a request of 100 bytes reads them all."""
    configure_group(cluster, partition_max_record_locks="100")
    member = await member_of(cluster, *[1] * 400)
    await member.get(wait=0)
    await asyncio.sleep(1)
    shares, looked_at = shares_of(member), []
    acquire = shares.acquire

    def acquire_and_note(led_partition: Any, command: Any) -> Any:
        looked_at.append(len(command.batches))
        return acquire(led_partition, command)

    shares.acquire = acquire_and_note
    assert await member.get() == "0-99:1"
    assert looked_at == [102]


# Locks


@within(run_cluster, brokers=1)
async def test_a_lock_that_runs_out_gives_the_records_to_a_waiting_member(
    cluster: VirtualCluster,
) -> None:
    member = await member_of(cluster, 2)
    other_member = second_member(member)
    assert await member.get() == "0-1:1"
    fetch_task = other_member.start_get()
    await asyncio.sleep(1)
    cluster.advance(LOCK_MS - 1_500)
    await asyncio.sleep(0.1)
    assert not fetch_task.done()
    cluster.advance(1_000)
    assert await fetch_task == "0-1:2"
    assert errors(await member.acknowledge("0-1:1")) == {0: "invalid_record_state"}
    assert errors(await other_member.acknowledge("0-1:1")) == {0: "none"}


@within(run_cluster, brokers=1)
async def test_a_renewed_lock_lasts_from_then_on(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1, 1)
    assert await member.get() == "0-1:1"
    cluster.advance(20_000)
    assert errors(await member.acknowledge("0:4", is_renew_ack=True)) == {0: "none"}
    cluster.advance(20_000)
    await asyncio.sleep(0.1)
    assert await second_member(member).get() == "1-1:2"
    cluster.advance(10_000)
    await asyncio.sleep(0.1)
    assert await second_member(member, "m3").get() == "0-0:2"


@within(run_cluster, brokers=1)
async def test_the_lock_of_a_group_is_as_long_as_its_config_says(cluster: VirtualCluster) -> None:
    configure_group(cluster, record_lock_duration_ms="1000", delivery_count_limit="2")
    member = await member_of(cluster, 1)
    answer = await member.fetch(max_wait=2_000)
    assert acquired_ranges(answer) == "0-0:1"
    assert answer.acquisition_lock_timeout.total_seconds() == 1
    for count in (2, None):
        cluster.advance(1_000)
        await asyncio.sleep(0.1)
        assert await member.get(wait=100) == (f"0-0:{count}" if count else "")


# The end of members


@within(run_cluster, brokers=1)
async def test_a_closed_connection_gives_back_what_its_member_holds(
    cluster: VirtualCluster,
) -> None:
    member = await member_of(cluster, 1)
    other_member = second_member(member)
    assert await member.get() == "0-0:1"
    assert await other_member.get(wait=0) == ""
    member.link.note_closed()
    await asyncio.sleep(0.1)
    assert await other_member.get() == "0-0:2"
    assert len(shares_of(member)) == 1
    other_member.link.note_closed()
    assert len(shares_of(member)) == 0


@within(run_cluster, brokers=1, topics=(("orders", 1_100),))
async def test_a_member_that_returns_while_its_old_session_is_released_gets_all_of_it(
    cluster: VirtualCluster,
) -> None:
    """Of so many share partitions the first slice releases most. The group is not empty then, so
    those that are led stay.
    """
    member = ShareMember(Api(cluster.sim))
    partitions = range(1_100)
    await member.initialize(*partitions)
    for partition in (0, 1_099):
        await fill(member.api, 1, partition=partition)
    await member.fetch(partitions=partitions)
    await asyncio.sleep(1)
    assert with_records(await member.fetch(partitions=partitions, epoch=0)) == [0, 1_099]
    last_share = shares_of(member).find(member.key(1_099))
    member.link.note_closed()
    returning_member = second_member(member, member.name)
    member.api.broker.share_fetching.begin_session(_key(returning_member))
    assert last_share.release(member.name, shares_of(member).settings_of("g")) is None, "not yet"
    await returning_member.fetch(partitions=partitions)
    await asyncio.sleep(1)
    assert shares_of(member).find(member.key(1_099)) is last_share
    assert sorted(with_records(await returning_member.fetch())) == [0, 1_099]
    returning_member.link.note_closed()
    await asyncio.sleep(1)
    assert len(shares_of(member)) == 0


@within(run_cluster, brokers=1)
async def test_a_session_too_many_is_refused_after_the_wait(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1)
    fetching = member.api.broker.share_fetching
    for number in range(2_000):
        fetching.sessions.open(
            SessionKey("g", f"x{number}"),
            object(),
            {},
            session_limit=2_000,
            has_acknowledgements=False,
        )
    begun_ms = cluster.env.clock.monotonic_ms()
    answer = await member.fetch(max_wait=700)
    assert answer.error_code is ErrorCode.share_session_limit_reached
    assert cluster.env.clock.monotonic_ms() - begun_ms >= 700


# Leaders and topics


@within(run_cluster, brokers=3)
async def test_another_leader_goes_on_where_the_state_says(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 2, 2)
    assert await member.get() == "0-3:1"
    assert errors(await member.acknowledge("0-1:1", "2-3:2")) == {0: "none"}
    shares_before = shares_of(member)
    cluster.move(ORDERS_0)
    await asyncio.sleep(1)
    assert len(shares_before) == 0
    answer = await member.fetch(max_wait=100)
    ((moved_partition,),) = (topic.partitions for topic in answer.responses)
    assert moved_partition.error_code is ErrorCode.not_leader_or_follower
    assert moved_partition.current_leader.leader_id == cluster.leader(ORDERS_0)
    assert [node.node_id for node in answer.node_endpoints] == [cluster.leader(ORDERS_0)]
    succeeding_member = ShareMember(Api(cluster.sim, cluster.leader(ORDERS_0)))
    assert await succeeding_member.get() == "2-3:2"


@within(run_cluster, brokers=3)
async def test_an_old_leader_is_fenced_by_the_share_coordinator(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1)
    assert await member.get() == "0-0:1"
    (read_future,) = member.api.broker.share_persister.read(
        [ReadShareState(key=member.key(), leader_epoch=9)]
    )
    assert (await read_future).error == ErrorCode.none  # a newer leader has read the state
    answer = await member.acknowledge("0:1")
    assert errors(answer) == {0: "not_leader_or_follower"}
    assert len(shares_of(member)) == 0
    assert errors(await member.acknowledge("0:1")) == {0: "unknown_topic_or_partition"}


@within(run_cluster, brokers=1)
async def test_a_deleted_topic_takes_its_share_partitions_along(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1)
    assert await member.get() == "0-0:1"
    metadata = cluster.sim.metadata
    metadata.publish(metadata.image.without_topic("orders"))
    await asyncio.sleep(0.1)
    assert len(shares_of(member)) == 0


@within(run_cluster, brokers=1)
async def test_a_failed_directory_ends_all_share_partitions(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1)
    assert await member.get() == "0-0:1"
    member.api.broker.fail_directory()
    assert len(shares_of(member)) == 0


@within(run_cluster, brokers=1)
async def test_without_share_groups_nothing_is_answered(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1)
    assert await member.get() == "0-0:1"
    metadata = cluster.sim.metadata
    image = metadata.image
    metadata.publish(image._next_image(features={**image.features, SHARE_VERSION: 0}))
    await asyncio.sleep(0.1)
    fetching = member.api.broker.share_fetching
    assert (len(fetching.shares), len(fetching.sessions)) == (0, 0)
    for answer in (await member.fetch(), await member.acknowledge("0:1")):
        assert answer.error_code is ErrorCode.unsupported_version


# Where a group begins


@within(run_cluster, brokers=1)
@pytest.mark.parametrize(
    ("strategy", "first_range"),
    [("latest", ""), ("earliest", "0-2:1"), ("by_duration:PT1H", "offset_not_available")],
)
async def test_a_new_group_begins_where_its_strategy_says(
    cluster: VirtualCluster, strategy: str, first_range: str
) -> None:
    configure_group(cluster, auto_offset_reset=strategy)
    member = ShareMember(Api(cluster.sim))
    await member.initialize(start=FROM_RESET)
    await fill(member.api, 1, 2, stamp_ms=cluster.env.clock.now_ms() - 7_200_000)
    assert await member.get(wait=500) == first_range


@within(run_cluster, brokers=1)
async def test_a_new_group_begins_with_what_is_young_enough(cluster: VirtualCluster) -> None:
    configure_group(cluster, auto_offset_reset="by_duration:PT1H")
    member = ShareMember(Api(cluster.sim))
    await member.initialize(start=FROM_RESET)
    await fill(member.api, 2, stamp_ms=cluster.env.clock.now_ms() - 7_200_000)
    await fill(member.api, 1, stamp_ms=cluster.env.clock.now_ms() - 60_000)
    assert await member.get() == "2-2:1"


# Faults


@within(run_cluster, brokers=1)
async def test_what_is_not_persisted_is_the_members_again(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1)
    assert await member.get() == "0-0:1"
    error = ErrorCode.unknown_server_error
    cluster.arm(Fail(error=error.name), FaultPoint.SHARE_PERSIST, kind="write", limit=1)
    assert errors(await member.acknowledge("0:1")) == {0: "unknown_server_error"}
    assert errors(await member.acknowledge("0:1")) == {0: "none"}


@within(run_cluster, brokers=1)
async def test_a_held_write_leaves_its_records_to_nobody(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1)
    assert await member.get() == "0-0:1"
    cluster.arm(Hold(), FaultPoint.SHARE_PERSIST, kind="write")
    acknowledgement_task = asyncio.ensure_future(member.acknowledge("0:2"))  # noqa: TID251 - a client's
    await cluster.wait_until_struck()
    assert await second_member(member).get(wait=100) == ""
    assert not acknowledgement_task.done()
    cluster.sim.injector.release("f")
    assert errors(await acknowledgement_task) == {0: "none"}
    assert await second_member(member, "m3").get() == "0-0:2"


@within(run_cluster, brokers=1)
async def test_a_state_that_can_not_be_read_is_read_again_by_the_next_fetch(
    cluster: VirtualCluster,
) -> None:
    member = await member_of(cluster, 1)
    error = ErrorCode.coordinator_not_available
    cluster.arm(Fail(error=error.name), FaultPoint.SHARE_PERSIST, kind="read", limit=1)
    assert await member.get(wait=200) == "coordinator_not_available"
    assert await member.get() == "0-0:1"


@within(run_cluster, brokers=1)
async def test_a_fault_of_the_read_is_the_partitions_answer(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1)
    cluster.arm(Fail(error="kafka_storage_error"), FaultPoint.LOG_READ, limit=1)
    assert await member.get() == "kafka_storage_error"
    assert await member.get() == "0-0:1"


# Many partitions


@within(run_cluster, brokers=1, topics=(("orders", 300),))
async def test_a_fetch_of_many_partitions_begins_one_further_each_time(
    cluster: VirtualCluster,
) -> None:
    member = ShareMember(Api(cluster.sim))
    partitions = range(300)
    await member.initialize(*partitions)
    for partition in (0, 1):
        await fill(member.api, 1, partition=partition)
    await member.fetch(partitions=partitions, max_wait=0)
    await asyncio.sleep(1)
    all_of_them = await member.fetch(partitions=partitions, max_wait=2_000, epoch=0)
    assert numbers(all_of_them) == list(partitions)
    member.epoch = 1
    for _ in range(2):  # what had records goes to the end of the session
        for partition in (0, 1, 299):
            await fill(member.api, 1, partition=partition)
        assert numbers(await member.fetch(max_wait=2_000)) == [1, 299, 0]


@within(run_cluster, brokers=1, fetch_session_partitions_max=2)
async def test_sessions_have_a_bound_of_partitions(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1)
    answer = await member.fetch(partitions=(0, 1, 2))
    assert answer.error_code is ErrorCode.share_session_limit_reached
    assert isinstance(member.api.broker.share_fetching.sessions.find(_key(member)), Rejection)


def test_in_4_3_an_unknown_topic_fails_the_whole_fetch() -> None:
    unknown_topic = {
        "topic_id": uuid.UUID(int=7),
        "partitions": [{"partition_index": 0, "acknowledgement_batches": []}],
    }

    async def play(cluster: VirtualCluster) -> tuple[str, list[str]]:
        member = await member_of(cluster, 1)
        await member.fetch(partitions=(0,))
        answer = await member.fetch(topics=[unknown_topic])
        errors = [
            partition.error_code.name
            for topic in answer.responses
            for partition in topic.partitions
        ]
        return answer.error_code.name, errors

    rules = {"share_fetches_tell_unknown_topics": False}
    assert run_cluster(play, brokers=1) == ("none", ["unknown_topic_id"])
    assert run_cluster(play, brokers=1, rules=rules) == ("unknown_server_error", [])


def test_in_4_2_a_request_without_a_group_fails() -> None:
    async def play(cluster: VirtualCluster) -> list[str]:
        member = await member_of(cluster, 1)
        member.group = None  # type: ignore[assignment]
        answers = [await member.fetch(partitions=(0,)), await member.acknowledge("0:1")]
        return [answer.error_code.name for answer in answers]

    rules = {"share_requests_need_groups": False}
    assert run_cluster(play, brokers=1) == ["invalid_request"] * 2
    assert run_cluster(play, brokers=1, rules=rules) == ["unknown_server_error"] * 2


def numbers(answer: Any) -> list[int]:
    """The partitions of an answer about one topic."""
    (topic,) = answer.responses
    return [partition.partition_index for partition in topic.partitions]


def with_records(answer: Any) -> list[int]:
    """The partitions of an answer from which records were acquired."""
    return [
        partition_number
        for partition_number in numbers(answer)
        if acquired_ranges(answer, partition_number)
    ]


def _key(member: ShareMember) -> SessionKey:
    return SessionKey(member.group, member.name)


@within(run_cluster, brokers=1)
async def test_around_the_start_offset_with_nothing_in_flight_all_of_a_request_fails(
    cluster: VirtualCluster,
) -> None:
    """A real 4.4.0 throws a NullPointerException in this case."""
    member = await member_of(cluster)
    await member.initialize(start=2)
    assert await member.get(wait=1_000) == ""
    for answer in (await member.acknowledge("1-3:1"), await member.fetch(["1-3:1"])):
        assert (answer.error_code, answer.responses) == (ErrorCode.unknown_server_error, ())
    assert errors(await member.acknowledge("3-4:1")) == {0: "invalid_record_state"}
