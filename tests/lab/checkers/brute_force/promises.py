"""The definitions of docs/checkers.md, "What was promised"."""

from __future__ import annotations

from collections.abc import Iterable

from tests.lab.checkers.brute_force.facts import (
    FAILED,
    NOT_TOLD,
    OK,
    Lines,
    cannot_have_committed,
    ends,
    every,
    given_records,
    is_acknowledged,
    labels,
    may_be_any_of,
    offsets_given,
    reads,
    writers,
)
from tests.lab.checkers.brute_force.what_goes_on import hanging
from txnsim.types import TopicPartition
from txnsim_lab.check.observations import Outcome, PositionsRead, Read, SentOffsets, Wrote

SEQUENCES = 2**31

# Gone


def is_passed(lines: Lines, wrote: Wrote) -> bool:
    """Whether a reader began at or before a record, went on behind it, and was not given it."""
    if wrote.outcome is not OK or wrote.value is None or wrote.offset == NOT_TOLD:
        return False
    if any(offset != wrote.offset for offset in offsets_given(lines, wrote)):
        return False
    if _may_be_cleaned(lines, wrote):
        return False
    return any(
        read.asked <= wrote.offset < read.next_offset
        and not any(
            record.offset == wrote.offset and record.value == wrote.value for record in read.records
        )
        for _, read in reads(lines, wrote.place)
    )


def _may_be_cleaned(lines: Lines, wrote: Wrote) -> bool:
    if wrote.key is None:
        return False
    for _, other_wrote in every(lines, Wrote):
        if other_wrote.key == wrote.key and other_wrote.outcome is not FAILED:
            is_placed = other_wrote.outcome is OK and other_wrote.offset != NOT_TOLD
            if other_wrote.place == wrote.place and (
                not is_placed or other_wrote.offset > wrote.offset
            ):
                return True
            if _may_be_there(other_wrote.place, wrote.place):
                return True
    for _, read in every(lines, Read):
        for record in () if read.error else read.records:
            if record.key == wrote.key:
                if read.place == wrote.place and record.offset > wrote.offset:
                    return True
                if _may_be_there(read.place, wrote.place):
                    return True
    return False


def _may_be_there(topic_partition: TopicPartition, other_partition: TopicPartition) -> bool:
    return topic_partition.partition == other_partition.partition and may_be_any_of(
        topic_partition.topic, other_partition.topic
    )


def is_held(lines: Lines, wrote: Wrote) -> bool:
    """Whether a committed record belongs to a transaction that still hangs."""
    commits = [
        commit_index
        for commit_index, end in ends(lines, wrote.transaction)
        if end.commit and end.outcome is OK and wrote.transaction is not None
    ]
    if not commits or wrote.outcome is not OK or (wrote.value and offsets_given(lines, wrote)):
        return False
    return any(
        (hanging_transaction.place, hanging_transaction.producer_id)
        == (wrote.place, wrote.producer_id)
        and wrote.offset >= hanging_transaction.start_offset
        and hanging_transaction.last_seen > max(commits)
        for hanging_transaction in hanging(lines)
    )


def is_gone(lines: Lines, wrote: Wrote) -> bool:
    return is_passed(lines, wrote) or is_held(lines, wrote)


def _acknowledged_writes(lines: Lines, label: str) -> list[Wrote]:
    return [
        wrote
        for _, wrote in every(lines, Wrote)
        if wrote.transaction == label and wrote.outcome is OK
    ]


def lost_commit(lines: Lines) -> bool:
    return any(_is_lost_commit(lines, label) for label in labels(lines))


def _is_lost_commit(lines: Lines, label: str) -> bool:
    records = _acknowledged_writes(lines, label)
    return (
        is_acknowledged(lines, label)
        and any(
            not _is_same(record, other_record) for record in records for other_record in records
        )
        and all(is_gone(lines, wrote) and not _is_shown(lines, wrote) for wrote in records)
    )


def lost_write(lines: Lines) -> bool:
    for _, wrote in every(lines, Wrote):
        label = wrote.transaction
        if wrote.outcome is OK and is_gone(lines, wrote):
            if label is None:
                return True
            if is_acknowledged(lines, label) and not _is_lost_commit(lines, label):
                return True
    return False


def torn_transaction(lines: Lines) -> bool:
    for label in labels(lines):
        records = _acknowledged_writes(lines, label)
        for record in records:
            for other_record in records:
                is_another = not _is_same(record, other_record)
                if is_another and _is_shown(lines, record) and is_gone(lines, other_record):
                    return True
    return False


def _is_same(record: Wrote, other_record: Wrote) -> bool:
    """Whether two acknowledgements are of one record."""
    return record is other_record or (
        record.place == other_record.place and record.value == other_record.value is not None
    )


def _is_shown(lines: Lines, wrote: Wrote) -> bool:
    return wrote.value is not None and bool(offsets_given(lines, wrote))


# Twice, and in order


def duplicate(lines: Lines) -> bool:
    shown_records = [
        (topic_partition, record.offset, record.value, _item(lines, topic_partition, record.value))
        for _, topic_partition, record in given_records(lines)
        if _is_known(lines, topic_partition, record.value)
    ]
    for topic_partition, offset, value, item in shown_records:
        for other_place, other_offset, other_value, other_item in shown_records:
            if (topic_partition, offset) == (other_place, other_offset) or item != other_item:
                continue
            if item is not None and topic_partition.topic == other_place.topic:
                return True
            if item is None and (topic_partition, value) == (other_place, other_value):
                return True
    return False


def _item(lines: Lines, topic_partition: TopicPartition, record_value: str | None) -> str | None:
    items = {writer.item for writer in writers(lines, topic_partition, record_value)}
    return items.pop() if len(items) == 1 else None


def _is_known(lines: Lines, topic_partition: TopicPartition, record_value: str | None) -> bool:
    writers_of_value = writers(lines, topic_partition, record_value)
    is_of_one_transaction = len({wrote.transaction for wrote in writers_of_value}) == 1
    return bool(writers_of_value) and (
        is_of_one_transaction or _item(lines, topic_partition, record_value) is not None
    )


def out_of_order(lines: Lines) -> bool:
    for low_at, low in every(lines, Wrote):
        for high_at, high in every(lines, Wrote):
            if not _is_after(high, low) or high.outcome is not OK:
                continue
            if low.outcome is OK and NOT_TOLD < high.offset < low.offset:
                return True
            if low.error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and high_at < low_at:
                attempts = [
                    attempt for _, attempt in every(lines, Wrote) if _is_attempt_of(attempt, low)
                ]
                if all(
                    attempt.outcome is FAILED and not _is_shown(lines, attempt)
                    for attempt in attempts
                ):
                    return True
    return False


def _is_after(high: Wrote, low: Wrote) -> bool:
    if high.sequence is None or low.sequence is None or not _are_of_one_session(high, low):
        return False
    return 0 < (high.sequence - low.sequence) % SEQUENCES < SEQUENCES // 2


def _is_attempt_of(attempt: Wrote, original: Wrote) -> bool:
    return _are_of_one_session(attempt, original) and attempt.sequence == original.sequence


def _are_of_one_session(attempt: Wrote, original: Wrote) -> bool:
    session = (attempt.producer_id, attempt.producer_epoch, attempt.place)
    return None not in session and session == (
        original.producer_id,
        original.producer_epoch,
        original.place,
    )


# Positions


def positions_before_decision(lines: Lines) -> bool:
    for _, read in every(lines, PositionsRead):
        for position in () if read.error else read.positions:
            senders = [
                sent
                for _, sent in every(lines, SentOffsets)
                if (sent.group, sent.place, sent.position)
                == (read.group, position.place, position.offset)
            ]
            if senders and all(_is_too_early(lines, sent, read) for sent in senders):
                return True
    return False


def _is_too_early(lines: Lines, sent: SentOffsets, read: PositionsRead) -> bool:
    if sent.transaction is None:
        return False
    if cannot_have_committed(lines, sent.transaction):
        return True
    commits = [
        end for _, end in ends(lines, sent.transaction) if end.commit and end.outcome is not FAILED
    ]
    return bool(commits) and all(
        end.asked_ms is not None and read.at_ms < end.asked_ms for end in commits
    )


def skipped_input(lines: Lines) -> bool:
    pairs = {(sent.group, sent.place) for _, sent in every(lines, SentOffsets)}
    return any(_skips(lines, group, topic_partition) for group, topic_partition in pairs)


def _skips(lines: Lines, group: str, topic_partition: TopicPartition) -> bool:
    sent = [
        sent_offsets
        for _, sent_offsets in every(lines, SentOffsets)
        if (sent_offsets.group, sent_offsets.place) == (group, topic_partition)
    ]
    members = {
        sent_offsets.who if sent_offsets.member is None else sent_offsets.member
        for sent_offsets in sent
    }
    polled = [read for _, read in reads(lines, topic_partition) if read.who in members]
    if not polled:
        return False
    reached = max(_in_force(lines, group, topic_partition, sent), default=NOT_TOLD)
    begun = min(read.asked for read in polled)
    begins = max(
        (
            read.log_start_offset
            for _, read in every(lines, Read)
            if read.place == topic_partition and not read.error
        ),
        default=0,
    )
    return any(
        max(begun, begins) <= record.offset < reached
        and not _is_replaced(lines, topic_partition, record.offset)
        and _is_skipped(lines, topic_partition, record.offset, sent, polled)
        for _, read in reads(lines, topic_partition)
        for record in read.records
    )


def _in_force(
    lines: Lines, group: str, topic_partition: TopicPartition, sent: list[SentOffsets]
) -> Iterable[int]:
    for sent_offsets in sent:
        is_final = sent_offsets.transaction is None or is_acknowledged(
            lines, sent_offsets.transaction
        )
        if is_final and sent_offsets.outcome is OK:
            yield sent_offsets.position
    committed_positions = {sent_offsets.position for sent_offsets in sent}
    for _, read in every(lines, PositionsRead):
        for position in () if read.error else read.positions:
            is_ours = (read.group, position.place) == (group, topic_partition)
            if is_ours and position.offset in committed_positions:
                yield position.offset


def _is_skipped(
    lines: Lines,
    topic_partition: TopicPartition,
    offset: int,
    sent: list[SentOffsets],
    polled: list[Read],
) -> bool:
    got = [read for read in polled if offset in {record.offset for record in read.records}]
    if any(not _is_aborted(lines, read.transaction) for read in got):
        return False
    outputs = [
        (wrote, input_position.offset)
        for _, wrote in every(lines, Wrote)
        for input_position in wrote.of
        if input_position.place == topic_partition
    ]
    for wrote, named in outputs:
        if named == offset and _may_stand(lines, wrote):
            return False
    if not got:
        return True
    sent_behind = [
        sent_offsets
        for sent_offsets in sent
        if sent_offsets.position > offset and _may_stand(lines, sent_offsets)
    ]
    own = {sent_offsets.transaction for sent_offsets in sent} | {
        read.transaction for read in polled
    }
    return not sent_behind or any(
        wrote.transaction is not None and wrote.transaction in own for wrote, _ in outputs
    )


def _may_stand(lines: Lines, step: Wrote | SentOffsets) -> bool:
    return step.outcome is not Outcome.FAILED and not _is_aborted(lines, step.transaction)


def _is_aborted(lines: Lines, label: str | None) -> bool:
    return label is not None and cannot_have_committed(lines, label)


def _is_replaced(lines: Lines, topic_partition: TopicPartition, offset: int) -> bool:
    """Whether a later record has the key of this one, so that the cleaner may take it."""
    shown_records = [
        record
        for _, read in every(lines, Read)
        if read.place == topic_partition and not read.error
        for record in read.records
        if record.key is not None
    ]
    return any(
        record.offset == offset and later_record.offset > offset and record.key == later_record.key
        for record in shown_records
        for later_record in shown_records
    )
