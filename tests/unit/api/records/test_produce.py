"""Produce v3 to v13: shapes, checks in their order, what acks ask for."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.support.handlers import NO_SUCH_ID, STAMP_MS, Api, batch, produce, transaction
from txnsim.api.records.produce import handle, operation_of, refuse
from txnsim.api.request import NoResponse
from txnsim.broker.verification import TransactionOperation
from txnsim.errors import ErrorCode
from txnsim.runtime.turns import Pace
from txnsim.wire.batch import ZSTD, crc_of

GOOD = batch(b"a", b"b")
INVALID, CORRUPT = ErrorCode.invalid_record, ErrorCode.corrupt_message


def patched(at: int, piece: bytes, *, crc: bool = True) -> bytes:
    """``GOOD`` with some bytes replaced; its checksum holds unless told otherwise."""
    data = bytearray(GOOD)
    data[at : at + len(piece)] = piece
    if crc:
        data[17:21] = struct.pack(">I", crc_of(data))
    return bytes(data)


def values(api: Api, records: bytes | None, **more: Any) -> dict[str, Any]:
    return produce("orders", records, topic_id=api.topic_id("orders"), **more)


def part(answer: Any) -> Any:
    (partition,) = answer.responses[0].partition_responses
    return partition


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [-1, 1])
async def test_every_version_appends(api: Api, version: int, acks: int) -> None:
    for base_offset in (0, 2):
        found = part(await api.ask("Produce", version, **values(api, GOOD, acks=acks)))
        assert (found.error_code, found.base_offset) == (ErrorCode.none, base_offset)
        assert found.log_append_time is None
        if version >= 5:
            assert found.log_start_offset == 0
        if version >= 8:
            assert (found.record_errors, found.error_message) == ((), None)


@pytest.mark.parametrize("version", range(3, 14))
async def test_what_is_not_there(api: Api, version: int) -> None:
    missing = produce("missing", GOOD, topic_id=NO_SUCH_ID)
    found = part(await api.ask("Produce", version, **missing))
    assert found.error_code is (
        ErrorCode.unknown_topic_id if version >= 13 else ErrorCode.unknown_topic_or_partition
    )
    assert found.base_offset == -1
    for partition in (9, -1):
        found = part(await api.ask("Produce", version, **values(api, GOOD, partition=partition)))
        assert found.error_code is ErrorCode.unknown_topic_or_partition


SHAPES: list[tuple[str, bytes, ErrorCode, str | None]] = [
    ("nothing", b"", INVALID, None),
    ("less than a header", GOOD[:16], INVALID, None),
    ("cut off", GOOD[:-1], INVALID, None),
    ("two batches", GOOD + GOOD, INVALID, None),
    ("a byte too many", GOOD + b"\0", ErrorCode.none, None),
    ("half a batch too many", GOOD + GOOD[:-1], ErrorCode.none, None),
    ("magic 1", patched(16, b"\1", crc=False), INVALID, None),
    ("magic 3", patched(16, b"\3", crc=False), CORRUPT, "Invalid magic found in record: 3"),
    ("magic -1", patched(16, b"\xff", crc=False), CORRUPT, "Invalid magic found in record: -1"),
    (
        "length 10",
        patched(8, struct.pack(">i", 10), crc=False),
        CORRUPT,
        "Record size 10 is less than the minimum record overhead (14)",
    ),
    ("length 20", patched(8, struct.pack(">i", 20), crc=False), CORRUPT, ""),
    ("too short for a header", patched(8, struct.pack(">i", 48), crc=False)[:60], CORRUPT, None),
    (
        "a second one of length 1",
        GOOD + patched(8, b"\0\0\0\1", crc=False),
        CORRUPT,
        "Record size 1",
    ),
    ("a wrong checksum", patched(17, b"\0\0\0\0", crc=False), CORRUPT, ""),
    ("another base offset", patched(0, struct.pack(">q", 5)), INVALID, ""),
    ("a control batch", patched(21, struct.pack(">h", 0x20)), INVALID, ""),
]


@pytest.mark.parametrize("version", [3, 8, 13])
@pytest.mark.parametrize(
    ("records", "error", "words"), [case[1:] for case in SHAPES], ids=[case[0] for case in SHAPES]
)
async def test_shapes(
    api: Api, version: int, records: bytes, error: ErrorCode, words: str | None
) -> None:
    found = part(await api.ask("Produce", version, **values(api, records)))
    assert found.error_code is error
    if version >= 8 and words is not None:
        assert words in (found.error_message or "")


@pytest.mark.parametrize("version", [3, 13])
async def test_of_a_partition_that_is_named_twice_the_last_batch_counts(
    api: Api, version: int
) -> None:
    twice = values(api, batch(b"a"))
    twice["topic_data"][0]["partition_data"].append({"index": 0, "records": batch(b"b", b"c")})
    assert part(await api.ask("Produce", version, **twice)).base_offset == 0
    assert part(await api.ask("Produce", version, **values(api, GOOD))).base_offset == 2


@pytest.mark.parametrize(("version", "is_known"), [(6, False), (7, True)])
async def test_zstd_is_known_from_v7(api: Api, version: int, is_known: bool) -> None:
    pytest.importorskip("cramjam", reason="zstd needs it")
    found = part(await api.ask("Produce", version, **values(api, batch(compression=ZSTD))))
    known = ErrorCode.none if is_known else ErrorCode.unsupported_compression_type
    assert found.error_code is known


@pytest.mark.parametrize("version", [3, 7, 8, 13])
async def test_refused_records_are_named_from_v8(api: Api, version: int) -> None:
    future = batch(b"a", b"b", timestamp_ms=STAMP_MS * 2)
    found = part(await api.ask("Produce", version, **values(api, future)))
    assert found.error_code is ErrorCode.invalid_timestamp
    if version >= 8:
        assert [one.batch_index for one in found.record_errors] == [0, 1]
        assert "is out of range" in found.record_errors[0].batch_index_error_message
        assert "invalid timestamp" in found.error_message


async def test_records_stamped_by_the_broker_tell_their_time(api: Api) -> None:
    config = {"name": "message.timestamp.type", "value": "LogAppendTime"}
    wanted = {"name": "s", "num_partitions": 1, "replication_factor": 1, "configs": [config]}
    await api.ask("CreateTopics", 7, topics=[wanted])
    found = part(await api.ask("Produce", 8, **produce("s", GOOD)))
    assert found.log_append_time.year >= 2024


@pytest.mark.parametrize("version", [3, 13])
async def test_acks_are_checked_after_the_topics(api: Api, version: int) -> None:
    found = part(await api.ask("Produce", version, **values(api, GOOD, acks=2)))
    assert found.error_code is ErrorCode.invalid_required_acks
    missing = produce("missing", GOOD, topic_id=NO_SUCH_ID, acks=2)
    found = part(await api.ask("Produce", version, **missing))
    assert found.error_code is not ErrorCode.invalid_required_acks


@pytest.mark.parametrize("version", [3, 12, 13])
async def test_without_acks_nothing_is_said_but_a_failure_closes(api: Api, version: int) -> None:
    good = values(api, GOOD, acks=0)
    assert await api.ask("Produce", version, **good) is NoResponse.NONE
    bad = produce("missing", GOOD, topic_id=NO_SUCH_ID, acks=0)
    assert await api.ask("Produce", version, **bad) is NoResponse.CLOSE
    assert api.refuse("Produce", version, ErrorCode.request_timed_out, **good) is NoResponse.CLOSE


@pytest.mark.parametrize("version", [3, 13])
async def test_null_records_are_never_answered(api: Api, version: int) -> None:
    assert await api.ask("Produce", version, **values(api, None)) is NoResponse.NEVER


@pytest.mark.parametrize("version", [3, 12, 13])
async def test_a_transaction_needs_its_id(api: Api, version: int) -> None:
    records = batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    found = part(await api.ask("Produce", version, **values(api, records)))
    assert found.error_code is ErrorCode.transactional_id_authorization_failed


@pytest.mark.parametrize("version", [3, 12, 13])
async def test_a_transaction_needs_its_id_even_where_the_partition_is_not_there(
    api: Api, version: int
) -> None:
    records = batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    for data in (records, batch(b"a") + records):
        wanted = produce("missing", data, topic_id=NO_SUCH_ID)
        found = part(await api.ask("Produce", version, **wanted))
        assert found.error_code is ErrorCode.transactional_id_authorization_failed
    wanted = produce("missing", batch(b"a") + batch(b"b"), topic_id=NO_SUCH_ID)
    found = part(await api.ask("Produce", version, **wanted))
    assert found.error_code is not ErrorCode.transactional_id_authorization_failed


async def test_internal_topics_belong_to_the_admin_client(api: Api) -> None:
    await api.producer("id")
    values = produce("__transaction_state", GOOD)
    found = part(await api.ask("Produce", 8, **values))
    assert found.error_code is ErrorCode.invalid_topic_exception
    admin = part(await api.ask("Produce", 8, client_id="__admin_client", **values))
    assert admin.error_code is not ErrorCode.invalid_topic_exception


@pytest.mark.parametrize("version", [9, 10, 13])
async def test_another_leader_is_named_from_v10(api_of_three: Api, version: int) -> None:
    answer = await api_of_three.ask("Produce", version, **values(api_of_three, GOOD, partition=1))
    found = part(answer)
    assert found.error_code is ErrorCode.not_leader_or_follower
    if version >= 10:
        assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, 0)
        assert [one.node_id for one in answer.node_endpoints] == [2]


@pytest.mark.parametrize("version", [3, 10, 11, 12, 13])
async def test_what_was_not_added_is_refused_or_added(api: Api, version: int) -> None:
    pid, epoch = await api.producer("id")
    records = batch(producer_id=pid, producer_epoch=epoch, base_sequence=0, transactional=True)
    found = part(await api.ask("Produce", version, **values(api, records, transactional_id="id")))
    if version >= 12:
        assert found.error_code is ErrorCode.none
        assert (await api.state("id", "Ongoing")).topics[0].partitions == (0,)
    else:
        unknown = ErrorCode.transaction_abortable if version == 11 else ErrorCode.invalid_txn_state
        assert found.error_code is unknown


@pytest.mark.parametrize("version", [3, 11])
async def test_the_old_flow(api: Api, version: int) -> None:
    pid, epoch = await api.producer("id")
    await api.ask("AddPartitionsToTxn", 3, **transaction("id", (pid, epoch), {"orders": [0]}))
    for sequence, error in (
        (0, ErrorCode.none),
        (0, ErrorCode.none),
        (1, ErrorCode.none),
        (5, ErrorCode.out_of_order_sequence_number),
    ):
        records = batch(
            producer_id=pid, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        found = part(
            await api.ask("Produce", version, **values(api, records, transactional_id="id"))
        )
        assert found.error_code is error


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
    assert operation_of(version) is operation


async def test_refusal_and_subject(api: Api) -> None:
    error = ErrorCode.request_timed_out
    assert part(api.refuse("Produce", 13, error, **values(api, GOOD))).error_code is error
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    about = api.subject("Produce", 13, **values(api, records, transactional_id="id"))
    assert (about.transactional_id, about.producer_id) == ("id", 7)
    assert [str(one) for one in about.partitions] == ["orders-0"]
    assert api.subject("Produce", 8, **produce("orders", b"junk")).producer_id is None


class CountedPace(Pace):
    """Counts the elements that are reported to it."""

    elements = 0

    def has_done(self, elements: int) -> bool:
        self.elements += elements
        return super().has_done(elements)


async def test_many_partitions_are_read_and_answered_in_slices(api: Api) -> None:
    partitions = [{"index": index, "records": GOOD} for index in range(3_000)]
    topic = {"topic_id": NO_SUCH_ID, "partition_data": partitions}
    request = api.request("Produce", 13, acks=-1, topic_data=[topic])
    pace = CountedPace(api.broker.environment.tasks.turns, lambda: 0)
    request.pace = pace
    answer = await handle(request)
    assert pace.elements == 2 * 3_000, "once when it is read, once when it is answered"
    assert answer == refuse(request, ErrorCode.unknown_topic_id)
