"""ListOffsets v1 to v11: special timestamps, times, isolation, epochs."""

from __future__ import annotations

import time  # noqa: TID251 - measures CPU time
from typing import Any

import pytest

from tests.support.handlers import STAMP_MS, Api, batch, produce, transaction
from txnsim.errors import ErrorCode, Rejection
from txnsim.log.leader_append import append_client
from txnsim.types import BrokerId, TopicPartition


def values(
    timestamp: int,
    *,
    name: str = "orders",
    partition: int = 0,
    isolation: int = 0,
    replica: int = -1,
    epoch: int = -1,
) -> dict[str, Any]:
    wanted = {
        "partition_index": partition,
        "timestamp": timestamp,
        "current_leader_epoch": epoch,
    }
    return {
        "replica_id": replica,
        "isolation_level": isolation,
        "timeout": 1_000,
        "topics": [{"name": name, "partitions": [wanted]}],
    }


def found(answer: Any) -> tuple[ErrorCode, int, int]:
    (one,) = answer.topics[0].partitions
    return one.error_code, one.timestamp, one.offset


@pytest.fixture
async def filled(api: Api) -> Api:
    """Three records in orders-0, stamped 10, 30 and 20 ms after the first moment."""
    for stamp in (10, 30, 20):
        await api.ask("Produce", 8, **produce("orders", batch(timestamp_ms=STAMP_MS + stamp)))
    return api


SPECIAL = [
    (-1, 1, (-1, 3)),
    (-2, 1, (-1, 0)),
    (-3, 7, (STAMP_MS + 30, 1)),
    (-4, 8, (-1, 0)),
    (-5, 9, (-1, -1)),
    (-6, 11, (-1, -1)),
    (-7, 99, (-1, -1)),
]


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(("timestamp", "since", "expected"), SPECIAL)
async def test_special_timestamps_and_since_when_they_are_known(
    filled: Api, version: int, timestamp: int, since: int, expected: tuple[int, int]
) -> None:
    answer = await filled.ask("ListOffsets", version, **values(timestamp))
    if version < since:
        assert found(answer) == (ErrorCode.unsupported_version, -1, -1)
    else:
        assert found(answer) == (ErrorCode.none, *expected)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (0, (STAMP_MS + 10, 0)),
        (10, (STAMP_MS + 10, 0)),
        (11, (STAMP_MS + 30, 1)),
        (30, (STAMP_MS + 30, 1)),
        (31, (-1, -1)),
    ],
)
@pytest.mark.parametrize("version", [1, 4, 11])
async def test_the_first_record_at_or_after_a_time(
    filled: Api, version: int, after: int, expected: tuple[int, int]
) -> None:
    answer = await filled.ask("ListOffsets", version, **values(STAMP_MS + after))
    assert found(answer) == (ErrorCode.none, *expected)


@pytest.mark.parametrize("version", [2, 11])
async def test_an_open_transaction_bounds_committed_readers_only(filled: Api, version: int) -> None:
    pid, epoch = await filled.producer("id")
    await filled.ask("AddPartitionsToTxn", 3, **transaction("id", (pid, epoch), {"orders": [0]}))
    records = batch(
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
        timestamp_ms=STAMP_MS + 99,
    )
    await filled.ask("Produce", 11, **produce("orders", records, transactional_id="id"))
    for isolation, end in ((0, 4), (1, 3)):
        latest = await filled.ask("ListOffsets", version, **values(-1, isolation=isolation))
        assert found(latest)[2] == end
    late = await filled.ask("ListOffsets", version, **values(STAMP_MS + 99, isolation=1))
    assert found(late) == (ErrorCode.none, -1, -1)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"name": "missing"}, ErrorCode.unknown_topic_or_partition),
        ({"partition": 9}, ErrorCode.unknown_topic_or_partition),
        ({"partition": -1}, ErrorCode.unknown_topic_or_partition),
        ({"epoch": 5}, ErrorCode.unknown_leader_epoch),
        ({"epoch": 0}, ErrorCode.none),
    ],
)
async def test_refusals(filled: Api, changes: dict[str, Any], error: ErrorCode) -> None:
    answer = await filled.ask("ListOffsets", 4, **values(-2, **changes))
    assert found(answer)[0] is error


async def test_only_the_leader_answers_but_any_replica_a_debugger(api_of_three: Api) -> None:
    ask = api_of_three.ask
    consumer = await ask("ListOffsets", 4, **values(-1, partition=1))
    assert found(consumer)[0] is ErrorCode.not_leader_or_follower
    debugger = await ask("ListOffsets", 4, **values(-1, partition=1, replica=-2))
    assert found(debugger) == (ErrorCode.none, -1, 0)


async def test_an_old_epoch_is_fenced(api_of_three: Api) -> None:
    api_of_three.cluster.move_leader(TopicPartition("orders", 1), BrokerId(1))
    answer = await api_of_three.ask("ListOffsets", 4, **values(-1, partition=1, epoch=0))
    assert found(answer)[0] is ErrorCode.fenced_leader_epoch
    current = await api_of_three.ask("ListOffsets", 4, **values(-1, partition=1))
    assert current.topics[0].partitions[0].leader_epoch == 1


@pytest.mark.parametrize(
    ("version", "later"),
    [(4, ErrorCode.leader_not_available), (5, ErrorCode.offset_not_available)],
)
async def test_a_new_leader_that_knows_too_little_answers_later(
    filled: Api, version: int, later: ErrorCode
) -> None:
    log = filled.broker.replicas.leader(TopicPartition("orders", 0))
    assert not isinstance(log, Rejection)
    append_client(log, batch(timestamp_ms=STAMP_MS + 40), guard=0, now_ms=STAMP_MS)
    log.become_leader(1)
    assert log.high_watermark < log.leader_epoch_start_offset
    for timestamp, replica, error in (
        (-1, -1, later),
        (-1, -2, ErrorCode.none),
        (-2, -1, ErrorCode.none),
        (STAMP_MS + 30, -1, ErrorCode.none),
        (STAMP_MS + 40, -1, later),
        (STAMP_MS + 50, -1, later),
    ):
        answer = await filled.ask("ListOffsets", version, **values(timestamp, replica=replica))
        assert found(answer)[0] is error, timestamp


async def test_a_partition_asked_for_twice_is_refused_once(filled: Api) -> None:
    wanted = values(-1)
    wanted["topics"][0]["partitions"] *= 2
    answer = await filled.ask("ListOffsets", 1, **wanted)
    assert found(answer) == (ErrorCode.invalid_request, -1, -1)


async def test_refusal_and_subject(filled: Api) -> None:
    error = ErrorCode.request_timed_out
    assert found(filled.refuse("ListOffsets", 1, error, **values(-1))) == (error, -1, -1)
    about = filled.subject("ListOffsets", 1, **values(-1))
    assert [str(one) for one in about.partitions] == ["orders-0"]


@pytest.mark.parametrize(
    ("timestamp", "error"),
    [
        (-1, ErrorCode.offset_not_available),
        (-2, ErrorCode.none),
        (-4, ErrorCode.none),
        (STAMP_MS + 10, ErrorCode.none),
        (STAMP_MS + 20, ErrorCode.none),
        (STAMP_MS + 99, ErrorCode.offset_not_available),
    ],
)
async def test_a_new_leader_that_knows_too_little_says_so(
    filled: Api, timestamp: int, error: ErrorCode
) -> None:
    where = TopicPartition("orders", 0)
    log = filled.broker.replicas.led[where]
    # What the last leader wrote and this one does not know to be committed.
    append_client(log, batch(timestamp_ms=STAMP_MS + 99), guard=0, now_ms=STAMP_MS)
    log.become_leader(log.leader_epoch + 1)
    answer = found(await filled.ask("ListOffsets", 10, **values(timestamp)))
    assert answer[0] is error
    debugging = found(await filled.ask("ListOffsets", 10, **values(timestamp, replica=-2)))
    assert debugging[0] is ErrorCode.none


async def test_before_version_5_a_new_leader_says_that_there_is_none(filled: Api) -> None:
    log = filled.broker.replicas.led[TopicPartition("orders", 0)]
    append_client(log, batch(), guard=0, now_ms=STAMP_MS)
    log.become_leader(log.leader_epoch + 1)
    assert found(await filled.ask("ListOffsets", 4, **values(-1)))[0] is (
        ErrorCode.leader_not_available
    )


@pytest.mark.parametrize("isolation", [2, -1, 127])
@pytest.mark.parametrize("name", ["orders", "nope"])
async def test_an_unknown_isolation_level_is_an_unknown_error_as_on_a_real_broker(
    filled: Api, isolation: int, name: str
) -> None:
    answer = await filled.ask("ListOffsets", 11, **values(-1, name=name, isolation=isolation))
    assert found(answer) == (ErrorCode.unknown_server_error, -1, -1)


async def test_many_partitions_are_not_counted_quadratically(filled: Api) -> None:
    asked = values(-1)
    (topic,) = asked["topics"]
    topic["partitions"] = [
        {"partition_index": at, "timestamp": -1, "current_leader_epoch": -1} for at in range(19_000)
    ]
    began = time.process_time()
    answer = await filled.ask("ListOffsets", 11, **asked)
    assert len(answer.topics[0].partitions) == 19_000
    assert time.process_time() - began < 5
