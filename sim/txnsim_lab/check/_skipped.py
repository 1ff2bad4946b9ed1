"""Finds input that a group skipped: its position is after a record that no member of the group ever
got, or that members got only in transactions that were aborted.

Exactly-once of a consume-transform-produce application depends on this (KIP-98, KIP-447): output
and position are committed together. A position that is too far ahead loses input without an error.

An application that goes on after an abort without seeking back looks like an application that does
the aborted work again from memory. Where outputs name their inputs, the checker can tell them
apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from txnsim.types import TopicPartition
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import Outcome, PositionsRead, Read, SentOffsets, Wrote

_OFFSETS_NAMED_MAX: Final = 3
"""Number of offsets that a message names."""

_IndexedReads = Sequence[tuple[int, Read]]


class _SkippedGroup(msgspec.Struct):
    """What is known of a group's positions on one partition."""

    senders: set[str]
    sent_offsets: set[int]
    """Offsets that were sent as positions, even if the commit failed."""
    transactions: set[str | None]
    vouched_position: int = -1
    """The group's highest committed position; all records below count as processed."""
    highest_position: int = -1
    """The group's highest effective position."""
    index: int = -1
    """Index of the observation that shows this position."""

    def note_position(self, position: int, index: int) -> None:
        """Note a position of the group that took effect."""
        if position > self.highest_position:
            self.highest_position, self.index = position, index


def skipped_input(history: History) -> tuple[Anomaly, ...]:
    """A position of a group was in force, committed or answered to an OffsetFetch, and before it
    lies a record that read_committed readers get, at or after the first offset that a member
    asked for,

    - that no member was ever given; or
    - that members were given only in transactions that were aborted, while no later position
      was ever committed; or one was, and the group's outputs name their inputs on the partition,
      but none that may have been committed names this one.

    Members are those who have sent positions of the group, or for whom they were sent.
    """
    anomalies = []
    for (group_name, partition), group in sorted(_group_by_place(history).items()):
        reads = tuple(
            indexed_read
            for indexed_read in history.committed_reads(partition)
            if indexed_read[1].who in group.senders
        )
        if not reads:
            continue  # the history does not say what its members read
        missed_offsets = _unprocessed_records(history, partition, group, reads)
        if missed_offsets:
            offsets = sorted(missed_offsets)
            unlisted_text = (
                f" and {len(offsets) - _OFFSETS_NAMED_MAX} more"
                if len(offsets) > _OFFSETS_NAMED_MAX
                else ""
            )
            reason = (
                f"the position of {group_name} on {partition} was {group.highest_position}, and no "
                f"member of the group has processed "
                f"{', '.join(map(str, offsets[:_OFFSETS_NAMED_MAX]))}{unlisted_text}"
            )
            evidence_indexes = (group.index, missed_offsets[offsets[0]])
            anomalies.append(convict(Kind.SKIPPED_INPUT, reason, *evidence_indexes))
    return tuple(anomalies)


def _group_by_place(history: History) -> dict[tuple[str, TopicPartition], _SkippedGroup]:
    groups: dict[tuple[str, TopicPartition], _SkippedGroup] = defaultdict(
        lambda: _SkippedGroup(set(), set(), set())
    )
    for index, sent_offsets in history.all_of(SentOffsets):
        group = groups[sent_offsets.group, sent_offsets.place]
        group.senders.add(sent_offsets.who if sent_offsets.member is None else sent_offsets.member)
        group.sent_offsets.add(sent_offsets.position)
        group.transactions.add(sent_offsets.transaction)
        transaction = history.transaction_of(sent_offsets)
        fate = None if transaction is None else transaction.fate
        if sent_offsets.outcome is not Outcome.FAILED and (fate is None or not fate.is_aborted):
            group.vouched_position = max(group.vouched_position, sent_offsets.position)
        if sent_offsets.outcome is Outcome.OK and (fate is None or fate.is_committed):
            group.note_position(sent_offsets.position, index)
    for index, read in history.all_of(PositionsRead):
        for position in () if read.error else read.positions:
            group_of_read = groups.get((read.group, position.place))
            # A position that no member has sent is somebody's reset.
            if group_of_read is not None and position.offset in group_of_read.sent_offsets:
                group_of_read.note_position(position.offset, index)
    return groups


def _unprocessed_records(
    history: History, partition: TopicPartition, group: _SkippedGroup, reads: _IndexedReads
) -> dict[int, int]:
    """Offset of each unprocessed record -> index of the observation that shows that it exists."""
    delivered_offsets: set[int] = set()
    processed_offsets, names_inputs = _processed_inputs(history, partition, group, reads)
    for _, read in reads:
        offsets = {record.offset for record in read.records}
        delivered_offsets |= offsets
        if not _has_aborted(history, read.transaction):
            processed_offsets |= offsets
    first_offset = min(read.asked for _, read in reads)
    missed_offsets: dict[int, int] = {}
    start_offset, unreadable_offsets = _unreadable_records(history, partition)
    for index, read in history.committed_reads(partition):
        for record in read.records:
            offset = record.offset
            if (
                not max(first_offset, start_offset) <= offset < group.highest_position
                or offset in processed_offsets
            ):
                continue
            if offset in delivered_offsets and offset < group.vouched_position and not names_inputs:
                continue  # it was done again, from memory perhaps: its position was committed
            if offset not in unreadable_offsets:
                missed_offsets.setdefault(offset, index)
    return missed_offsets


def _processed_inputs(
    history: History, partition: TopicPartition, group: _SkippedGroup, reads: _IndexedReads
) -> tuple[set[int], bool]:
    """The inputs that have an output, except refused or aborted ones; and whether the outputs of
    this group's transactions name their inputs on the partition.
    """
    outputs: set[int] = set()
    names_inputs = False
    transactions_of_group = group.transactions | {read.transaction for _, read in reads}
    for write in history.derived(_writes_by_input).get(partition, ()):
        inputs = {
            input_position.offset
            for input_position in write.of
            if input_position.place == partition
        }
        names_inputs |= (
            bool(inputs)
            and write.transaction is not None
            and write.transaction in transactions_of_group
        )
        if write.outcome is not Outcome.FAILED and not _has_aborted(history, write.transaction):
            outputs |= inputs
    return outputs, names_inputs


def _writes_by_input(history: History) -> dict[TopicPartition, list[Wrote]]:
    writes_by_partition: dict[TopicPartition, list[Wrote]] = defaultdict(list)
    for _, write in history.writes():
        for partition in {input_position.place for input_position in write.of}:
            writes_by_partition[partition].append(write)
    return writes_by_partition


def _has_aborted(history: History, transaction: str | None) -> bool:
    return transaction is not None and history.transactions()[transaction].fate.is_aborted


def _unreadable_records(history: History, partition: TopicPartition) -> tuple[int, set[int]]:
    """The highest observed start offset of the log, and the offsets that the cleaner may have
    removed.
    """
    start_offset = 0
    newest_offset_by_key: dict[str, int] = {}
    unreadable_offsets: set[int] = set()
    for _, read in history.reads(partition):
        start_offset = max(start_offset, read.log_start_offset)
        for record in read.records:
            if record.key is None:
                continue
            newest_offset = newest_offset_by_key.get(record.key)
            if newest_offset is not None and newest_offset != record.offset:
                unreadable_offsets.add(min(newest_offset, record.offset))
            newest_offset_by_key[record.key] = max(
                record.offset, -1 if newest_offset is None else newest_offset
            )
    return start_offset, unreadable_offsets
