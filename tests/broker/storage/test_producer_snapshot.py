"""Files of producer state: those that Apache Kafka 4.3.1 wrote, and those that are broken."""

from __future__ import annotations

import crc32c
import pytest

from tests.support.logs import LogDriver
from txnsim.errors import CorruptLogRecordError
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST
from txnsim.storage.producer_snapshot import decode, encode

OPEN_TRANSACTION = bytes.fromhex(
    "0001 586078bb 00000001"
    "0000000000000002 0000 00000000 0000000000000000 00000000 0000018bcfe56800"
    "ffffffff 0000000000000000"
)
ENDED_TRANSACTION = bytes.fromhex(
    "0001f14cbb29000000010000000000000004000000000003000000000000000600000000000001a1f83947b4"
    "00000000ffffffffffffffff"
)


def test_a_file_with_an_open_transaction() -> None:
    (entry,) = decode(OPEN_TRANSACTION)
    assert (entry.producer_id, entry.producer_epoch, entry.txn_first_offset) == (2, 0, 0)
    assert (entry.last_sequence, entry.last_offset, entry.offset_delta) == (0, 0, 0)
    assert (entry.timestamp, entry.coordinator_epoch) == (1_700_000_000_000, -1)


def test_a_file_after_the_end_of_a_transaction() -> None:
    (entry,) = decode(ENDED_TRANSACTION)
    assert (entry.producer_id, entry.last_sequence, entry.last_offset) == (4, 3, 6)
    assert (entry.coordinator_epoch, entry.txn_first_offset) == (0, -1)


@pytest.mark.parametrize("data", [OPEN_TRANSACTION, ENDED_TRANSACTION], ids=["open", "ended"])
def test_what_is_read_is_written_the_same(data: bytes) -> None:
    assert encode(decode(data)) == data


def test_snapshots_of_our_own_logs_go_through_a_file() -> None:
    driver = LogDriver(LogConfig(rules=LATEST, roll_bytes=200))
    driver.txn(0, pid=1)
    driver.data(0, pid=2, count=3)
    driver.end(committed=True, pid=3, epoch=4)
    driver.data(3, pid=2)
    snapshots = driver.log.producers.snapshots.all()
    assert snapshots
    for _, entries in snapshots:
        assert decode(encode(entries)) == entries
    assert decode(encode(())) == ()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "of 0 bytes"),
        (OPEN_TRANSACTION[:9], "of 9 bytes"),
        (b"\0\2" + OPEN_TRANSACTION[2:], "version 2"),
        (OPEN_TRANSACTION[:-1] + b"\1", "computed"),
        (OPEN_TRANSACTION + b"\0", "computed"),
    ],
)
def test_a_broken_file_differs_from_a_whole_one(data: bytes, why: str) -> None:
    with pytest.raises(CorruptLogRecordError, match=why):
        decode(data)


def test_a_file_with_bytes_left_over_is_broken_whatever_its_crc() -> None:
    longer = encode(decode(OPEN_TRANSACTION) * 2)
    covered = (1).to_bytes(4, "big") + longer[10:]
    data = b"\0\1" + crc32c.crc32c(covered).to_bytes(4, "big") + covered
    with pytest.raises(CorruptLogRecordError, match="1 producers"):
        decode(data)
