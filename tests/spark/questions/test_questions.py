"""Questions to log directories: growth, losses, positions, who waits."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.dataset as ds
import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW, LogDriver
from tests.support.no_spark import no_session
from tests.support.position_logs import HERE, at, ended, offsets_log, sent
from txnsim.errors import BadInputError
from txnsim.group.records import OffsetDeleted
from txnsim.storage import names
from txnsim.txn.state import Tombstone
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TransactionalId
from txnsim.wire.batch import Record, assign, build_batch
from txnsim_spark.forensics.find_hanging import Search
from txnsim_spark.questions._positions import leading_states, positions_in
from txnsim_spark.questions.growth import Growth, PartitionSize, growth, reasons_of
from txnsim_spark.questions.lost import Losses, LostLot, lost

pytest.importorskip("duckdb", reason="the extra spark is not installed")

# What each transactional id takes of ``__transaction_state``.


GONE = Tombstone(transactional_id=TransactionalId("gone"))


def broker(tmp_path: Path) -> Path:
    made = BrokerDir(tmp_path / "broker-1")
    made.coordinator(*[move("Empty", name="busy", pid=1)] * 5, move("Empty", name="calm", pid=2))
    made.coordinator(move("Empty", name="gone", pid=3), GONE, partition=1)
    return made.stop()


def looked(log_dir: Path, top: int = 10) -> Growth:
    return growth([log_dir], top=top, on_progress=lambda _: None)


def test_every_byte_is_some_ids(tmp_path: Path) -> None:
    log_dir = broker(tmp_path)
    found = looked(log_dir)
    size = sum(one.stat().st_size for one in log_dir.rglob(f"*{names.Suffix.LOG}"))
    assert (found.bytes, found.records, found.ids, found.tombstones) == (size, 8, 3, 1)
    assert sum(one.bytes for one in found.largest) == size
    by_id = {one.transactional_id: one for one in found.largest}
    busy, calm, gone = (by_id[name] for name in ("busy", "calm", "gone"))
    assert (busy.records, busy.live_bytes * 5) == (5, busy.bytes)
    assert (calm.records, calm.live_bytes) == (1, calm.bytes)
    assert (gone.records, gone.tombstones, gone.live_bytes) == (2, 1, 0)
    assert gone.is_forgotten
    assert not busy.is_forgotten
    live = busy.live_bytes + calm.live_bytes
    assert found.live_bytes == live
    assert found.dead_share == pytest.approx(1 - live / size)
    assert found.problems == ()


def test_only_the_largest_ids_are_told(tmp_path: Path) -> None:
    found = looked(broker(tmp_path), top=1)
    assert [one.transactional_id for one in found.largest] == ["busy"]
    assert found.ids == 3


def segments(log_dir: Path) -> Path:
    """The same log in two segments, cleaned up to offset 2."""
    folder = log_dir / "__transaction_state-0"
    first = folder / names.Suffix.LOG.at(0)
    data = first.read_bytes()
    at = len(data) // 6 * 4
    first.write_bytes(data[:at])
    (folder / names.Suffix.LOG.at(4)).write_bytes(data[at:])
    (log_dir / names.FileName.CLEANER_OFFSETS).write_text("0\n1\n__transaction_state 0 2\n")
    return log_dir


def test_the_cleaner_is_told_with_what_waits_for_it(tmp_path: Path) -> None:
    found = looked(segments(broker(tmp_path))).partitions[0]
    each = found.bytes // 6
    assert (found.segments, found.cleaned_to, found.end_offset) == (2, 2, 6)
    assert (found.dirty_bytes, found.active_bytes) == (2 * each, 2 * each)


def test_a_torn_end_is_told(tmp_path: Path) -> None:
    log_dir = broker(tmp_path)
    with (log_dir / "__transaction_state-0" / names.Suffix.LOG.at(0)).open("ab") as f:
        f.write(b"torn")
    assert any("byte" in one for one in looked(log_dir).problems)


def test_keys_of_no_id_are_told_as_what_they_are(tmp_path: Path) -> None:
    log_dir = broker(tmp_path)
    with (log_dir / "__transaction_state-0" / names.Suffix.LOG.at(0)).open("ab") as f:
        for offset, key in enumerate((None, b"\0\1\0\1x", b"k" * 40_000), 6):
            batch = build_batch([Record(key=key, value=b"v")], timestamp_ms=NOW)
            f.write(assign(batch, base_offset=offset, leader_epoch=0))
    assert {one.transactional_id for one in looked(log_dir).largest} == {
        *("busy", "calm", "gone"),
        *("(no key)", "(an unknown key of 5 bytes)", "(an unknown key of 40000 bytes)"),
    }


SIZE = PartitionSize(
    partition=0,
    broker=1,
    segments=2,
    bytes=100,
    records=10,
    ids=3,
    live_bytes=10,
    tombstones=0,
    log_start_offset=0,
    end_offset=10,
    cleaned_to=0,
    dirty_bytes=0,
    active_bytes=0,
    unread_bytes=0,
)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"bytes": 0}, "nothing is in it"),
        (
            {"cleaned_to": None, "dirty_bytes": 1},
            "the cleaner has noted no position for partition 0",
        ),
        ({"dirty_bytes": 60}, "60 % of 100 bytes waits for the cleaner"),
        ({"active_bytes": 60}, "60 % of 100 bytes is in newest segments"),
        ({"live_bytes": 60}, "60 % of 100 bytes is alive: 3 transactional ids"),
    ],
)
def test_numbers_have_their_reason(changes: dict[str, int | None], told: str) -> None:
    (reason,) = reasons_of([msgspec.structs.replace(SIZE, **changes)])
    assert reason.startswith(told)


# What aborted and open transactions wrote.


HOUR = 3_600_000


def log(*, is_whole: bool) -> LogDriver:
    """A commit, an abort, one that hangs; another producer's open one."""
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.end(committed=True)
    driver.txn(2)
    if is_whole:
        driver.end(committed=False)
        driver.txn(3, count=3)
        driver.txn(0, pid=99)
    return driver


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """Two brokers; the first one has not come as far."""
    for broker in (1, 2):
        made = BrokerDir(tmp_path / f"broker-{broker}", broker)
        made.coordinator(move("Empty"))
        made.replica(log(is_whole=broker == 2))
        made.stop()
    return tmp_path


def looked_of_lost(disks: Path, target: Path | None = None) -> Losses:
    search = Search(paths=(disks,), as_of_ms=NOW + HOUR)
    return lost(search, target, new_session=no_session, progress=lambda _: None)


def test_each_transaction_is_counted_once(disks: Path) -> None:
    found = looked_of_lost(disks)
    told = [
        (lot.transactional_id, lot.outcome, lot.verdict, lot.first_offset, lot.last_offset)
        for lot in found.transactions
    ]
    assert told == [
        ("app", "aborted", None, 3, 3),
        ("app", "open", "hanging", 5, 7),
        (None, "open", "hanging", 8, 8),
    ]
    assert (found.records, found.bytes, found.files, found.directory) == (5, 10, 0, None)
    assert found.transactions[1] == LostLot(
        topic="orders",
        partition=0,
        transactional_id="app",
        producer_id=7,
        outcome="open",
        verdict="hanging",
        first_offset=5,
        last_offset=7,
        records=3,
        bytes=6,
        keys=1,
    )


def test_their_records_are_written_once(disks: Path) -> None:
    found = looked_of_lost(disks, disks / "out")
    assert found.files == 1
    read = ds.dataset(disks / "out", partitioning="hive").to_table().to_pylist()
    assert [(row["broker"], row["offset"], row["outcome"]) for row in read] == [
        (2, 3, "aborted"),
        (2, 5, "open"),
        (2, 6, "open"),
        (2, 7, "open"),
        (2, 8, "open"),
    ]
    with pytest.raises(BadInputError, match="is there already"):
        looked_of_lost(disks, disks / "out")


def test_nothing_is_lost_where_everything_was_committed(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0)
    driver.end(committed=True)
    made = BrokerDir(tmp_path / "broker-1")
    made.replica(driver)
    assert looked_of_lost(made.stop()).transactions == ()


# Where groups stand, by the log of their coordinators.


def told(tmp_path: Path, *batches: bytes) -> dict[str, int]:
    broker = BrokerDir(tmp_path / "broker-1")
    offsets_log(broker.path, *batches)
    found = positions_in([broker.stop()], print)
    assert found.partitions == (0,)
    return {group: one.offset for (group, place), one in found.by_place.items() if place == HERE}


def test_the_newest_position_counts_until_its_tombstone(tmp_path: Path) -> None:
    gone = OffsetDeleted(group_id="h", topic_partition=HERE)
    batches = (sent(at(1), at(9, "h")), sent(at(4)), sent(gone))
    assert told(tmp_path, *batches) == {"g": 4}


def test_a_position_of_a_transaction_counts_with_its_commit(tmp_path: Path) -> None:
    batches = (
        sent(at(1), at(1, "a"), at(1, "p")),
        sent(at(7), pid=5),
        sent(at(8, "a"), pid=6),
        sent(at(9, "p"), pid=7),
        ended(committed=True, pid=5),
        ended(committed=False, pid=6),
    )
    assert told(tmp_path, *batches) == {"g": 7, "a": 1, "p": 1}


def test_a_later_position_is_not_overtaken_by_a_commit(tmp_path: Path) -> None:
    batches = (sent(at(7), pid=5), sent(at(8)), ended(committed=True, pid=5))
    assert told(tmp_path, *batches) == {"g": 8}


def test_positions_a_torn_end_is_told(tmp_path: Path) -> None:
    broker = BrokerDir(tmp_path / "broker-1")
    folder = offsets_log(broker.path, sent(at(3)))
    with (folder / names.Suffix.LOG.at(0)).open("ab") as file:
        file.write(b"torn")
    problems: list[str] = []
    found = positions_in([broker.kill()], problems.append)
    assert [one.offset for one in found.by_place.values()] == [3]
    assert any("4 bytes, less than a header" in one for one in problems)


def test_the_longest_log_of_the_newest_epoch_is_read(tmp_path: Path) -> None:
    brokers = [BrokerDir(tmp_path / f"broker-{number}") for number in (1, 2)]
    offsets_log(brokers[0].path, sent(at(1)))
    longer = offsets_log(brokers[1].path, sent(at(1)), sent(at(2)))
    paths = [one.stop() for one in brokers]
    problems: list[str] = []
    found = list(leading_states(paths, CONSUMER_OFFSETS_TOPIC, problems.append))
    assert [(one.replica.path, one.ends.end_offset) for one in found] == [(str(longer), 2)]
    assert not list(leading_states(paths, TRANSACTION_STATE_TOPIC, problems.append))
    assert problems == []
