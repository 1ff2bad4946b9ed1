"""ListOffsets v1 to v11: a leader that knows too little, size; the casebook has its answers."""

from __future__ import annotations

import time  # noqa: TID251 - measures CPU time
from typing import Any

import pytest

from tests.support.broker_api import STAMP_MS, Api, batch, handlers, produce
from txnsim.errors import ErrorCode, Rejection
from txnsim.log.leader_append import append_client
from txnsim.types import TopicPartition


def values(
    timestamp: int,
    *,
    name: str = "orders",
    partition: int = 0,
    isolation_level: int = 0,
    replica: int = -1,
    epoch: int = -1,
) -> dict[str, Any]:
    partition_request = {
        "partition_index": partition,
        "timestamp": timestamp,
        "current_leader_epoch": epoch,
    }
    return {
        "replica_id": replica,
        "isolation_level": isolation_level,
        "timeout": 1_000,
        "topics": [{"name": name, "partitions": [partition_request]}],
    }


def offset_answer(answer: Any) -> tuple[ErrorCode, int, int]:
    (partition_answer,) = answer.topics[0].partitions
    return partition_answer.error_code, partition_answer.timestamp, partition_answer.offset


@pytest.fixture
async def api_with_records(api: Api) -> Api:
    """Three records in orders-0, stamped 10, 30 and 20 ms after the first moment."""
    for timestamp_ms in (10, 30, 20):
        await api.ask(
            "Produce", 8, **produce("orders", batch(timestamp_ms=STAMP_MS + timestamp_ms))
        )
    return api


@pytest.mark.parametrize(
    ("version", "later_error"),
    [(4, ErrorCode.leader_not_available), (5, ErrorCode.offset_not_available)],
)
async def test_a_new_leader_that_knows_too_little_answers_later(
    api_with_records: Api, version: int, later_error: ErrorCode
) -> None:
    log = api_with_records.broker.replicas.leader_log(TopicPartition("orders", 0))
    assert not isinstance(log, Rejection)
    append_client(log, batch(timestamp_ms=STAMP_MS + 40), guard=0, now_ms=STAMP_MS)
    log.become_leader(1)
    assert log.high_watermark < log.leader_epoch_start_offset
    for timestamp, replica, error in (
        (-1, -1, later_error),
        (-1, -2, ErrorCode.none),
        (-2, -1, ErrorCode.none),
        (STAMP_MS + 30, -1, ErrorCode.none),
        (STAMP_MS + 40, -1, later_error),
        (STAMP_MS + 50, -1, later_error),
    ):
        answer = await api_with_records.ask(
            "ListOffsets", version, **values(timestamp, replica=replica)
        )
        assert offset_answer(answer)[0] is error, timestamp


async def test_refusal_and_subject(api_with_records: Api) -> None:
    error = ErrorCode.request_timed_out
    assert offset_answer(api_with_records.refuse("ListOffsets", 1, error, **values(-1))) == (
        error,
        -1,
        -1,
    )
    subject = api_with_records.subject("ListOffsets", 1, **values(-1))
    assert [str(partition) for partition in subject.partitions] == ["orders-0"]


@pytest.mark.parametrize("isolation_level", [2, -1, 127])
@pytest.mark.parametrize("name", ["orders", "nope"])
async def test_an_unknown_isolation_level_is_an_unknown_error_as_on_a_real_broker(
    api_with_records: Api, isolation_level: int, name: str
) -> None:
    answer = await api_with_records.ask(
        "ListOffsets", 11, **values(-1, name=name, isolation_level=isolation_level)
    )
    assert offset_answer(answer) == (ErrorCode.unknown_server_error, -1, -1)


@pytest.mark.parametrize(
    ("rules", "repeat_count"), [({}, 1), ({"repeated_partitions_are_answered_once": False}, 2)]
)
async def test_a_partition_that_is_named_twice_is_refused(
    rules: dict[str, bool], repeat_count: int
) -> None:
    fields = values(-1)
    fields["topics"][0]["partitions"] *= 2
    async with handlers(rules=rules) as api:
        answer = await api.ask("ListOffsets", 6, **fields)
        refusal_answer = api.refuse("ListOffsets", 6, ErrorCode.request_timed_out, **fields)
    errors = [partition.error_code for partition in answer.topics[0].partitions]
    assert errors == [ErrorCode.invalid_request] * repeat_count
    assert len(refusal_answer.topics[0].partitions) == 2


@pytest.mark.parametrize("version", [1, 6, 8])
async def test_before_3_9_an_unknown_special_timestamp_is_before_all_records(version: int) -> None:
    async with handlers(rules={"special_times_need_their_version": False}) as api:
        for timestamp_ms in (10, 30, 20):
            await api.ask(
                "Produce", 8, **produce("orders", batch(timestamp_ms=STAMP_MS + timestamp_ms))
            )
        found_offsets = {
            timestamp: offset_answer(await api.ask("ListOffsets", version, **values(timestamp)))
            for timestamp in (-3, -4, -5, -6, -7)
        }
    first_record = (ErrorCode.none, STAMP_MS + 10, 0)
    assert found_offsets == {
        -3: (ErrorCode.none, STAMP_MS + 30, 1),
        -4: (ErrorCode.none, -1, 0),
        -5: first_record,
        -6: first_record,
        -7: first_record,
    }


@pytest.mark.slow
async def test_many_partitions_are_not_counted_quadratically(api_with_records: Api) -> None:
    fields = values(-1)
    (topic,) = fields["topics"]
    topic["partitions"] = [
        {"partition_index": partition, "timestamp": -1, "current_leader_epoch": -1}
        for partition in range(19_000)
    ]
    began = time.process_time()
    answer = await api_with_records.ask("ListOffsets", 11, **fields)
    assert len(answer.topics[0].partitions) == 19_000
    assert time.process_time() - began < 5
