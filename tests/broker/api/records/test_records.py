"""Handlers of records."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.broker_api import (
    NO_SUCH_ID,
    STAMP_MS,
    Api,
    batch,
    fetch,
    handlers,
    produce,
    read_back,
)
from txnsim.api._records import produce as produce_module
from txnsim.api._records.fetch import ABORTED_MAX
from txnsim.api._records.fetch import handle as handle_fetch
from txnsim.api._records.produce import OPERATIONS, handle, refuse
from txnsim.api.registry import HANDLERS
from txnsim.api.request import NoResponse
from txnsim.broker.verification import TransactionOperation
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Pass
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.log.txn_index import AbortedTxn
from txnsim.runtime.loop_turns import LOOKS, Pace
from txnsim.types import BrokerId, IsolationLevel, TopicPartition
from txnsim.wire.batch import GZIP, Record, build_batch, iter_batches

# ``fetch``: Fetch v4 to v18: how long a reader waits, what is kept; the casebook has its answers.


@pytest.fixture
async def api_with_records(api: Api) -> Api:
    """The api of a cluster that has two batches of two records each in orders-0."""
    for _ in range(2):
        await api.ask("Produce", 8, **produce("orders", batch(b"a", b"b")))
    return api


def only_partition_of(answer: Any) -> Any:
    (partition,) = answer.responses[0].partitions
    return partition


def offsets(records: bytes) -> list[int]:
    return [header.base_offset for _, header in iter_batches(records)]


def fetch_fields(api: Api, offset: int = 0, **request_fields: Any) -> dict[str, Any]:
    return fetch("orders", offset, topic_id=api.topic_id("orders"), **request_fields)


async def test_a_reader_waits_for_the_next_record(api_with_records: Api) -> None:
    values = fetch_fields(api_with_records, 4, max_wait_ms=20_000)
    task = asyncio.ensure_future(api_with_records.ask("Fetch", 12, **values))  # noqa: TID251 - a client's
    await asyncio.sleep(0)
    assert not task.done()
    await api_with_records.ask("Produce", 8, **produce("orders", batch(b"c")))
    assert offsets(only_partition_of(await task).records) == [4]


async def test_many_aborted_transactions_are_told_in_slices(api_with_records: Api) -> None:
    """100,000 behind an open transaction were one step."""
    log = api_with_records.broker.replicas.led[TopicPartition("orders", 0)]
    for aborted_count in (ABORTED_MAX, ABORTED_MAX + 100):
        for number in range(len(log.local.index.entries()), aborted_count):
            log.local.index.append(
                AbortedTxn(
                    producer_id=number,
                    first_offset=0,
                    last_offset=100 + number,
                    last_stable_offset=0,
                )
            )
        values = fetch_fields(api_with_records, 0, isolation=IsolationLevel.READ_COMMITTED)
        request = api_with_records.request("Fetch", 12, **values)
        answer = await handle_fetch(request)
        (partition_row,) = answer.responses[0].partitions  # type: ignore[union-attr]
        told = [(row.producer_id, row.first_offset) for row in partition_row.aborted_transactions]
        assert told == [(number, 0) for number in range(aborted_count)]
        is_long = aborted_count > ABORTED_MAX
        assert (request.pace is not None and request.pace.has_rested) is is_long


async def test_a_reader_waits_beside_what_does_not_exist(api_with_records: Api) -> None:
    values = fetch_fields(api_with_records, 4, max_wait_ms=20_000)
    values["topics"] += fetch("x", topic_id=NO_SUCH_ID)["topics"]
    task = asyncio.ensure_future(api_with_records.ask("Fetch", 13, **values))  # noqa: TID251 - a client's
    await asyncio.sleep(0)
    assert not task.done()
    await api_with_records.ask("Produce", 8, **produce("orders", batch(b"c")))
    topic_answer, missing = (await task).responses
    assert offsets(topic_answer.partitions[0].records) == [4]
    assert missing.partitions[0].error_code is ErrorCode.unknown_topic_id


@pytest.mark.parametrize("version", [12, 13])
async def test_a_reader_does_not_wait_for_what_does_not_exist(
    api_with_records: Api, version: int
) -> None:
    values = fetch("x", topic_id=NO_SUCH_ID, max_wait_ms=60_000)
    assert only_partition_of(await api_with_records.ask("Fetch", version, **values)).error_code


async def test_a_reader_does_not_wait_where_something_failed(api_with_records: Api) -> None:
    values = fetch_fields(api_with_records, 4, max_wait_ms=60_000)
    values["topics"] += fetch_fields(api_with_records, partition=1, current_leader_epoch=9)[
        "topics"
    ]
    answer = await api_with_records.ask("Fetch", 13, **values)
    assert answer.responses[0].partitions[1].error_code is ErrorCode.unknown_leader_epoch


async def test_a_reader_waits_for_no_more_bytes_than_it_takes(api_with_records: Api) -> None:
    values = {
        **fetch_fields(api_with_records, max_wait_ms=60_000),
        "min_bytes": 9_999,
        "max_bytes": 1,
    }
    assert offsets(
        only_partition_of(await api_with_records.ask("Fetch", 12, **values)).records
    ) == [0]


# Sessions


@pytest.mark.parametrize("version", [4, 5, 6])
async def test_before_v7_there_are_no_sessions(api_with_records: Api, version: int) -> None:
    assert (
        only_partition_of(
            await api_with_records.ask("Fetch", version, **fetch_fields(api_with_records))
        ).error_code
        == 0
    )
    assert len(api_with_records.broker.fetch_sessions) == 0


async def test_the_slots_are_a_setting() -> None:
    async with handlers(max_incremental_fetch_session_cache_slots=7) as api:
        answer = await api.ask("Fetch", 12, **fetch_fields(api), session_epoch=0)
        assert (answer.session_id, len(answer.responses)) == (0, 1)


async def test_subject(api_with_records: Api) -> None:
    for version in (12, 13):
        subject = api_with_records.subject("Fetch", version, **fetch_fields(api_with_records))
        assert [str(partition) for partition in subject.partitions] == ["orders-0"]


async def test_a_request_is_about_the_partitions_of_its_session_too(api_with_records: Api) -> None:
    opening_answer = await api_with_records.ask(
        "Fetch", 12, **fetch_fields(api_with_records), session_epoch=0
    )
    values = {
        **fetch_fields(api_with_records, partition=1),
        "session_id": opening_answer.session_id,
    }
    subject = api_with_records.subject("Fetch", 12, **values, session_epoch=1)
    assert [str(partition) for partition in subject.partitions] == ["orders-1", "orders-0"]
    stale_subject = api_with_records.subject("Fetch", 12, **values, session_epoch=5)
    assert [str(partition) for partition in stale_subject.partitions] == ["orders-1"]


@pytest.mark.parametrize(
    ("rules", "records"), [({}, b""), ({"refused_fetches_have_records": False}, None)]
)
async def test_records_of_a_fetch_that_is_refused(
    rules: dict[str, bool], records: bytes | None
) -> None:
    async with handlers(rules=rules) as api:
        answer = await api.ask("Fetch", 12, **{**fetch("orders", 0), "isolation_level": 2})
    assert only_partition_of(answer).error_code is ErrorCode.unknown_server_error
    assert only_partition_of(answer).records == records


@pytest.mark.parametrize("version", [4, 12, 13])
async def test_a_large_request_that_waits_keeps_no_message_but_what_it_is_about(
    api_with_records: Api, version: int
) -> None:
    """The message of a Fetch of 10,000 partitions takes more memory than all else of it."""
    positions = ((0, 4), (1, 0), (0, 4))
    listed_partitions = [
        {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        for partition, offset in positions
    ]
    values = {**fetch_fields(api_with_records), "max_wait": timedelta(seconds=5), "min_bytes": 1}
    (topic,) = values["topics"]
    values["topics"] = [{**topic, "partitions": listed_partitions}]
    request = api_with_records.request("Fetch", version, **values)
    environment = api_with_records.broker.environment
    request.pace = Pace(environment.tasks.turns, environment.clock.stopwatch_ns)
    subject = HANDLERS[request.api_key].subject(request)
    handled_coroutine = HANDLERS[request.api_key].handle(request)
    reading_task = asyncio.ensure_future(handled_coroutine)  # noqa: TID251 - a client's
    await asyncio.sleep(0)
    assert request.message.topics == ()
    assert HANDLERS[request.api_key].subject(request) == subject
    refusal_answer = read_back(
        request, HANDLERS[request.api_key].refuse(request, ErrorCode.unknown_server_error)
    )
    if version < 13:
        partitions = refusal_answer.responses[0].partitions
        assert [part.partition_index for part in partitions] == [0, 1]
    await api_with_records.ask("Produce", 8, **produce("orders", batch(b"c")))
    answer = read_back(request, await reading_task)
    assert offsets(answer.responses[0].partitions[0].records) == [4]


# Produce v3 to v13: who may write where, slices, the subject; the casebook has its answers.


GOOD = batch(b"a", b"b")


def values(api: Api, records: bytes | None, **request_fields: Any) -> dict[str, Any]:
    return produce("orders", records, topic_id=api.topic_id("orders"), **request_fields)


def part_of_produce(answer: Any) -> Any:
    (partition,) = answer.responses[0].partition_responses
    return partition


@pytest.mark.parametrize("version", [3, 13])
async def test_less_than_the_header_of_a_batch_is_no_batch(api: Api, version: int) -> None:
    partition_answer = part_of_produce(await api.ask("Produce", version, **values(api, GOOD[:16])))
    assert partition_answer.error_code is ErrorCode.invalid_record


@pytest.mark.parametrize("version", [3, 13])
async def test_null_records_are_never_answered(api: Api, version: int) -> None:
    assert await api.ask("Produce", version, **values(api, None)) is NoResponse.NEVER


async def test_internal_topics_belong_to_the_admin_client(api: Api) -> None:
    await api.producer("id")
    values = produce("__transaction_state", GOOD)
    partition_answer = part_of_produce(await api.ask("Produce", 8, **values))
    assert partition_answer.error_code is ErrorCode.invalid_topic_exception
    admin = part_of_produce(await api.ask("Produce", 8, client_id="__admin_client", **values))
    assert admin.error_code is not ErrorCode.invalid_topic_exception


@pytest.mark.parametrize(
    ("version", "operation"),
    [
        (10, TransactionOperation.DEFAULT_ERROR),
        (11, TransactionOperation.GENERIC_ERROR_SUPPORTED),
        (12, TransactionOperation.ADD_PARTITION),
        (13, TransactionOperation.ADD_PARTITION),
    ],
)
def test_what_a_version_supports(version: int, operation: TransactionOperation) -> None:
    assert OPERATIONS[version] is operation


async def test_refusal_and_subject(api: Api) -> None:
    error = ErrorCode.request_timed_out
    assert (
        part_of_produce(api.refuse("Produce", 13, error, **values(api, GOOD))).error_code is error
    )
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    subject = api.subject("Produce", 13, **values(api, records, transactional_id="id"))
    assert (subject.transactional_id, subject.producer_id) == ("id", 7)
    assert [str(partition) for partition in subject.partitions] == ["orders-0"]
    assert api.subject("Produce", 8, **produce("orders", b"junk")).producer_id is None


class CountedPace(Pace):
    """Counts the elements that are reported to it."""

    elements = 0

    def has_done(self, element_count: int) -> bool:
        self.elements += element_count
        return super().has_done(element_count)


async def test_many_partitions_are_read_and_answered_in_slices(api: Api) -> None:
    partitions = [{"index": partition_index, "records": GOOD} for partition_index in range(3_000)]
    topic = {"topic_id": NO_SUCH_ID, "partition_data": partitions}
    request = api.request("Produce", 13, acks=-1, topic_data=[topic])
    pace = CountedPace(api.broker.environment.tasks.turns, lambda: 0)
    request.pace = pace
    answer = await handle(request)
    assert pace.elements == 2 * 3_000, "once when it is read, once when it is answered"
    assert answer == refuse(request, ErrorCode.unknown_topic_id)


@pytest.mark.parametrize("is_armed", [False, True])
async def test_partitions_that_cross_rules_are_appended_in_slices(
    api: Api, *, is_armed: bool
) -> None:
    if is_armed:
        never_rule = FaultRule(id="never", point=FaultPoint.LOG_APPEND, action=Pass(), topic="no")
        api.cluster.injector.arm(never_rule)
    topic = {"name": "many", "num_partitions": 4 * LOOKS, "replication_factor": 1}
    await api.ask("CreateTopics", 7, topics=[topic], validate_only=False)
    partitions = [{"index": number, "records": GOOD} for number in range(4 * LOOKS)]
    topic_data = [{"topic_id": api.topic_id("many"), "partition_data": partitions}]
    request = api.request("Produce", 13, acks=1, topic_data=topic_data)
    turns = 0

    def count_turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(count_turn)

    asyncio.get_running_loop().call_soon(count_turn)
    answer = read_back(request, await handle(request))
    assert not any(part.error_code for part in answer.responses[0].partition_responses)
    assert (turns >= 3) is is_armed


@pytest.mark.parametrize(("further", "is_found"), [(0, True), (3, True), (4, False)])
def test_of_batches_that_are_too_many_so_many_are_looked_at(
    further: int, monkeypatch: pytest.MonkeyPatch, *, is_found: bool
) -> None:
    """Fifty megabytes of the smallest messages of format 0 took a second."""
    monkeypatch.setattr(produce_module, "FURTHER_BATCHES_MAX", 3)
    old_batch = bytes(8) + (14).to_bytes(4, "big") + bytes(14)
    transactional = batch(
        b"v", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    records = [old_batch * further + transactional, GOOD, GOOD + GOOD]
    partition_data = [SimpleNamespace(records=batch_bytes) for batch_bytes in records]
    message = SimpleNamespace(topic_data=[SimpleNamespace(partition_data=partition_data)])
    assert produce_module.carries_transactions(message) is is_found
    partition_data.append(SimpleNamespace(records=transactional))
    assert produce_module.carries_transactions(message), "the first one of each partition"


# ``offset_for_leader_epoch``: OffsetForLeaderEpoch v2 to v4: refusal and subject; the casebook has
# its answers.


def values_of_offset_for_leader_epoch(
    epoch: int, *, topic: str = "orders", partition: int = 0, current: int = -1
) -> dict[str, Any]:
    partition_request = {
        "partition": partition,
        "current_leader_epoch": current,
        "leader_epoch": epoch,
    }
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [partition_request]}]}


def epoch_answer(answer: Any) -> tuple[ErrorCode, int, int]:
    (partition_answer,) = answer.topics[0].partitions
    return partition_answer.error_code, partition_answer.leader_epoch, partition_answer.end_offset


@pytest.fixture
async def api_of_moved_leader(api_of_three: Api) -> Api:
    """orders-0 with two records of epoch 0, led by broker 2 under epoch 1 with one more; asked at
    broker 2.
    """
    api = api_of_three
    await api.ask("Produce", 8, **produce("orders", batch(b"a", b"b")))
    api.cluster.move_leader(TopicPartition("orders", 0), BrokerId(2))
    await api.on_broker(2).ask("Produce", 8, **produce("orders", batch(b"c")))
    return api.on_broker(2)


async def test_offset_for_leader_epoch_refusal_and_subject(api_of_moved_leader: Api) -> None:
    error = ErrorCode.request_timed_out
    assert (
        epoch_answer(
            api_of_moved_leader.refuse(
                "OffsetForLeaderEpoch", 2, error, **values_of_offset_for_leader_epoch(0)
            )
        )[0]
        is error
    )
    subject = api_of_moved_leader.subject(
        "OffsetForLeaderEpoch", 2, **values_of_offset_for_leader_epoch(0)
    )
    assert [str(partition) for partition in subject.partitions] == ["orders-0"]


# ``produce``: batches whose records are read before the log decides, as they take long.


@pytest.mark.parametrize(
    ("config_name", "config_value", "key", "error"),
    [
        ("cleanup.policy", "compact", None, ErrorCode.invalid_record),
        ("cleanup.policy", "compact", b"k", ErrorCode.none),
        ("compression.type", "lz4", None, ErrorCode.none),
    ],
)
async def test_a_batch_that_takes_long_to_unpack_is_judged_by_its_topics_config(
    api: Api, config_name: str, config_value: str, key: bytes | None, error: ErrorCode
) -> None:
    topic = {"name": "long", "num_partitions": 1, "replication_factor": 1}
    topic["configs"] = [{"name": config_name, "value": config_value}]
    await api.ask("CreateTopics", 7, topics=[topic])
    records = [Record(key=key, value=bytes(100))] * 40_000
    long_batch = build_batch(records, timestamp_ms=STAMP_MS, compression=GZIP)
    answer = await api.ask("Produce", 9, **produce("long", long_batch))
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code is error
    log_end_offset = api.broker.replicas.hosted[TopicPartition("long", 0)].log_end_offset
    assert log_end_offset == (40_000 if error is ErrorCode.none else 0)
