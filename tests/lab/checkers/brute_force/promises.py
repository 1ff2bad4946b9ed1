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
    given,
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
    for _, other in every(lines, Wrote):
        if other.key == wrote.key and other.outcome is not FAILED:
            is_placed = other.outcome is OK and other.offset != NOT_TOLD
            if other.place == wrote.place and (not is_placed or other.offset > wrote.offset):
                return True
            if _may_be_there(other.place, wrote.place):
                return True
    for _, read in every(lines, Read):
        for record in () if read.error else read.records:
            if record.key == wrote.key:
                if read.place == wrote.place and record.offset > wrote.offset:
                    return True
                if _may_be_there(read.place, wrote.place):
                    return True
    return False


def _may_be_there(place: TopicPartition, other: TopicPartition) -> bool:
    return place.partition == other.partition and may_be_any_of(place.topic, other.topic)


def is_held(lines: Lines, wrote: Wrote) -> bool:
    """Whether a committed record lies in a transaction that hangs since."""
    commits = [
        at
        for at, end in ends(lines, wrote.transaction)
        if end.commit and end.outcome is OK and wrote.transaction is not None
    ]
    if not commits or wrote.outcome is not OK or (wrote.value and offsets_given(lines, wrote)):
        return False
    return any(
        (one.place, one.producer_id) == (wrote.place, wrote.producer_id)
        and wrote.offset >= one.start_offset
        and one.last_seen > max(commits)
        for one in hanging(lines)
    )


def is_gone(lines: Lines, wrote: Wrote) -> bool:
    return is_passed(lines, wrote) or is_held(lines, wrote)


def _acknowledged(lines: Lines, label: str) -> list[Wrote]:
    return [
        wrote
        for _, wrote in every(lines, Wrote)
        if wrote.transaction == label and wrote.outcome is OK
    ]


def lost_commit(lines: Lines) -> bool:
    return any(_is_lost_commit(lines, label) for label in labels(lines))


def _is_lost_commit(lines: Lines, label: str) -> bool:
    records = _acknowledged(lines, label)
    return (
        is_acknowledged(lines, label)
        and any(not _is_same(one, other) for one in records for other in records)
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
        records = _acknowledged(lines, label)
        for one in records:
            for other in records:
                is_another = not _is_same(one, other)
                if is_another and _is_shown(lines, one) and is_gone(lines, other):
                    return True
    return False


def _is_same(one: Wrote, other: Wrote) -> bool:
    """Whether two acknowledgements are of one record."""
    return one is other or (one.place == other.place and one.value == other.value is not None)


def _is_shown(lines: Lines, wrote: Wrote) -> bool:
    return wrote.value is not None and bool(offsets_given(lines, wrote))


# Twice, and in order


def duplicate(lines: Lines) -> bool:
    shown = [
        (place, record.offset, record.value, _item(lines, place, record.value))
        for _, place, record in given(lines)
        if _is_known(lines, place, record.value)
    ]
    for place, offset, value, item in shown:
        for other_place, other_offset, other_value, other_item in shown:
            if (place, offset) == (other_place, other_offset) or item != other_item:
                continue
            if item is not None and place.topic == other_place.topic:
                return True
            if item is None and (place, value) == (other_place, other_value):
                return True
    return False


def _item(lines: Lines, place: TopicPartition, value: str | None) -> str | None:
    items = {one.item for one in writers(lines, place, value)}
    return items.pop() if len(items) == 1 else None


def _is_known(lines: Lines, place: TopicPartition, value: str | None) -> bool:
    known = writers(lines, place, value)
    same = len({one.transaction for one in known}) == 1
    return bool(known) and (same or _item(lines, place, value) is not None)


def out_of_order(lines: Lines) -> bool:
    for low_at, low in every(lines, Wrote):
        for high_at, high in every(lines, Wrote):
            if not _is_after(high, low) or high.outcome is not OK:
                continue
            if low.outcome is OK and NOT_TOLD < high.offset < low.offset:
                return True
            if low.error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and high_at < low_at:
                same = [one for _, one in every(lines, Wrote) if _is_attempt_of(one, low)]
                if all(one.outcome is FAILED and not _is_shown(lines, one) for one in same):
                    return True
    return False


def _is_after(high: Wrote, low: Wrote) -> bool:
    if high.sequence is None or low.sequence is None or not _are_of_one_session(high, low):
        return False
    return 0 < (high.sequence - low.sequence) % SEQUENCES < SEQUENCES // 2


def _is_attempt_of(one: Wrote, other: Wrote) -> bool:
    return _are_of_one_session(one, other) and one.sequence == other.sequence


def _are_of_one_session(one: Wrote, other: Wrote) -> bool:
    mine = (one.producer_id, one.producer_epoch, one.place)
    return None not in mine and mine == (other.producer_id, other.producer_epoch, other.place)


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
    return any(_skips(lines, group, place) for group, place in pairs)


def _skips(lines: Lines, group: str, place: TopicPartition) -> bool:
    sent = [one for _, one in every(lines, SentOffsets) if (one.group, one.place) == (group, place)]
    members = {one.who if one.member is None else one.member for one in sent}
    polled = [read for _, read in reads(lines, place) if read.who in members]
    if not polled:
        return False
    reached = max(_in_force(lines, group, place, sent), default=NOT_TOLD)
    begun = min(read.asked for read in polled)
    begins = max(
        (
            read.log_start_offset
            for _, read in every(lines, Read)
            if read.place == place and not read.error
        ),
        default=0,
    )
    return any(
        max(begun, begins) <= record.offset < reached
        and not _is_replaced(lines, place, record.offset)
        and _is_skipped(lines, place, record.offset, sent, polled)
        for _, read in reads(lines, place)
        for record in read.records
    )


def _in_force(
    lines: Lines, group: str, place: TopicPartition, sent: list[SentOffsets]
) -> Iterable[int]:
    for one in sent:
        is_final = one.transaction is None or is_acknowledged(lines, one.transaction)
        if is_final and one.outcome is OK:
            yield one.position
    known = {one.position for one in sent}
    for _, read in every(lines, PositionsRead):
        for position in () if read.error else read.positions:
            is_ours = (read.group, position.place) == (group, place)
            if is_ours and position.offset in known:
                yield position.offset


def _is_skipped(
    lines: Lines, place: TopicPartition, offset: int, sent: list[SentOffsets], polled: list[Read]
) -> bool:
    got = [read for read in polled if offset in {record.offset for record in read.records}]
    if any(not _is_aborted(lines, read.transaction) for read in got):
        return False
    outputs = [
        (wrote, one.offset)
        for _, wrote in every(lines, Wrote)
        for one in wrote.of
        if one.place == place
    ]
    for wrote, named in outputs:
        if named == offset and _may_stand(lines, wrote):
            return False
    if not got:
        return True
    behind = [one for one in sent if one.position > offset and _may_stand(lines, one)]
    own = {one.transaction for one in sent} | {read.transaction for read in polled}
    return not behind or any(
        wrote.transaction is not None and wrote.transaction in own for wrote, _ in outputs
    )


def _may_stand(lines: Lines, one: Wrote | SentOffsets) -> bool:
    return one.outcome is not Outcome.FAILED and not _is_aborted(lines, one.transaction)


def _is_aborted(lines: Lines, label: str | None) -> bool:
    return label is not None and cannot_have_committed(lines, label)


def _is_replaced(lines: Lines, place: TopicPartition, offset: int) -> bool:
    """Whether a later record has the key of this one, so that the cleaner may take it."""
    shown = [
        record
        for _, read in every(lines, Read)
        if read.place == place and not read.error
        for record in read.records
        if record.key is not None
    ]
    return any(
        one.offset == offset and other.offset > offset and one.key == other.key
        for one in shown
        for other in shown
    )
