"""Checks the orders that Kafka promises: of one producer's records in a partition, and of the
records that a reader may see.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from txnsim.types import TopicPartition
from txnsim_lab.check._visibility import Visibility, visibility
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import UNKNOWN_OFFSET, Outcome, Read, Wrote

OUT_OF_ORDER_ERROR: Final = "OUT_OF_ORDER_SEQUENCE_NUMBER"
SEQUENCES: Final = 1 << 31
"""Number of sequences before they start again at 0 (DefaultRecordBatch.incrementSequence)."""

_Session = tuple[int, int, TopicPartition]
"""Producer id, epoch and partition: their records are numbered by sequences."""


def out_of_order(history: History) -> tuple[Anomaly, ...]:
    """An idempotent producer's records are out of order (KIP-98).

    Either the log has a record of a higher sequence before one of a lower sequence. Or the broker
    acknowledged the higher one and refuses the lower one with OUT_OF_ORDER_SEQUENCE_NUMBER, so the
    record can never follow. The second case needs a record whose every attempt was refused and that
    no reader has got: a late repetition of a record in the log gets the same error.
    """
    record_visibility = visibility(history)
    attempts_by_session: dict[_Session, list[tuple[int, int, Wrote]]] = defaultdict(list)
    for index, write in history.writes():
        if None not in (write.producer_id, write.producer_epoch, write.sequence):
            assert write.producer_id is not None
            assert write.producer_epoch is not None
            assert write.sequence is not None
            session = (write.producer_id, write.producer_epoch, write.place)
            attempts_by_session[session].append((write.sequence, index, write))
    anomalies = []
    for session in sorted(attempts_by_session):
        attempts = sorted(attempts_by_session[session], key=lambda attempt: attempt[:2])
        overtaking_attempts = _find_overtaking(attempts, record_visibility)
        if overtaking_attempts is not None:
            (_, lower_index, lower_attempt), (_, higher_index, higher_attempt) = overtaking_attempts
            reason = (
                f"producer {session[0]} epoch {session[1]} sent {lower_attempt.value!r} before "
                f"{higher_attempt.value!r} to {session[2]}, which came first"
            )
            anomalies.append(convict(Kind.OUT_OF_ORDER, reason, lower_index, higher_index))
    return tuple(anomalies)


_Attempt = tuple[int, int, Wrote]


def _find_overtaking(
    attempts: list[_Attempt], record_visibility: Visibility
) -> tuple[_Attempt, _Attempt] | None:
    """A record, and one with a higher sequence that overtook it."""
    accepted_attempts = [
        attempt_before for attempt_before in attempts if attempt_before[2].outcome is Outcome.OK
    ]
    for lower_attempt in attempts:
        higher_attempt = next(
            (
                attempt
                for attempt in accepted_attempts
                if _follows_sequence(attempt[0], lower_attempt[0])
                and _overtook(lower_attempt, attempt)
            ),
            None,
        )
        if higher_attempt is not None and (
            lower_attempt in accepted_attempts
            or _is_undeliverable(lower_attempt[0], attempts, record_visibility)
        ):
            return lower_attempt, higher_attempt
    return None


def _follows_sequence(sequence: int, earlier_sequence: int) -> bool:
    """Whether one sequence comes after another. Sequences start again at 0 after the largest one,
    so the order of two that are far apart is unknown.
    """
    return 0 < (sequence - earlier_sequence) % SEQUENCES < SEQUENCES // 2


def _overtook(lower_attempt: _Attempt, higher_attempt: _Attempt) -> bool:
    _, lower_index, refused_or_taken = lower_attempt
    _, higher_index, accepted_write = higher_attempt
    if refused_or_taken.outcome is Outcome.OK:
        return UNKNOWN_OFFSET < accepted_write.offset < refused_or_taken.offset
    return refused_or_taken.error == OUT_OF_ORDER_ERROR and higher_index < lower_index


def _is_undeliverable(
    sequence: int, attempts: list[_Attempt], record_visibility: Visibility
) -> bool:
    """Whether a record is not in the log: every attempt was refused, and no reader has got it."""
    same_sequence = [
        write for attempt_sequence, _, write in attempts if attempt_sequence == sequence
    ]
    return all(
        write.outcome is Outcome.FAILED
        and (write.place, write.value) not in record_visibility.sights
        for write in same_sequence
    )


_ReaderAtReplica = tuple[str, TopicPartition, int | None, int | None]
"""A reader, a partition, the leader epoch, and the follower if one has answered."""


def readers_went_back(history: History) -> tuple[Anomaly, ...]:
    """The last stable offset that a reader got is lower than an earlier one of the same leader:
    data that it could see then is undecided now.

    Replicas differ: the high watermark of a new leader may be behind that of the old (KIP-101), and
    that of a follower behind its leader's (KIP-392). So only answers of one replica in one leader
    epoch are compared.
    """
    furthest_read_of: dict[_ReaderAtReplica, tuple[int, Read]] = {}
    anomalies: dict[_ReaderAtReplica, Anomaly] = {}
    for index, read in history.committed_reads():
        if read.last_stable_offset == UNKNOWN_OFFSET:
            continue
        reader_and_partition = (read.who, read.place, read.leader_epoch, read.follower)
        furthest_read = furthest_read_of.get(reader_and_partition)
        if furthest_read is None or read.last_stable_offset >= furthest_read[1].last_stable_offset:
            furthest_read_of[reader_and_partition] = (index, read)
        elif reader_and_partition not in anomalies:
            reason = (
                f"{read.who} could read up to {furthest_read[1].last_stable_offset} on"
                f" {read.place}, and "
                f"then only up to {read.last_stable_offset}"
            )
            anomalies[reader_and_partition] = convict(
                Kind.READER_WENT_BACK, reason, furthest_read[0], index
            )
    return tuple(anomalies.values())
