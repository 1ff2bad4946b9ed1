"""The text of ``kafka-dump-log``, as a 4.4.0 prints it of disks with transactions."""

from __future__ import annotations

import pytest

from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition
from txnsim_spark.forensics.dumped import DumpedAnswer, answer

HOUR_MS = 3_600_000
NOW_MS = 1_795_736_583_431
ORDERS = "Dumping /disk/orders-0/00000000000000000000.log\nLog starting offset: 0\n"
COORDINATOR = (
    "Dumping /disk/__transaction_state-9/00000000000000000000.log\nLog starting offset: 0\n"
)


def batch(
    first: int,
    *,
    at_ms: int = NOW_MS - HOUR_MS,
    producer: int = 7,
    control: bool = False,
    count: int = 1,
) -> str:
    return (
        f"baseOffset: {first} lastOffset: {first + count - 1} count: {count} baseSequence: 0"
        f" lastSequence: 0 producerId: {producer} producerEpoch: 3 partitionLeaderEpoch: 0"
        f" isTransactional: {'true' if producer >= 0 else 'false'} isControl:"
        f" {'true' if control else 'false'} deleteHorizonMs: OptionalLong.empty position: 0"
        f" CreateTime: {at_ms} size: 72 magic: 2 compresscodec: none crc: 388493233 isvalid: true\n"
    )


def marker(offset: int, which: str) -> str:
    return batch(offset, control=True) + (
        f"| offset: {offset} CreateTime: {NOW_MS} keySize: 4 valueSize: 6 sequence: -1 headerKeys:"
        f" [] endTxnMarker: {which} coordinatorEpoch: 0\n"
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


def read(*parts: str) -> DumpedAnswer:
    return answer("".join(parts).splitlines(keepends=True))


def verdict(*parts: str) -> tuple[OpenTxnStatus, str]:
    (partition,) = read(*parts).partitions
    (one,) = partition.open
    return one.verdict, one.reason


def test_what_lies_in_a_partition_is_counted() -> None:
    found = read(ORDERS, batch(0, count=2), marker(2, "COMMIT"), batch(3), marker(4, "ABORT"))
    (one,) = found.partitions
    assert (one.partition, one.first_offset, one.last_offset) == (TopicPartition("orders", 0), 0, 4)
    assert (one.batches, one.commits, one.aborts, one.unread_markers) == (4, 1, 1, 0)
    assert one.open == ()
    assert found.worst is None


def test_a_transaction_without_a_marker_is_open_from_its_first_batch() -> None:
    found = read(
        ORDERS, marker(0, "COMMIT"), batch(1), batch(2, at_ms=NOW_MS), batch(3, producer=-1)
    )
    (one,) = found.partitions[0].open
    assert (one.producer_id, one.producer_epoch, one.start_offset) == (7, 3, 1)
    assert (one.first_timestamp_ms, one.last_timestamp_ms) == (NOW_MS - HOUR_MS, NOW_MS)
    assert found.worst is OpenTxnStatus.UNKNOWN


@pytest.mark.parametrize(
    ("coordinator", "expected", "says"),
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
    coordinator: str, expected: OpenTxnStatus, says: str
) -> None:
    found, reason = verdict(ORDERS, batch(0), COORDINATOR, coordinator)
    assert found is expected
    assert says in reason
    assert "broker" not in reason


def test_the_last_entry_counts_and_a_deleted_one_is_none() -> None:
    deleted = entry("Empty", offset=2).partition("payload: ")[0] + "payload: <DELETE>\n"
    later = COORDINATOR + entry("Ongoing", LISTED) + entry("Empty", offset=1)
    assert verdict(ORDERS, batch(0), later)[0] is OpenTxnStatus.HANGING
    assert read(ORDERS, batch(0), later, deleted).entries == ()


def test_a_replica_of_the_coordinators_log_that_lags_convicts_no_one() -> None:
    whole = COORDINATOR + entry("Empty") + entry("Ongoing", LISTED, offset=1)
    lagging = COORDINATOR.replace("/disk/", "/other/") + entry("Empty")
    assert verdict(ORDERS, batch(0), whole, lagging)[0] is OpenTxnStatus.ALIVE
    old = COORDINATOR + entry("Empty", at_ms=NOW_MS - 2 * HOUR_MS)
    found, reason = verdict(ORDERS, batch(0), old)
    assert found is OpenTxnStatus.UNKNOWN
    assert "may be old" in reason


def test_what_was_written_a_moment_ago_is_not_called_hanging() -> None:
    found, reason = verdict(ORDERS, batch(0, at_ms=NOW_MS), COORDINATOR, entry("Empty"))
    assert found is OpenTxnStatus.RECENT
    assert "less than 15 minutes" in reason


def test_an_entry_as_3_9_prints_it_is_read() -> None:
    old = (
        f"| offset: 0 CreateTime: {NOW_MS} keysize: 8 valuesize: 37 sequence: -1"
        " key: transaction_metadata::transactionalId=shop payload: producerId:7,producerEpoch:3,"
        "state=Ongoing,partitions=[my-orders-0,orders-0],txnLastUpdateTimestamp=1,"
        "txnTimeoutMs=60000\n"
    )
    (one,) = read(COORDINATOR, old).entries
    assert (one.transactional_id, one.state, one.timeout_ms) == ("shop", "Ongoing", 60_000)
    assert one.partitions == {TopicPartition("my-orders", 0), TopicPartition("orders", 0)}


def test_the_longest_replica_counts() -> None:
    shorter = ORDERS.replace("/disk/", "/other/")
    (one,) = read(ORDERS, batch(0), marker(1, "ABORT"), shorter, batch(0)).partitions
    assert (one.replicas, one.last_offset, one.open) == (2, 1, ())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (batch(0), "which partition a batch is of"),
        (ORDERS + batch(0), "--transaction-log-decoder"),
        (COORDINATOR + "| offset: 0 CreateTime: 1 keySize: 8 valueSize: 37\n", "not decoded"),
        (ORDERS + batch(0) + batch(1, control=True), "--deep-iteration"),
        (ORDERS + batch(5), "before the first dumped batch of orders-0"),
        (ORDERS + batch(0) + "…\n[…]\n", "2 lines say nothing that is known here: 4, 5"),
        (ORDERS, "High watermarks"),
        (COORDINATOR + entry("Empty"), "one that lags has an old state"),
    ],
)
def test_what_is_missing_is_named(text: str, says: str) -> None:
    assert any(says in sentence for sentence in read(text).missing)
