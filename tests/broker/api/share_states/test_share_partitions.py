"""The five requests to a share coordinator, asked of a broker: answers, and what is in its log."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.broker_api import Api
from txnsim.api._share_states import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import Subject
from txnsim.interbroker.share_state import ShareKey
from txnsim.node.peers import SHARE_STATE
from txnsim.share_state.log_format import decode_record
from txnsim.share_state.records import ShareDeleted, ShareSnapshot, ShareUpdate
from txnsim.types import SHARE_STATE_TOPIC, BrokerId, TopicPartition, partition_for, uuid_text
from txnsim.wire.batch import read_records

E = ErrorCode
GROUP = "g"
SUMMARY = "ReadShareGroupStateSummary"
NEGATIVE_ID_MESSAGE = "The partition id cannot be a negative number."


def topic_id(api: Api) -> uuid.UUID:
    return api.broker.image.topics["orders"].topic_id


def key(api: Api, partition: int = 0) -> ShareKey:
    return ShareKey(GROUP, uuid_text(topic_id(api)), partition)


async def await_coordinator(api: Api) -> None:
    """Wait until the group's share partitions have their coordinator."""
    keys = [key(api, partition).coordinator_key for partition in range(3)]
    await api.until(
        lambda answer: all(coordinator.error_code is E.none for coordinator in answer.coordinators),
        "FindCoordinator",
        6,
        key_type=2,
        coordinator_keys=keys,
    )


async def ask(
    api: Api, operation: str, *partitions: dict[str, Any], version: int = 0, **request_fields: Any
) -> Any:
    """Send a share state request about partitions of ``orders``."""
    topics = [{"topic_id": topic_id(api), "partitions": partitions}]
    name = operation if operation == SUMMARY else f"{operation}ShareGroupState"
    return await api.ask(name, version, **{"group_id": GROUP, "topics": topics, **request_fields})


async def ask_about_one(api: Api, operation: str, *, version: int = 0, **part: Any) -> Any:
    """Send a share state request about one partition; return the result for it."""
    answer = await ask(api, operation, {"partition": 0, **part}, version=version)
    ((result,),) = (topic.partitions for topic in answer.results)
    return result


async def initialize_partition(api: Api, *, state_epoch: int = 0, start_offset: int = 5) -> None:
    await await_coordinator(api)
    result = await ask_about_one(
        api, "Initialize", state_epoch=state_epoch, start_offset=start_offset
    )
    assert (result.error_code, result.error_message) == (E.none, None)


def batch(
    first_offset: int, last_offset: int, state: int = 2, delivery_count: int = 1
) -> dict[str, int]:
    return {
        "first_offset": first_offset,
        "last_offset": last_offset,
        "delivery_state": state,
        "delivery_count": delivery_count,
    }


def coordinator_records(api: Api, partition: int = 0) -> list[Any]:
    """The records about a share partition in its coordinator's log."""
    home_partition = partition_for(key(api, partition).coordinator_key, 50)
    log = api.broker.replicas.led[TopicPartition(SHARE_STATE_TOPIC, home_partition)]
    return [
        decode_record(record.key or b"", record.value)
        for chunk in log.batches()
        for record in read_records(chunk)
    ]


def test_brokers_ask_each_other_by_the_same_keys() -> None:
    handlers = (
        initialize_share_group_state,
        read_share_group_state,
        write_share_group_state,
        delete_share_group_state,
        read_share_group_state_summary,
    )
    assert tuple(handler_module.API_KEY for handler_module in handlers) == SHARE_STATE


async def test_a_state_is_initialised_written_read_summed_up_and_deleted(api: Api) -> None:
    await initialize_partition(api, state_epoch=3)
    write_result = await ask_about_one(
        api,
        "Write",
        version=1,
        state_epoch=3,
        leader_epoch=2,
        start_offset=6,
        delivery_complete_count=1,
        state_batches=[batch(4, 7), batch(9, 9, 0, 2)],
    )
    assert write_result.error_code is E.none
    read = await ask_about_one(api, "Read", leader_epoch=2)
    assert (read.state_epoch, read.start_offset) == (3, 6)
    assert [
        (
            state_batch.first_offset,
            state_batch.last_offset,
            state_batch.delivery_state,
            state_batch.delivery_count,
        )
        for state_batch in read.state_batches
    ] == [(6, 7, 2, 1), (9, 9, 0, 2)]
    summed = await ask_about_one(api, SUMMARY, version=1, leader_epoch=-1)
    assert (summed.state_epoch, summed.leader_epoch) == (3, 2)
    assert (summed.start_offset, summed.delivery_complete_count) == (6, 1)
    assert (await ask_about_one(api, "Delete")).error_code is E.none
    result = await ask_about_one(api, SUMMARY, version=1, leader_epoch=-1)
    assert (result.start_offset, result.delivery_complete_count, result.error_code) == (
        -1,
        -1,
        E.none,
    )
    kinds = [type(record) for record in coordinator_records(api)]
    assert kinds == [ShareSnapshot, ShareUpdate, ShareUpdate, ShareDeleted]


async def test_version_0_says_nothing_of_complete_deliveries(api: Api) -> None:
    await initialize_partition(api)
    await ask_about_one(
        api, "Write", state_epoch=0, leader_epoch=0, start_offset=8, state_batches=[]
    )
    assert coordinator_records(api)[-1].delivery_complete_count == -1
    summed = await ask_about_one(api, SUMMARY, leader_epoch=-1)
    assert summed.start_offset == 8
    assert not hasattr(summed, "delivery_complete_count")


async def test_an_error_leaves_everything_else_at_zero(api: Api) -> None:
    await await_coordinator(api)
    for operation, part in {
        "Initialize": {"state_epoch": 0, "start_offset": 0},
        "Read": {"leader_epoch": 0},
        "Write": {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": []},
        "Delete": {},
        SUMMARY: {"leader_epoch": 0},
    }.items():
        result = await ask_about_one(api, operation, **part, partition=-1)
        assert (result.partition, result.error_code) == (-1, E.invalid_request)
        assert result.error_message == NEGATIVE_ID_MESSAGE
        if operation in ("Read", SUMMARY):
            assert (result.state_epoch, result.start_offset) == (0, 0)


async def test_each_partition_is_answered_by_itself(api: Api) -> None:
    await await_coordinator(api)
    initial_partition = {"partition": 1, "state_epoch": 0, "start_offset": 0}
    repeated_partition = {**initial_partition, "state_epoch": -1}
    answer = await ask(
        api,
        "Initialize",
        initial_partition,
        {**initial_partition, "partition": 7},
        repeated_partition,
    )
    (topic,) = answer.results
    assert topic.topic_id == topic_id(api)
    assert {partition.partition: partition.error_code for partition in topic.partitions} == {
        1: E.invalid_request,  # what was named last
        7: E.unknown_topic_or_partition,
    }
    assert [type(record) for record in coordinator_records(api, 1)] == [ShareSnapshot]


async def test_the_id_of_zeroes_is_no_topics(api: Api) -> None:
    await await_coordinator(api)
    zeroes = [{"topic_id": None, "partitions": [{"partition": 0}]}]
    answer = await ask(api, "Delete", topics=zeroes)
    (topic,) = answer.results
    assert topic.topic_id is None
    (result,) = topic.partitions
    # Where nothing coordinates its key yet, that is said first.
    assert result.error_code in (E.unknown_topic_or_partition, E.not_coordinator)


@pytest.mark.parametrize("operation", ["Initialize", "Read", "Write", "Delete", SUMMARY])
async def test_a_request_about_nothing_is_answered_with_nothing(api: Api, operation: str) -> None:
    await await_coordinator(api)
    part = {
        "Initialize": {"state_epoch": 0, "start_offset": 0},
        "Read": {"leader_epoch": 0},
        "Write": {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": []},
        "Delete": {},
        SUMMARY: {"leader_epoch": 0},
    }[operation]
    full_topic = {"topic_id": topic_id(api), "partitions": [{"partition": 0, **part}]}
    assert (await ask(api, operation, topics=[])).results == ()
    assert (await ask(api, operation, topics=[full_topic], group_id="")).results == ()
    empty = {"topic_id": topic_id(api), "partitions": []}
    answered_topics = (await ask(api, operation, topics=[full_topic, empty])).results
    assert len(answered_topics) == (1 if operation == "Initialize" else 0)


async def test_a_coordinator_elsewhere_sends_the_request_away(api_of_three: Api) -> None:
    await await_coordinator(api_of_three)
    home_partition = partition_for(key(api_of_three).coordinator_key, 50)
    leader = api_of_three.broker.image.topics[SHARE_STATE_TOPIC].partitions[home_partition].leader
    other_broker_api = api_of_three.on_broker(leader % 3 + 1)
    read = await ask_about_one(other_broker_api, "Read", leader_epoch=0)
    assert read.error_code is E.not_coordinator
    text = "Unable to read share group state: This is not the correct coordinator."
    assert read.error_message == text
    summed = await ask_about_one(other_broker_api, SUMMARY, leader_epoch=0)
    assert summed.error_message == (
        "Unable to read share group state summary: This is not the correct coordinator."
    )


async def test_the_state_moves_with_the_leader(api_of_three: Api) -> None:
    await await_coordinator(api_of_three)
    cluster = api_of_three.cluster
    home_partition = partition_for(key(api_of_three).coordinator_key, 50)
    topic_partition = TopicPartition(SHARE_STATE_TOPIC, home_partition)
    leader = api_of_three.broker.image.topics[SHARE_STATE_TOPIC].partitions[home_partition].leader
    result = await ask_about_one(
        api_of_three.on_broker(leader), "Initialize", state_epoch=4, start_offset=9
    )
    assert result.error_code is E.none
    broker_id = BrokerId(leader % 3 + 1)
    cluster.move_leader(topic_partition, broker_id)
    read = await ask_about_one(api_of_three.on_broker(broker_id), "Read", leader_epoch=0)
    assert (read.error_code, read.state_epoch, read.start_offset) == (E.none, 4, 9)
    assert (
        await ask_about_one(api_of_three.on_broker(leader), "Read", leader_epoch=0)
    ).error_code is (E.not_coordinator)


async def test_a_whole_request_is_refused_on_every_partition(api: Api) -> None:
    topics = [{"topic_id": topic_id(api), "partitions": [{"partition": 0}, {"partition": 1}]}]
    refusal_answer = api.refuse(
        "DeleteShareGroupState", 0, E.cluster_authorization_failed, group_id=GROUP, topics=topics
    )
    ((first_partition, second_partition),) = (topic.partitions for topic in refusal_answer.results)
    assert (first_partition.error_code, second_partition.partition) == (
        E.cluster_authorization_failed,
        1,
    )
    topics = [
        {"topic_id": topic_id(api), "partitions": [{"partition": 0, "leader_epoch": 0}]},
    ]
    refusal_answer = api.refuse(
        "ReadShareGroupState", 0, E.cluster_authorization_failed, group_id=GROUP, topics=topics
    )
    ((first_partition,),) = (topic.partitions for topic in refusal_answer.results)
    assert (first_partition.start_offset, first_partition.state_batches) == (0, ())


def test_it_is_about_partitions_that_are_there(api: Api) -> None:
    topic_fields = {"topic_id": topic_id(api), "partitions": [{"partition": 0}, {"partition": 2}]}
    unknown_topic = {"topic_id": uuid.UUID(int=7), "partitions": [{"partition": 0}]}
    subject = api.subject(
        "DeleteShareGroupState", 0, group_id=GROUP, topics=[topic_fields, unknown_topic]
    )
    assert subject == Subject(partitions=(TopicPartition("orders", 0), TopicPartition("orders", 2)))
