"""Finds the writes that read_committed readers got, and those that they passed without getting
them. A reader has passed an offset if it asked for this offset or a lower one, and its next
position is higher. The last stable offset is never beyond a record of an open transaction. So a
reader that passes an undecided record shows an error. A reader that passes a committed record must
have got it, unless the cleaner removed it because a later record has its key.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from txnsim.types import TopicPartition
from txnsim_lab.check._topics import in_doubt_of, own_name
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import UNKNOWN_OFFSET, Outcome, Wrote

_ABOVE_ALL_OFFSETS: Final = 1 << 63
"""Higher than every offset: for a record whose offset is unknown."""

RecordName = tuple[TopicPartition, str]
"""A record by its partition and value."""


class Sight(msgspec.Struct, frozen=True):
    """A record that was delivered."""

    index: int
    """Index of the Read in the history."""
    offset: int


class Visibility(msgspec.Struct, frozen=True, kw_only=True):
    """Visible records of one history."""

    writers: Mapping[RecordName, tuple[tuple[int, Wrote], ...]]
    """Every attempt to write a record that was not refused; if all attempts were refused, all of
    them.
    """
    sights: Mapping[RecordName, tuple[Sight, ...]]
    """Every delivery of a record to a read_committed reader."""
    misses: Mapping[int, int]
    """Index of an acknowledged write -> index of the first Read that passed it without returning
    it.
    """

    def sights_of(self, write: Wrote) -> tuple[Sight, ...]:
        """Every delivery of a record to readers, if this attempt may have written it."""
        if write.value is None:
            return ()
        name = (write.place, write.value)
        if write.outcome is Outcome.FAILED and not _have_failed_everywhere(self.writers[name]):
            return ()  # another attempt has written it
        return self.sights.get(name, ())


def visibility(history: History) -> Visibility:
    """For each write, whether read_committed readers got it or passed it."""
    return history.derived(_visibility)


def _visibility(history: History) -> Visibility:
    writes_by_name: dict[RecordName, list[tuple[int, Wrote]]] = defaultdict(list)
    for index, write in history.writes():
        if write.value is not None:
            writes_by_name[write.place, write.value].append((index, write))
    sights: dict[RecordName, list[Sight]] = defaultdict(list)
    for index, read in history.committed_reads():
        for record in read.records:
            if record.value is not None:
                sights[read.place, record.value].append(Sight(index, record.offset))
    return Visibility(
        writers={
            name: _attempts_with_effect(writes_of_name)
            for name, writes_of_name in writes_by_name.items()
        },
        sights={name: tuple(value_sights) for name, value_sights in sights.items()},
        misses=_read_index_by_missed_write(history, sights),
    )


def _attempts_with_effect(attempts: list[tuple[int, Wrote]]) -> tuple[tuple[int, Wrote], ...]:
    """The attempts that may have had an effect; all of them if all were refused."""
    if _have_failed_everywhere(attempts):
        return tuple(attempts)
    return tuple(
        indexed_write
        for indexed_write in attempts
        if indexed_write[1].outcome is not Outcome.FAILED
    )


def _have_failed_everywhere(attempts: Iterable[tuple[int, Wrote]]) -> bool:
    return all(write.outcome is Outcome.FAILED for _, write in attempts)


def _read_index_by_missed_write(
    history: History, sights_by_record: Mapping[RecordName, list[Sight]]
) -> dict[int, int]:
    """Index of each write that a Read passed without returning it -> index of the Read."""
    due_writes: dict[TopicPartition, list[tuple[int, int, Wrote]]] = defaultdict(list)
    superseded = _SupersededLog(history)
    for index, write in history.writes():
        if write.outcome is not Outcome.OK or write.value is None or superseded.covers(write):
            continue
        if write.offset == UNKNOWN_OFFSET:
            continue  # "not there" would need a reader of everything, and nothing deleted meanwhile
        if not _seen_elsewhere(write, sights_by_record.get((write.place, write.value), ())):
            due_writes[write.place].append((write.offset, index, write))
    read_index_by_write: dict[int, int] = {}
    for partition, partition_writes in due_writes.items():
        partition_writes.sort(key=lambda offset_and_write: offset_and_write[:2])
        offsets = [offset for offset, _, _ in partition_writes]
        for read_index, read in history.committed_reads(partition):
            delivered_records = {(record.offset, record.value) for record in read.records}
            passed_slice = slice(
                bisect_left(offsets, read.asked), bisect_left(offsets, read.next_offset)
            )
            for offset, index, write in partition_writes[passed_slice]:
                if (offset, write.value) not in delivered_records:
                    read_index_by_write.setdefault(index, read_index)
    return read_index_by_write


def _seen_elsewhere(write: Wrote, sights: Iterable[Sight]) -> bool:
    """Whether the record is at another offset than the acknowledgement said."""
    return any(sight.offset != write.offset for sight in sights)


class _SupersededLog:
    """Records that the cleaner may have removed, since a later record has the same key."""

    def __init__(self, history: History) -> None:
        self._last_offset_by_key: dict[tuple[TopicPartition, str], int] = {}
        self._keys_in_doubt: set[tuple[TopicPartition, str]] = set()
        """Records that may be in any of several topics with the same name."""
        for _, write in history.writes():
            if write.key is not None and write.outcome is not Outcome.FAILED:
                has_offset = write.outcome is Outcome.OK and write.offset != UNKNOWN_OFFSET
                self._note_record(
                    write.place, write.key, write.offset if has_offset else _ABOVE_ALL_OFFSETS
                )
        for _, read in history.reads():
            for record in read.records:
                if record.key is not None:
                    self._note_record(read.place, record.key, record.offset)

    def _note_record(self, partition: TopicPartition, key: str, offset: int) -> None:
        doubtful_partition = in_doubt_of(partition)
        if doubtful_partition is not None:
            self._keys_in_doubt.add((doubtful_partition, key))
        self._last_offset_by_key[partition, key] = max(
            offset, self._last_offset_by_key.get((partition, key), offset)
        )

    def covers(self, write: Wrote) -> bool:
        if write.key is None:
            return False
        has_later_record = self._last_offset_by_key[write.place, write.key] > write.offset
        return has_later_record or (own_name(write.place), write.key) in self._keys_in_doubt


def writers_by_offset(
    history: History, visible: Visibility
) -> dict[TopicPartition, dict[int, Wrote]]:
    """The write of the record at each offset, as far as an answer or a Read shows it. If an answer
    and a Read differ, the Read counts; if two answers or two Reads differ, neither counts. A value
    that several transactions have written counts for none of them.
    """
    write_by_offset: dict[TopicPartition, dict[int, Wrote | None]] = defaultdict(dict)
    delivered_by_offset: dict[TopicPartition, dict[int, Wrote | None]] = defaultdict(dict)
    for _, write in history.writes():
        if write.outcome is Outcome.OK and write.offset != UNKNOWN_OFFSET:
            _note_record(write_by_offset[write.place], write.offset, write)
    for (partition, value), sights in visible.sights.items():
        writers = [write for _, write in visible.writers.get((partition, value), ())]
        if len({write.transaction for write in writers}) == 1:
            for sight in sights:
                _note_record(delivered_by_offset[partition], sight.offset, writers[0])
    return {
        partition: {
            offset: write
            for offset, write in (log | delivered_by_offset.get(partition, {})).items()
            if write is not None
        }
        for partition, log in (delivered_by_offset | write_by_offset).items()
    }


def _record_key(write: Wrote) -> tuple[str | None, str | None, str | None]:
    return write.transaction, write.key, write.value


def _note_record(write_by_offset: dict[int, Wrote | None], offset: int, write: Wrote) -> None:
    """Note a record; None at an offset with two different records."""
    earlier_write = write_by_offset.setdefault(offset, write)
    if earlier_write is None or _record_key(earlier_write) != _record_key(write):
        write_by_offset[offset] = None
