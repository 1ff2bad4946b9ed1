"""The definitions of docs/checkers.md, "What goes on": readers, the log, the coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.lab.checkers.brute_force.facts import (
    BUSY,
    FAILED,
    NOT_TOLD,
    Answer,
    Observations,
    deleted_topics,
    every,
    owner,
    reads,
)
from txnsim.types import TopicPartition
from txnsim_lab.check.observations import (
    Cleaned,
    Described,
    Healed,
    Initialised,
    Listed,
    Producers,
    Read,
    Seen,
)

MINUTE_MS = 60_000
NEVER_MS = 2_147_483_647

# Readers


def reader_went_back(observations: Observations) -> bool:
    told_reads = [
        (told_read_index, read)
        for told_read_index, read in reads(observations)
        if read.last_stable_offset != NOT_TOLD
    ]
    return any(
        (read.who, read.place, read.leader_epoch, read.follower)
        == (other_read.who, other_read.place, other_read.leader_epoch, other_read.follower)
        and index < other_at
        and other_read.last_stable_offset < read.last_stable_offset
        for index, read in told_reads
        for other_at, other_read in told_reads
    )


def starving_reader(observations: Observations) -> bool:
    explained_partitions = explained_partitions_of(observations)
    for reader, topic_partition in {(read.who, read.place) for _, read in reads(observations)}:
        if topic_partition in explained_partitions or topic_partition.topic in deleted_topics(
            observations
        ):
            continue
        looks = [read for _, read in reads(observations, topic_partition) if read.who == reader]
        waits = [
            looks[look_number:]
            for look_number in range(len(looks))
            if all(_is_nothing(read, looks[look_number].asked) for read in looks[look_number:])
        ]
        told_waits = [
            [read for read in wait if read.last_stable_offset != NOT_TOLD] for wait in waits
        ]
        if any(_starves(wait, patience_ms(observations)) for wait in told_waits):
            return True
    return False


def patience_ms(observations: Observations) -> int:
    """How long a transaction may keep readers waiting."""
    timeouts_ms = (timeout_ms for _, timeout_ms in _timeouts(observations))
    return 5 * MINUTE_MS + max((15 * MINUTE_MS, *timeouts_ms))


def explained_partitions_of(observations: Observations) -> set[TopicPartition]:
    """The partitions for which the history explains why readers wait."""
    return {
        hanging_transaction.place for hanging_transaction in hanging(observations)
    } | _owed_by_stuck_coordinators(observations)


def _is_nothing(read: Read, asked_offset: int) -> bool:
    return not read.records and read.next_offset == read.asked == asked_offset


def _starves(wait: list[Read], patience_ms: int) -> bool:
    if len(wait) < 2:
        return False
    if all(read.last_stable_offset > read.asked for read in wait[-2:]):
        return True
    return (
        all(
            read.last_stable_offset == wait[0].last_stable_offset < read.high_watermark
            for read in wait
        )
        and wait[-1].at_ms - wait[0].at_ms > patience_ms
    )


def _timeouts(observations: Observations) -> list[tuple[str, int]]:
    return [
        (observation.transactional_id, observation.timeout_ms)
        for observation in observations
        if isinstance(observation, Initialised | Described) and observation.timeout_ms is not None
    ]


# Transactions that hang


class Hanging(NamedTuple):
    place: TopicPartition
    producer_id: int
    start_offset: int
    last_seen: int
    """The number of the last line that shows it."""


def stuck_last_stable_offset(observations: Observations) -> bool:
    return bool(hanging(observations))


def hanging(observations: Observations) -> list[Hanging]:
    hanging_found = []
    for topic_partition in {producers.place for _, producers in every(observations, Producers)}:
        looks = [
            (look_index, producers)
            for look_index, producers in every(observations, Producers)
            if producers.place == topic_partition and not producers.error
        ]
        held_reads = [
            (held_read_index, read)
            for held_read_index, read in reads(observations, topic_partition)
            if read.last_stable_offset != NOT_TOLD
        ]
        if not looks or not held_reads or topic_partition.topic in deleted_topics(observations):
            continue
        (look_at, producers), (held_at_ms, read) = looks[-1], held_reads[-1]
        for producer in producers.producers:
            start = producer.start_offset
            if start is None or not start <= read.last_stable_offset < read.high_watermark:
                continue
            last_shown = _last_open_answer(
                observations, topic_partition, producer.producer_id, start
            )
            if last_shown is not None:
                last_seen = max(last_shown, look_at, held_at_ms)
                hanging_found.append(
                    Hanging(topic_partition, producer.producer_id, start, last_seen)
                )
    return hanging_found


def _last_open_answer(
    observations: Observations, topic_partition: TopicPartition, producer_id: int, start: int
) -> int | None:
    """Open, without an owner, open again: the number of the last answer that says so."""
    open_looks = [
        index
        for index, observation in enumerate(observations)
        if _is_open(observation, topic_partition, producer_id, start)
    ]
    coordinator_answers = [
        (index, has_it)
        for index, observation in enumerate(observations)
        if (has_it := _coordinator_has_it(observations, observation, topic_partition, producer_id))
        is not None
    ]
    last_owned_index = max((index for index, has in coordinator_answers if has), default=-1)
    thirds = [
        third_index
        for first_look_index in open_looks
        for index, has in coordinator_answers
        for third_index in open_looks
        if first_look_index < index < third_index and not has and index > last_owned_index
    ]
    return max(thirds, default=None)


def _is_open(
    observation: Seen, topic_partition: TopicPartition, producer_id: int, start: int
) -> bool:
    if isinstance(observation, Producers):
        return observation.place == topic_partition and any(
            (producer.producer_id, producer.start_offset) == (producer_id, start)
            for producer in observation.producers
            if not observation.error
        )
    if isinstance(observation, Read):
        is_there = observation.place == topic_partition and not observation.error
        return is_there and observation.last_stable_offset == start < observation.high_watermark
    return False


def _coordinator_has_it(
    observations: Observations, observation: Seen, topic_partition: TopicPartition, producer_id: int
) -> bool | None:
    open_states = {"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"}
    if isinstance(observation, Described):
        if not observation.error and observation.producer_id == producer_id:
            return observation.state in open_states and topic_partition in observation.partitions
        had_it = {
            observation.transactional_id
            for observation in observations
            if isinstance(observation, Initialised | Described)
            and observation.producer_id == producer_id
        }
        is_known = observation.error in ("", "TRANSACTIONAL_ID_NOT_FOUND")
        return False if is_known and had_it == {observation.transactional_id} else None
    if isinstance(observation, Listed):
        states = {
            transaction.state
            for transaction in observation.transactions
            if transaction.producer_id == producer_id
        }
        return None if states & open_states else False
    return None


def uncleanable_log(observations: Observations) -> bool:
    for hanging_transaction in hanging(observations):
        turns = [
            turn_index
            for turn_index, observed_cleaning in every(observations, Cleaned)
            if observed_cleaning.place == hanging_transaction.place
        ]
        shown_reads = [
            (shown_read_index, read)
            for shown_read_index, read in every(observations, Read)
            if read.place == hanging_transaction.place and not read.error
        ]
        if not turns:
            continue
        end = max(
            (read.high_watermark for index, read in shown_reads if index < turns[-1]), default=0
        )
        remaining_records = [
            record
            for remaining_record_index, read in shown_reads
            for record in read.records
            if remaining_record_index > turns[-1] and record.key is not None
            if hanging_transaction.start_offset <= record.offset < end
        ]
        if any(
            record.key == other_record.key and record.offset != other_record.offset
            for record in remaining_records
            for other_record in remaining_records
        ):
            return True
    return False


# Coordinators that come to no end


def stuck_coordinator(observations: Observations) -> bool:
    ids = {transactional_id for transactional_id, _ in _timeouts(observations)}
    return any(
        _stuck_looks(observations, transactional_id)
        or _is_always_busy(observations, transactional_id)
        for transactional_id in ids
    )


def _owed_by_stuck_coordinators(observations: Observations) -> set[TopicPartition]:
    return {
        topic_partition
        for transactional_id, _ in _timeouts(observations)
        for description in _stuck_looks(observations, transactional_id)
        for topic_partition in description.partitions
    }


def _timeout_ms(observations: Observations, transactional_id: str) -> int:
    return max(ms for listed_id, ms in _timeouts(observations) if listed_id == transactional_id)


def _stuck_looks(observations: Observations, transactional_id: str) -> list[Described]:
    """The observations that show an id stuck at the end of the history, if it is stuck."""
    looks = [
        (look_index, description)
        for look_index, description in every(observations, Described)
        if description.transactional_id == transactional_id and not description.error
    ]
    for look_number, (index, first_description) in enumerate(looks):
        later_looks = [description for _, description in looks[look_number:]]
        stuck_transaction = _trouble(first_description)
        if stuck_transaction is None or any(
            _trouble(description) != stuck_transaction for description in later_looks
        ):
            continue
        if any(isinstance(observation, Healed) for observation in observations[index + 1 :]):
            continue
        if first_description.start_ms is None and any(
            observation.outcome is not FAILED
            for observation in _answers_to_id(observations, transactional_id, since=index)
        ):
            continue
        patience_ms = _timeout_ms(observations, transactional_id)
        if first_description.state == "Ongoing":
            patience_ms += MINUTE_MS
        if len(later_looks) > 1 and later_looks[-1].at_ms - first_description.at_ms > patience_ms:
            return later_looks
    return []


def _trouble(description: Described) -> tuple[object, ...] | None:
    """What an id is in, and the same in every answer about one transaction; None if in none."""
    stuck_transaction = (
        description.state,
        description.producer_id,
        description.producer_epoch,
        description.start_ms,
    )
    if description.state in ("PrepareCommit", "PrepareAbort"):
        return stuck_transaction
    if description.state == "Ongoing" and description.timeout_ms not in (None, NEVER_MS):
        assert description.timeout_ms is not None
        if description.start_ms is not None and description.start_ms >= 0:
            return (
                stuck_transaction
                if description.at_ms > description.start_ms + description.timeout_ms
                else None
            )
    return None


def _answers_to_id(
    observations: Observations, transactional_id: str, *, since: int
) -> Iterable[Initialised | Answer]:
    """The answers that the producers of an id got after a line."""
    for line in observations[since + 1 :]:
        if isinstance(line, Initialised):
            is_own = line.transactional_id == transactional_id
        else:
            is_own = (
                isinstance(line, Answer)
                and owner(observations, line.transaction) == transactional_id
            )
        if is_own and isinstance(line, Initialised | Answer):
            yield line


def _is_always_busy(observations: Observations, transactional_id: str) -> bool:
    answers = list(_answers_to_id(observations, transactional_id, since=-1))
    for first_answer in answers:
        index = next(number for number, line in enumerate(observations) if line is first_answer)
        later_answers = list(_answers_to_id(observations, transactional_id, since=index))
        if first_answer.error != BUSY or any(
            isinstance(line, Healed) for line in observations[index + 1 :]
        ):
            continue
        if any(answer.error != BUSY and answer.outcome is not FAILED for answer in later_answers):
            continue
        busy_times = [answer.at_ms for answer in later_answers if answer.error == BUSY]
        if busy_times and max(busy_times) - first_answer.at_ms > _timeout_ms(
            observations, transactional_id
        ):
            return True
    return False
