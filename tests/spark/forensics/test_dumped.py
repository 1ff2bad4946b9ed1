"""The text of ``kafka-dump-log``, as a 4.4.0 prints it of disks with transactions."""

from __future__ import annotations

import pytest

from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition
from txnsim_spark.forensics.dumped import DumpedAnswer, judge_dump

HOUR_MS = 3_600_000
NOW_MS = 1_795_736_583_431
ORDERS = "Dumping /disk/orders-0/00000000000000000000.log\nLog starting offset: 0\n"
COORDINATOR = (
    "Dumping /disk/__transaction_state-9/00000000000000000000.log\nLog starting offset: 0\n"
)


def batch(
    base_offset: int,
    *,
    at_ms: int = NOW_MS - HOUR_MS,
    producer: int = 7,
    is_control: bool = False,
    count: int = 1,
) -> str:
    return (
        f"baseOffset: {base_offset} lastOffset: {base_offset + count - 1} count: {count}"
        " baseSequence: 0"
        f" lastSequence: 0 producerId: {producer} producerEpoch: 3 partitionLeaderEpoch: 0"
        f" isTransactional: {'true' if producer >= 0 else 'false'} isControl:"
        f" {'true' if is_control else 'false'} deleteHorizonMs: OptionalLong.empty position: 0"
        f" CreateTime: {at_ms} size: 72 magic: 2 compresscodec: none crc: 388493233 isvalid: true\n"
    )


def marker(offset: int, marker_kind: str) -> str:
    return batch(offset, is_control=True) + (
        f"| offset: {offset} CreateTime: {NOW_MS} keySize: 4 valueSize: 6 sequence: -1 headerKeys:"
        f" [] endTxnMarker: {marker_kind} coordinatorEpoch: 0\n"
    )


def entry(
    state: str,
    partitions: str = "null",
    *,
    producer: int = 7,
    epoch: int = 3,
    offset: int = 0,
    at_ms: int = NOW_MS,
) -> str:
    data = (
        f'{{"producerId":{producer},"previousProducerId":-1,"producerEpoch":{epoch},'
        f'"transactionTimeoutMs":60000,"transactionStatus":"{state}",'
        f'"transactionPartitions":{partitions},"transactionLastUpdateTimestampMs":{at_ms},'
        '"transactionStartTimestampMs":-1}'
    )
    return batch(offset, producer=-1, at_ms=at_ms) + (
        f"| offset: {offset} CreateTime: {at_ms} keySize: 11 valueSize: 45 sequence: -1"
        ' headerKeys: [] key: {"type":"0","data":{"transactionalId":"shop"}}'
        f' payload: {{"version":"1","data":{data}}}\n'
    )


LISTED = '[{"topic":"orders","partitionIds":[0,1]}]'


def answer_of_dumps(*parts: str) -> DumpedAnswer:
    return judge_dump("".join(parts).splitlines(keepends=True))


def verdict(*parts: str) -> tuple[OpenTxnStatus, str]:
    (partition,) = answer_of_dumps(*parts).partitions
    (txn,) = partition.open
    return txn.verdict, txn.reason


def test_what_lies_in_a_partition_is_counted() -> None:
    dump_answer = answer_of_dumps(
        ORDERS, batch(0, count=2), marker(2, "COMMIT"), batch(3), marker(4, "ABORT")
    )
    (partition,) = dump_answer.partitions
    assert (partition.partition, partition.first_offset, partition.last_offset) == (
        TopicPartition("orders", 0),
        0,
        4,
    )
    assert (partition.batches, partition.commits, partition.aborts, partition.unread_markers) == (
        4,
        1,
        1,
        0,
    )
    assert partition.open == ()
    assert dump_answer.worst is None


def test_a_transaction_without_a_marker_is_open_from_its_first_batch() -> None:
    dump_answer = answer_of_dumps(
        ORDERS, marker(0, "COMMIT"), batch(1), batch(2, at_ms=NOW_MS), batch(3, producer=-1)
    )
    (txn,) = dump_answer.partitions[0].open
    assert (txn.producer_id, txn.producer_epoch, txn.start_offset) == (7, 3, 1)
    assert (txn.first_timestamp_ms, txn.last_timestamp_ms) == (NOW_MS - HOUR_MS, NOW_MS)
    assert dump_answer.worst is OpenTxnStatus.UNKNOWN


@pytest.mark.parametrize(
    ("coordinator", "expected_status", "says"),
    [
        (entry("Empty"), OpenTxnStatus.HANGING, "is Empty without this partition"),
        (entry("Ongoing", LISTED), OpenTxnStatus.ALIVE, "is Ongoing with this partition"),
        (entry("PrepareCommit", LISTED), OpenTxnStatus.DECIDED, "its coordinator has yet to get"),
        (entry("Ongoing", LISTED, epoch=4), OpenTxnStatus.HANGING, "of epoch 3, which no marker"),
        (entry("Empty", producer=8), OpenTxnStatus.UNKNOWN, "no entry of the transaction log"),
        ("", OpenTxnStatus.UNKNOWN, "no entry of the transaction log with producer id 7"),
    ],
)
def test_an_open_transaction_is_judged_by_the_coordinators_log(
    coordinator: str, expected_status: OpenTxnStatus, says: str
) -> None:
    dump_status, reason = verdict(ORDERS, batch(0), COORDINATOR, coordinator)
    assert dump_status is expected_status
    assert says in reason
    assert "broker" not in reason


def test_the_last_entry_counts_and_a_deleted_one_is_none() -> None:
    deleted = entry("Empty", offset=2).partition("payload: ")[0] + "payload: <DELETE>\n"
    later_dump = COORDINATOR + entry("Ongoing", LISTED) + entry("Empty", offset=1)
    assert verdict(ORDERS, batch(0), later_dump)[0] is OpenTxnStatus.HANGING
    assert answer_of_dumps(ORDERS, batch(0), later_dump, deleted).entries == ()


def test_a_replica_of_the_coordinators_log_that_lags_convicts_no_one() -> None:
    whole_log = COORDINATOR + entry("Empty") + entry("Ongoing", LISTED, offset=1)
    lagging = COORDINATOR.replace("/disk/", "/other/") + entry("Empty")
    assert verdict(ORDERS, batch(0), whole_log, lagging)[0] is OpenTxnStatus.ALIVE
    old_dump = COORDINATOR + entry("Empty", at_ms=NOW_MS - 2 * HOUR_MS)
    dump_status, reason = verdict(ORDERS, batch(0), old_dump)
    assert dump_status is OpenTxnStatus.UNKNOWN
    assert "may be old" in reason


def test_what_was_written_a_moment_ago_is_not_called_hanging() -> None:
    dump_status, reason = verdict(ORDERS, batch(0, at_ms=NOW_MS), COORDINATOR, entry("Empty"))
    assert dump_status is OpenTxnStatus.RECENT
    assert "less than 15 minutes" in reason


def test_an_entry_as_3_9_prints_it_is_read() -> None:
    old_dump = (
        f"| offset: 0 CreateTime: {NOW_MS} keysize: 8 valuesize: 37 sequence: -1"
        " key: transaction_metadata::transactionalId=shop payload: producerId:7,producerEpoch:3,"
        "state=Ongoing,partitions=[my-orders-0,orders-0],txnLastUpdateTimestamp=1,"
        "txnTimeoutMs=60000\n"
    )
    (entry,) = answer_of_dumps(COORDINATOR, old_dump).entries
    assert (entry.transactional_id, entry.state, entry.timeout_ms) == ("shop", "Ongoing", 60_000)
    assert entry.partitions == {TopicPartition("my-orders", 0), TopicPartition("orders", 0)}


def test_the_longest_replica_counts() -> None:
    shorter = ORDERS.replace("/disk/", "/other/")
    (partition,) = answer_of_dumps(
        ORDERS, batch(0), marker(1, "ABORT"), shorter, batch(0)
    ).partitions
    assert (partition.replicas, partition.last_offset, partition.open) == (2, 1, ())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (batch(0), "which partition a batch is of"),
        (ORDERS + batch(0), "--transaction-log-decoder"),
        (COORDINATOR + "| offset: 0 CreateTime: 1 keySize: 8 valueSize: 37\n", "not decoded"),
        (ORDERS + batch(0) + batch(1, is_control=True), "--deep-iteration"),
        (ORDERS + batch(5), "before the first dumped batch of orders-0"),
        (ORDERS + batch(0) + "…\n[…]\n", "2 lines say nothing that is known here: 4, 5"),
        (ORDERS, "High watermarks"),
        (COORDINATOR + entry("Empty"), "one that lags has an old state"),
    ],
)
def test_what_is_missing_is_named(text: str, says: str) -> None:
    assert any(says in sentence for sentence in answer_of_dumps(text).missing)


def snapshot(offset: int, *producers: str) -> str:
    return f"Dumping /disk/orders-0/{offset:020}.snapshot\n" + "".join(producers)


def producer_state(producer: int, since: str, at_ms: int = NOW_MS - HOUR_MS) -> str:
    return (
        f"producerId: {producer} producerEpoch: 3 coordinatorEpoch: 0"
        f" currentTxnFirstOffset: {since} lastTimestamp: {at_ms} \n"
    )


def open_txns_in(*parts: str) -> list[tuple[int, int]]:
    (partition,) = answer_of_dumps(*parts).partitions
    return [(txn.producer_id, txn.start_offset) for txn in partition.open]


SEGMENT_5 = "Dumping /disk/orders-0/00000000000000000005.log\nLog starting offset: 5\n"


def test_a_snapshot_and_the_log_behind_it_make_the_state() -> None:
    snapshot_text = snapshot(5, producer_state(7, "OptionalLong[3]"), producer_state(8, "None"))
    assert open_txns_in(snapshot_text) == [(7, 3)]
    # Another batch of it, a marker, and a new one of another producer.
    assert open_txns_in(snapshot_text, SEGMENT_5, batch(5)) == [(7, 3)]
    assert open_txns_in(SEGMENT_5, batch(5), snapshot_text) == [(7, 3)]
    assert open_txns_in(snapshot_text, SEGMENT_5, marker(5, "COMMIT"), batch(6, producer=8)) == [
        (8, 6)
    ]
    assert open_txns_in(snapshot_text, SEGMENT_5, marker(5, "COMMIT"), batch(6)) == [(7, 6)]
    # The log in front of a newer snapshot has been counted by it.
    assert open_txns_in(ORDERS, batch(3), snapshot(5, producer_state(7, "None"))) == []
    assert open_txns_in(snapshot_text, snapshot(9, producer_state(7, "None"))) == []
    dump_answer = answer_of_dumps(snapshot_text, SEGMENT_5, batch(5))
    assert not any("before the first dumped batch" in sentence for sentence in dump_answer.missing)
    late_answer = answer_of_dumps(snapshot_text, SEGMENT_5.replace("5.log", "8.log"), batch(8))
    assert any("before the first dumped batch" in sentence for sentence in late_answer.missing)


def test_the_log_has_the_time_of_the_first_batch_of_a_snapshots_transaction() -> None:
    snapshot_text = snapshot(2, producer_state(7, "OptionalLong[0]", at_ms=NOW_MS))
    (partition,) = answer_of_dumps(
        ORDERS, batch(0), batch(1, at_ms=NOW_MS), snapshot_text
    ).partitions
    (txn,) = partition.open
    assert (txn.first_timestamp_ms, txn.last_timestamp_ms) == (NOW_MS - HOUR_MS, NOW_MS)


def test_segments_count_by_their_offsets_in_any_order_and_once() -> None:
    assert open_txns_in(SEGMENT_5, marker(5, "COMMIT"), ORDERS, batch(0)) == []
    (partition,) = answer_of_dumps(
        ORDERS, batch(0), ORDERS, batch(0), marker(1, "ABORT")
    ).partitions
    assert (partition.batches, partition.aborts, partition.open) == (2, 1, ())


def test_a_second_text_does_not_go_on_with_the_file_of_the_first() -> None:
    dump_answer = judge_dump([*ORDERS.splitlines(), batch(0, producer=-1)], [batch(1)])
    assert dump_answer.partitions[0].batches == 1
    assert not dump_answer.understood


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "hello\n",
        batch(0),
        'Exception in thread "main" java.lang.UnsupportedClassVersionError: kafka/tools/X\n',
        "Error: Could not find or load main class kafka.tools.DumpLogSegments\n",
        "Dumping /disk/orders-0/00000000000000000000.log\n",
        "Dumping /disk/orders-0/00000000000000000000.index\noffset: 5 position: 155\n",
        "Dumping /disk/orders-0/00000000000000000000.timeindex\ntimestamp: 5 offset: 155\n",
        "Dumping 00000000000000000000.log\nLog starting offset: 0\n" + batch(0),
        COORDINATOR,
        COORDINATOR + "| offset: 0 CreateTime: 1 keySize: 8 valueSize: 37\n",
        ORDERS + batch(0, producer=-1).replace("isvalid: true", "isvalid: false"),
        ORDERS + batch(0, producer=-1) + "baseOffset: 1 lastOffset: 1 count: 1\n",
        ORDERS + 'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n',
    ],
)
def test_a_text_that_says_too_little_is_not_understood(text: str) -> None:
    dump_answer = answer_of_dumps(text)
    assert not dump_answer.understood
    assert dump_answer.missing


@pytest.mark.parametrize("text", [ORDERS, COORDINATOR + entry("Empty"), snapshot(5)])
def test_a_text_that_says_that_nothing_is_there_is_understood(text: str) -> None:
    assert answer_of_dumps(text).understood
