"""Snapshots of producers: how much they hold together, and that each has all entries."""

from __future__ import annotations

from random import Random  # noqa: TID251 - the type of a stream, which txnsim.runtime draws from the seed

from tests.support.logs import NOW, LogDriver, config_of
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.log.producer_state_manager import ProducerSnapshots
from txnsim.runtime.rng import RandomStreams

EXPIRATION_MS = 86_400_000


def held_count(snapshots: ProducerSnapshots) -> int:
    """Entries and ids that all these snapshots hold together."""
    series_held = {
        id(snapshot.series): snapshot.series for snapshot in snapshots._by_offset.values()
    }
    return sum(
        len(series.whole_entries)
        + sum(len(change.entries) + len(change.removed_ids) for change in series.changes)
        for series in series_held.values()
    )


def log_of_producers(count: int) -> PartitionLog:
    """A log with a segment for each record, and a producer for each record."""
    driver = LogDriver(config_of(roll_bytes=70), follows=False)
    for producer_id in range(count):
        assert driver.data(0, producer_id=producer_id) == 0
    return driver.log


def test_snapshots_of_many_segments_hold_as_much_as_has_changed() -> None:
    """Each held all producers, the hundred of them 5,000 entries."""
    for count in (50, 100):
        snapshots = log_of_producers(count).producers.snapshots
        assert [len(entries) for _, entries in snapshots.all_snapshots()] == [*range(1, count)]
        assert held_count(snapshots) <= 4 * count


def test_many_records_of_one_producer_are_held_once_each() -> None:
    driver = LogDriver(config_of(roll_bytes=70), follows=False)
    for sequence in range(50):
        driver.data(sequence)
    assert held_count(driver.log.producers.snapshots) == 49


def test_a_snapshot_of_which_the_earlier_ones_are_gone_has_all_entries() -> None:
    snapshots = log_of_producers(30).producers.snapshots
    *_, (offset, entries) = snapshots.all_snapshots()
    for lower_offset in range(1, offset):
        snapshots.remove(lower_offset)
    assert tuple(snapshots.all_snapshots()) == ((offset, entries),)
    assert held_count(snapshots) <= 2 * len(entries)


def test_a_producer_that_came_and_went_between_two_snapshots_is_in_neither() -> None:
    log = log_of_producers(30)
    driver = LogDriver()
    driver.log = log
    for producer_id in range(3):  # a whole snapshot, and changes
        driver.data(1, producer_id=producer_id)
    driver.data(0, producer_id=99, timestamp=NOW - 10_000)
    assert log.expire_producers(NOW + EXPIRATION_MS - 5_000) == (99,)
    log.producers.take_snapshot(log.log_end_offset)
    *_, (offset, entries) = log.producers.snapshots.all_snapshots()
    assert (offset, len(entries)) == (log.log_end_offset, 30)
    assert entries == log.producers.state.to_snapshot()


def test_a_copy_stays_as_it_was() -> None:
    log = log_of_producers(30)
    copied_snapshots = log.producers.snapshots_with(log.log_end_offset)
    entries_before = tuple(copied_snapshots.all_snapshots())
    driver = LogDriver()
    driver.log = log
    for producer_id in range(20, 40):
        driver.data(int(producer_id < 30), producer_id=producer_id)
    assert tuple(copied_snapshots.all_snapshots()) == entries_before


def test_each_snapshot_has_the_entries_of_its_moment_whatever_happened_between() -> None:
    """Records, markers, expiry, lost snapshots, truncations, which return to an earlier one."""
    for seed in range(30):
        random = RandomStreams(seed).stream("acts")
        driver = LogDriver(config_of(roll_bytes=400), follows=False)
        log = driver.log
        known_entries: dict[int, tuple[SnapshotEntry, ...]] = {}
        for step in range(150):
            driver.now = NOW + step * 1000
            entries_before = log.producers.state.to_snapshot()
            is_append = _act_at_random(driver, random)
            # The snapshot of a new segment has what was known before its first record.
            entries = entries_before if is_append else log.producers.state.to_snapshot()
            known_entries = {
                offset: known_entries.get(offset, entries)
                for offset, _ in log.producers.snapshots.all_snapshots()
            }
            assert dict(log.producers.snapshots.all_snapshots()) == known_entries, (seed, step)


def _act_at_random(driver: LogDriver, random: Random) -> bool:
    """Do one thing to the log; return whether it was an append."""
    log, producer_id = driver.log, random.randrange(40)
    entry = log.producers.state.find(producer_id)
    sequence, epoch = (0, 0) if entry is None else (entry.next_sequence, entry.producer_epoch)
    match random.choices(("write", "end", "take", "expire", "lose", "cut"), (20, 4, 4, 2, 1, 1))[0]:
        case "write":
            driver.data(sequence, producer_id=producer_id, epoch=epoch, timestamp=driver.now)
            return True
        case "end":
            driver.end(committed=True, producer_id=producer_id, epoch=epoch + 1)
            return True
        case "take":
            log.producers.take_snapshot(log.log_end_offset)
        case "expire":
            log.expire_producers(driver.now + EXPIRATION_MS - random.randrange(60_000))
        case "lose":
            log.producers.snapshots.remove(log.producers.newest_snapshot_offset or 0)
        case _:
            cut_ms = driver.now + random.choice((0, EXPIRATION_MS - 20_000))
            log.truncate_to(max(0, log.log_end_offset - random.randrange(9)), now_ms=cut_ms)
    return False
