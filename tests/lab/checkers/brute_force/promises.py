"""The definitions of docs/checkers.md, "What was promised"."""

from __future__ import annotations

from collections.abc import Iterable

from tests.lab.checkers.brute_force.facts import (
    FAILED,
    NOT_TOLD,
    OK,
    Observations,
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


def is_passed(observations: Observations, observed_write: Wrote) -> bool:
    """Whether a reader began at or before a record, went on behind it, and was not given it."""
    if (
        observed_write.outcome is not OK
        or observed_write.value is None
        or observed_write.offset == NOT_TOLD
    ):
        return False
    if any(
        offset != observed_write.offset for offset in offsets_given(observations, observed_write)
    ):
        return False
    if _may_be_cleaned(observations, observed_write):
        return False
    return any(
        read.asked <= observed_write.offset < read.next_offset
        and not any(
            record.offset == observed_write.offset and record.value == observed_write.value
            for record in read.records
        )
        for _, read in reads(observations, observed_write.place)
    )


def _may_be_cleaned(observations: Observations, observed_write: Wrote) -> bool:
    if observed_write.key is None:
        return False
    for _, other_wrote in every(observations, Wrote):
        if other_wrote.key == observed_write.key and other_wrote.outcome is not FAILED:
            is_placed = other_wrote.outcome is OK and other_wrote.offset != NOT_TOLD
            if other_wrote.place == observed_write.place and (
                not is_placed or other_wrote.offset > observed_write.offset
            ):
                return True
            if _may_be_there(other_wrote.place, observed_write.place):
                return True
    for _, read in every(observations, Read):
        for record in () if read.error else read.records:
            if record.key == observed_write.key:
                if read.place == observed_write.place and record.offset > observed_write.offset:
                    return True
                if _may_be_there(read.place, observed_write.place):
                    return True
    return False


def _may_be_there(topic_partition: TopicPartition, other_partition: TopicPartition) -> bool:
    return topic_partition.partition == other_partition.partition and may_be_any_of(
        topic_partition.topic, other_partition.topic
    )


def is_held(observations: Observations, observed_write: Wrote) -> bool:
    """Whether a committed record belongs to a transaction that still hangs."""
    commits = [
        commit_index
        for commit_index, observed_end in ends(observations, observed_write.transaction)
        if observed_end.commit
        and observed_end.outcome is OK
        and observed_write.transaction is not None
    ]
    if (
        not commits
        or observed_write.outcome is not OK
        or (observed_write.value and offsets_given(observations, observed_write))
    ):
        return False
    return any(
        (hanging_transaction.place, hanging_transaction.producer_id)
        == (observed_write.place, observed_write.producer_id)
        and observed_write.offset >= hanging_transaction.start_offset
        and hanging_transaction.last_seen > max(commits)
        for hanging_transaction in hanging(observations)
    )


def is_gone(observations: Observations, observed_write: Wrote) -> bool:
    return is_passed(observations, observed_write) or is_held(observations, observed_write)


def _acknowledged_writes(observations: Observations, label: str) -> list[Wrote]:
    return [
        observed_write
        for _, observed_write in every(observations, Wrote)
        if observed_write.transaction == label and observed_write.outcome is OK
    ]


def lost_commit(observations: Observations) -> bool:
    return any(_is_lost_commit(observations, label) for label in labels(observations))


def _is_lost_commit(observations: Observations, label: str) -> bool:
    records = _acknowledged_writes(observations, label)
    return (
        is_acknowledged(observations, label)
        and any(not _is_same(record, other_write) for record in records for other_write in records)
        and all(
            is_gone(observations, observed_write) and not _is_shown(observations, observed_write)
            for observed_write in records
        )
    )


def lost_write(observations: Observations) -> bool:
    for _, observed_write in every(observations, Wrote):
        label = observed_write.transaction
        if observed_write.outcome is OK and is_gone(observations, observed_write):
            if label is None:
                return True
            if is_acknowledged(observations, label) and not _is_lost_commit(observations, label):
                return True
    return False


def torn_transaction(observations: Observations) -> bool:
    for label in labels(observations):
        records = _acknowledged_writes(observations, label)
        for record in records:
            for other_write in records:
                is_another = not _is_same(record, other_write)
                if (
                    is_another
                    and _is_shown(observations, record)
                    and is_gone(observations, other_write)
                ):
                    return True
    return False


def _is_same(record: Wrote, other_write: Wrote) -> bool:
    """Whether two acknowledgements are of one record."""
    return record is other_write or (
        record.place == other_write.place and record.value == other_write.value is not None
    )


def _is_shown(observations: Observations, observed_write: Wrote) -> bool:
    return observed_write.value is not None and bool(offsets_given(observations, observed_write))


# Twice, and in order


def duplicate(observations: Observations) -> bool:
    shown_records = [
        (
            topic_partition,
            record.offset,
            record.value,
            _item(observations, topic_partition, record.value),
        )
        for _, topic_partition, record in given_records(observations)
        if _is_known(observations, topic_partition, record.value)
    ]
    for topic_partition, offset, value, item in shown_records:
        for other_partition, other_offset, other_value, other_item in shown_records:
            if (topic_partition, offset) == (other_partition, other_offset) or item != other_item:
                continue
            if item is not None and topic_partition.topic == other_partition.topic:
                return True
            if item is None and (topic_partition, value) == (other_partition, other_value):
                return True
    return False


def _item(
    observations: Observations, topic_partition: TopicPartition, record_value: str | None
) -> str | None:
    items = {writer.item for writer in writers(observations, topic_partition, record_value)}
    return items.pop() if len(items) == 1 else None


def _is_known(
    observations: Observations, topic_partition: TopicPartition, record_value: str | None
) -> bool:
    writers_of_value = writers(observations, topic_partition, record_value)
    is_of_one_transaction = (
        len({observed_write.transaction for observed_write in writers_of_value}) == 1
    )
    return bool(writers_of_value) and (
        is_of_one_transaction or _item(observations, topic_partition, record_value) is not None
    )


def out_of_order(observations: Observations) -> bool:
    for low_at, low_write in every(observations, Wrote):
        for high_at, high_write in every(observations, Wrote):
            if not _is_after(high_write, low_write) or high_write.outcome is not OK:
                continue
            if low_write.outcome is OK and NOT_TOLD < high_write.offset < low_write.offset:
                return True
            if low_write.error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and high_at < low_at:
                write_attempts = [
                    write_attempt
                    for _, write_attempt in every(observations, Wrote)
                    if _is_attempt_of(write_attempt, low_write)
                ]
                if all(
                    write_attempt.outcome is FAILED and not _is_shown(observations, write_attempt)
                    for write_attempt in write_attempts
                ):
                    return True
    return False


def _is_after(high_write: Wrote, low_write: Wrote) -> bool:
    if (
        high_write.sequence is None
        or low_write.sequence is None
        or not _are_of_one_session(high_write, low_write)
    ):
        return False
    return 0 < (high_write.sequence - low_write.sequence) % SEQUENCES < SEQUENCES // 2


def _is_attempt_of(write_attempt: Wrote, original_write: Wrote) -> bool:
    return (
        _are_of_one_session(write_attempt, original_write)
        and write_attempt.sequence == original_write.sequence
    )


def _are_of_one_session(write_attempt: Wrote, original_write: Wrote) -> bool:
    session = (write_attempt.producer_id, write_attempt.producer_epoch, write_attempt.place)
    return None not in session and session == (
        original_write.producer_id,
        original_write.producer_epoch,
        original_write.place,
    )


# Positions


def positions_before_decision(observations: Observations) -> bool:
    for _, read in every(observations, PositionsRead):
        for position in () if read.error else read.positions:
            senders = [
                sent_offsets
                for _, sent_offsets in every(observations, SentOffsets)
                if (sent_offsets.group, sent_offsets.place, sent_offsets.position)
                == (read.group, position.place, position.offset)
            ]
            if senders and all(
                _is_too_early(observations, sent_offsets, read) for sent_offsets in senders
            ):
                return True
    return False


def _is_too_early(
    observations: Observations, sent_offsets: SentOffsets, read: PositionsRead
) -> bool:
    if sent_offsets.transaction is None:
        return False
    if cannot_have_committed(observations, sent_offsets.transaction):
        return True
    observed_commits = [
        observed_end
        for _, observed_end in ends(observations, sent_offsets.transaction)
        if observed_end.commit and observed_end.outcome is not FAILED
    ]
    return bool(observed_commits) and all(
        observed_end.asked_ms is not None and read.at_ms < observed_end.asked_ms
        for observed_end in observed_commits
    )


def skipped_input(observations: Observations) -> bool:
    pairs = {
        (sent_offsets.group, sent_offsets.place)
        for _, sent_offsets in every(observations, SentOffsets)
    }
    return any(_skips(observations, group, topic_partition) for group, topic_partition in pairs)


def _skips(observations: Observations, group: str, topic_partition: TopicPartition) -> bool:
    sent_positions = [
        sent_offsets
        for _, sent_offsets in every(observations, SentOffsets)
        if (sent_offsets.group, sent_offsets.place) == (group, topic_partition)
    ]
    members = {
        sent_offsets.who if sent_offsets.member is None else sent_offsets.member
        for sent_offsets in sent_positions
    }
    polled_reads = [read for _, read in reads(observations, topic_partition) if read.who in members]
    if not polled_reads:
        return False
    reached_offset = max(
        _in_force(observations, group, topic_partition, sent_positions), default=NOT_TOLD
    )
    first_asked = min(read.asked for read in polled_reads)
    begins = max(
        (
            read.log_start_offset
            for _, read in every(observations, Read)
            if read.place == topic_partition and not read.error
        ),
        default=0,
    )
    return any(
        max(first_asked, begins) <= record.offset < reached_offset
        and not _is_replaced(observations, topic_partition, record.offset)
        and _is_skipped(observations, topic_partition, record.offset, sent_positions, polled_reads)
        for _, read in reads(observations, topic_partition)
        for record in read.records
    )


def _in_force(
    observations: Observations,
    group: str,
    topic_partition: TopicPartition,
    sent_positions: list[SentOffsets],
) -> Iterable[int]:
    for sent_offsets in sent_positions:
        is_final = sent_offsets.transaction is None or is_acknowledged(
            observations, sent_offsets.transaction
        )
        if is_final and sent_offsets.outcome is OK:
            yield sent_offsets.position
    committed_positions = {sent_offsets.position for sent_offsets in sent_positions}
    for _, read in every(observations, PositionsRead):
        for position in () if read.error else read.positions:
            is_ours = (read.group, position.place) == (group, topic_partition)
            if is_ours and position.offset in committed_positions:
                yield position.offset


def _is_skipped(
    observations: Observations,
    topic_partition: TopicPartition,
    offset: int,
    sent_positions: list[SentOffsets],
    polled_reads: list[Read],
) -> bool:
    matching_reads = [
        read for read in polled_reads if offset in {record.offset for record in read.records}
    ]
    if any(not _is_aborted(observations, read.transaction) for read in matching_reads):
        return False
    outputs = [
        (observed_write, input_position.offset)
        for _, observed_write in every(observations, Wrote)
        for input_position in observed_write.of
        if input_position.place == topic_partition
    ]
    for observed_write, named_offset in outputs:
        if named_offset == offset and _may_stand(observations, observed_write):
            return False
    if not matching_reads:
        return True
    sent_behind = [
        sent_offsets
        for sent_offsets in sent_positions
        if sent_offsets.position > offset and _may_stand(observations, sent_offsets)
    ]
    own_transactions = {sent_offsets.transaction for sent_offsets in sent_positions} | {
        read.transaction for read in polled_reads
    }
    return not sent_behind or any(
        observed_write.transaction is not None and observed_write.transaction in own_transactions
        for observed_write, _ in outputs
    )


def _may_stand(observations: Observations, step: Wrote | SentOffsets) -> bool:
    return step.outcome is not Outcome.FAILED and not _is_aborted(observations, step.transaction)


def _is_aborted(observations: Observations, label: str | None) -> bool:
    return label is not None and cannot_have_committed(observations, label)


def _is_replaced(observations: Observations, topic_partition: TopicPartition, offset: int) -> bool:
    """Whether a later record has the key of this one, so that the cleaner may take it."""
    shown_records = [
        record
        for _, read in every(observations, Read)
        if read.place == topic_partition and not read.error
        for record in read.records
        if record.key is not None
    ]
    return any(
        record.offset == offset and later_record.offset > offset and record.key == later_record.key
        for record in shown_records
        for later_record in shown_records
    )
