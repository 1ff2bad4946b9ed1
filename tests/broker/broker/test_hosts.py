"""Coordinators on a broker: which partitions they have, and what becomes of them."""

from __future__ import annotations

import uuid

import pytest

from tests.support.broker_api import batch
from tests.support.group_api import GROUP, GroupApi, group_api
from txnsim.broker.coordinator_host import CoordinatorHost, GroupHost, short_id
from txnsim.broker.verification import TransactionOperation
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.offset_commands import CommittingProducer
from txnsim.interbroker.transactions import TxnMarker
from txnsim.log.answers import Appended
from txnsim.log.verification import SENTINEL
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    BrokerId,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    partition_for,
)

# The group coordinator on its broker: leadership, the log it writes, transactions, markers.


E = ErrorCode
ADD = TransactionOperation.ADD_PARTITION
VERIFY = TransactionOperation.GENERIC_ERROR_SUPPORTED
HOME = partition_for(GROUP, 3)


def host(groups: GroupApi, broker: int = 1) -> GroupHost:
    return groups.api.cluster.brokers[BrokerId(broker)].group_host


def committing(identity: tuple[int, int]) -> CommittingProducer:
    return CommittingProducer(
        transactional_id=TransactionalId("id"),
        producer_id=ProducerId(identity[0]),
        producer_epoch=ProducerEpoch(identity[1]),
    )


def offsets_partition(partition: int) -> TopicPartition:
    return TopicPartition(CONSUMER_OFFSETS_TOPIC, partition)


def marker(producer_id: int) -> TxnMarker:
    return TxnMarker(
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(0),
        committed=True,
        coordinator_epoch=CoordinatorEpoch(0),
        transaction_version=0,
        partitions=(offsets_partition(HOME),),
    )


async def test_groups_and_positions_move_with_the_leader(of_two: GroupApi) -> None:
    cluster = of_two.api.cluster
    home_partition = partition_for(GROUP, 3)
    leader = host(of_two).coordinator_of(GROUP)
    assert leader is not None
    leader_groups = GroupApi(of_two.api.on_broker(leader))
    await leader_groups.commit(5)
    other_broker = BrokerId(3 - leader)
    cluster.move_leader(offsets_partition(home_partition), other_broker)
    other_groups = GroupApi(of_two.api.on_broker(other_broker))
    # The new leader has to hear how far the other one is before it knows what is replicated.
    assert await other_groups.committed_offset(require_stable=True) == (5, E.none)
    moved_answer = await leader_groups.api.ask(
        "OffsetFetch", 7, group_id=GROUP, topics=None, require_stable=False
    )
    assert moved_answer.error_code is E.not_coordinator
    assert host(of_two, leader).refuses_markers(offsets_partition(home_partition))
    assert not host(of_two, other_broker).refuses_markers(offsets_partition(home_partition))
    assert not host(of_two, leader).refuses_markers(TopicPartition("orders", 0))


@pytest.mark.parametrize("must_wait", [False, True])
async def test_a_new_leader_answers_at_once_or_under_the_switch_once_all_is_replicated(
    must_wait: bool,
) -> None:
    switches = {"loads_wait_for_replication": True} if must_wait else {}
    async with group_api(brokers=2, rules=switches) as groups:
        leader = host(groups).coordinator_of(GROUP)
        assert leader is not None
        await GroupApi(groups.api.on_broker(leader)).commit(5)
        other_broker = BrokerId(3 - leader)
        groups.api.cluster.move_leader(offsets_partition(HOME), other_broker)
        leader_api = groups.api.on_broker(other_broker)
        fields = {"group_id": GROUP, "topics": None, "require_stable": False}
        first_answer = await leader_api.ask("OffsetFetch", 7, **fields)
        assert first_answer.error_code is (E.coordinator_load_in_progress if must_wait else E.none)
        await leader_api.until(
            lambda answer: answer.error_code is E.none, "OffsetFetch", 7, **fields
        )
        assert await GroupApi(leader_api).committed_offset(require_stable=True) == (5, E.none)


async def test_positions_go_with_their_topic_also_where_it_is_made_anew(groups: GroupApi) -> None:
    await groups.commit(5)
    await groups.api.ask("DeleteTopics", 1, topic_names=["orders"])
    await groups.api.ask(
        "CreateTopics",
        2,
        topics=[{"name": "orders", "num_partitions": 1, "replication_factor": 1}],
    )
    assert await groups.committed_offset() == (-1, E.none)


async def test_without_the_topic_there_is_no_coordinator(groups: GroupApi) -> None:
    assert host(groups).coordinator_of(GROUP) == 1
    await groups.api.ask("DeleteTopics", 1, topic_names=[CONSUMER_OFFSETS_TOPIC])
    assert host(groups).coordinator_of(GROUP) is None
    assert not host(groups).coordinator.owns(HOME)


async def test_a_log_that_another_broker_leads_is_not_verified_for(of_two: GroupApi) -> None:
    topic = of_two.api.cluster.metadata.image.topics[CONSUMER_OFFSETS_TOPIC]
    foreign_partition = next(
        n for n, partition in enumerate(topic.partitions) if partition.leader != 1
    )
    rejection = await host(of_two).verify(foreign_partition, committing((1, 0)), ADD)
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.not_leader_or_follower


async def test_the_coordinator_of_the_transaction_is_asked(groups: GroupApi) -> None:
    identity = await groups.api.producer("id")
    rejection = await host(groups).verify(HOME, committing(identity), VERIFY)
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.transaction_abortable
    add_result = await host(groups).verify(HOME, committing(identity), ADD)
    assert isinstance(add_result, int)
    assert add_result != SENTINEL
    verification_result = await host(groups).verify(HOME, committing(identity), VERIFY)
    assert isinstance(verification_result, int)
    assert verification_result != SENTINEL


async def test_nothing_is_asked_where_verification_is_switched_off() -> None:
    async with group_api(transaction_partition_verification_enable=False) as groups:
        identity = await groups.api.producer("id")
        assert await host(groups).verify(HOME, committing(identity), VERIFY) == SENTINEL


async def test_markers_on_other_topics_are_ignored(groups: GroupApi) -> None:
    host(groups).marker_written(TopicPartition("orders", 0), marker(7), 0)
    host(groups).marker_written(offsets_partition(HOME), marker(7), 0)
    assert await groups.committed_offset() == (-1, E.none)


def test_an_id_in_kafka_s_own_form_begins_with_no_dash() -> None:
    # Uuid.randomUuid draws again; a real broker has never given the first one to a member.
    drawn_ids = iter([uuid.UUID("fa23a309-3952-4ecf-b3fb-26118a831847"), uuid.UUID(int=1)])
    assert short_id(lambda: next(drawn_ids)) == "AAAAAAAAAAAAAAAAAAAAAQ"


# A coordinator's log on its broker; what both coordinators share.


def group_host_of(groups: GroupApi, broker_id: int = 1) -> CoordinatorHost:
    return groups.api.cluster.brokers[BrokerId(broker_id)].group_host


async def test_the_log_of_a_partition(groups: GroupApi) -> None:
    log = group_host_of(groups)
    end_before = log.high_watermark_of(HOME)
    appended = log.append(HOME, batch(b"v"), guard=SENTINEL)
    assert isinstance(appended, Appended)
    assert log.high_watermark_of(HOME) == end_before + 1
    assert log.wait_for_commit(HOME, appended.last_offset, timeout_ms=1_000) is None


async def test_a_partition_that_another_broker_leads(of_two: GroupApi) -> None:
    image = of_two.api.cluster.metadata.image
    topic = image.topics[CONSUMER_OFFSETS_TOPIC]
    foreign_partition = next(
        n for n, partition in enumerate(topic.partitions) if partition.leader != 1
    )
    log = group_host_of(of_two)
    rejection = log.append(foreign_partition, batch(b"v"), guard=SENTINEL)
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.not_leader_or_follower
    assert log.high_watermark_of(foreign_partition) == 0
    commit_awaitable = log.wait_for_commit(foreign_partition, 0, timeout_ms=1_000)
    assert commit_awaitable is not None
    assert await commit_awaitable is E.not_leader_or_follower


async def test_too_few_replicas_refuse_a_coordinators_records() -> None:
    async with group_api(
        brokers=2, offsets_topic_replication_factor=2, min_insync_replicas=2
    ) as groups:
        await groups.api.cluster.stop_broker(BrokerId(2))
        rejection = group_host_of(groups).append(HOME, batch(b"v"), guard=SENTINEL)
        assert isinstance(rejection, Rejection)
        assert rejection.error is E.not_enough_replicas


async def test_nothing_is_appended_once_the_directory_has_failed(groups: GroupApi) -> None:
    log = group_host_of(groups)
    log.directory_failed()
    rejection = log.append(HOME, batch(b"v"))
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.not_leader_or_follower
