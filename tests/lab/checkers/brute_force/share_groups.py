"""What a share group owes, as docs/checkers.md defines it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.lab.checkers.brute_force import promises, what_goes_on
from tests.lab.checkers.brute_force.facts import (
    OK,
    UNKNOWN,
    Observations,
    cannot_have_committed,
    deleted_topics,
    ends,
    every,
    is_acknowledged,
    writers,
)
from txnsim_lab.check.observations import (
    AcquiredRecord,
    Isolation,
    Read,
    ShareAcknowledged,
    ShareFetched,
    ShareLeft,
    ShareStart,
    Wrote,
)

GivenRecord = tuple[int, ShareFetched, AcquiredRecord]


def _given_records(observations: Observations) -> list[GivenRecord]:
    return [
        (index, fetch, record)
        for index, fetch in every(observations, ShareFetched)
        for record in fetch.records
    ]


def _is_of(observation: ShareFetched | ShareAcknowledged | ShareStart, fetch: ShareFetched) -> bool:
    """Whether both are of one group and partition."""
    return (observation.group, observation.place) == (fetch.group, fetch.place)


def _is_set(
    observations: Observations, fetch: ShareFetched, first_index: int, last_index: int
) -> bool:
    return any(
        start.is_set and _is_of(start, fetch) and first_index < index < last_index
        for index, start in every(observations, ShareStart)
    )


def _is_after(
    later_fetch: ShareFetched, earlier_observation: ShareFetched | ShareAcknowledged
) -> bool:
    if later_fetch.who == earlier_observation.who:
        return True
    return later_fetch.asked_ms is not None and later_fetch.asked_ms > earlier_observation.at_ms


def aborted_delivery(observations: Observations) -> bool:
    """Whether a read_committed group got a record that can't have been committed."""
    for _, fetch, record in _given_records(observations):
        write = writers(observations, fetch.place, record.value)
        if (
            fetch.isolation is Isolation.READ_COMMITTED
            and write
            and all(
                write.transaction and cannot_have_committed(observations, write.transaction)
                for write in write
            )
        ):
            return True
    return False


def beyond_delivery_limit(observations: Observations) -> bool:
    """Whether a record was delivered more often than the broker's limit allows."""
    return any(
        record.delivery_count > fetch.delivery_limit
        for _, fetch, record in _given_records(observations)
        if fetch.delivery_limit is not None
    )


def delivered_after_acknowledgement(observations: Observations) -> bool:
    """Whether a record was delivered after it was accepted or rejected."""
    return any(
        final_acknowledgement.outcome is OK
        and final_acknowledgement.type in ("accept", "reject")
        and final_acknowledgement.first <= record.offset <= final_acknowledgement.last
        and _is_of(final_acknowledgement, fetch)
        and first_index < last_index
        and _is_after(fetch, final_acknowledgement)
        and not _is_set(observations, fetch, first_index, last_index)
        for first_index, final_acknowledgement in every(observations, ShareAcknowledged)
        for last_index, fetch, record in _given_records(observations)
    )


def two_owners(observations: Observations) -> bool:
    """Whether a leader gave a record to a second member while the first member held its lock."""
    return any(
        first_given[0] < second_given[0]
        and _is_of(first_given[1], second_given[1])
        and first_given[2].offset == second_given[2].offset
        and _has_it_still(observations, first_given, second_given)
        for first_given in _given_records(observations)
        for second_given in _given_records(observations)
    )


def _has_it_still(
    observations: Observations, first_given: GivenRecord, second_given: GivenRecord
) -> bool:
    first_index, fetch, record = first_given
    last_index, other_fetch, _ = second_given
    if fetch.who == other_fetch.who or fetch.leader_epoch != other_fetch.leader_epoch:
        return False
    if (
        fetch.asked_ms is None
        or fetch.lock_ms is None
        or other_fetch.at_ms >= fetch.asked_ms + fetch.lock_ms
    ):
        return False
    for number, observation in enumerate(observations):
        if number <= first_index or observation.who != fetch.who:
            continue
        if observation.asked_ms is not None and observation.asked_ms > other_fetch.at_ms:
            continue
        if isinstance(observation, ShareLeft) and observation.group == fetch.group:
            return False
        if not isinstance(observation, ShareAcknowledged) or not _is_of(observation, fetch):
            continue
        if observation.first <= record.offset <= observation.last:
            return False
    return _is_after(other_fetch, fetch) and not _is_set(
        observations, fetch, first_index, last_index
    )


def never_delivered(observations: Observations) -> bool:
    """The first start offset behind a committed record was read after the commit; the group had
    been before it, and nobody got it.
    """
    for group in _of_groups(observations):
        starts = [
            (start_index, start)
            for start_index, start in every(observations, ShareStart)
            if _is_of(start, group)
        ]
        for known_at_ms, observed_write in _demanded_records(observations, group):
            passing_indexes = [
                index for index, start in starts if start.start_offset > observed_write.offset
            ]
            if (
                passing_indexes
                and passing_indexes[0] > known_at_ms
                and _was_before(observations, group, observed_write, passing_indexes[0])
            ):
                return True
    return False


def starving_group(observations: Observations) -> bool:
    """Whether a group's last answers are empty for too long while a committed record waits."""
    for group in _of_groups(observations):
        fetches = [
            (fetch_index, fetch)
            for fetch_index, fetch in every(observations, ShareFetched)
            if _is_of(fetch, group)
        ]
        while fetches and any(fetch.records or fetch.error for _, fetch in fetches):
            fetches.pop(0)
        if not fetches or group.place.topic in deleted_topics(observations):
            continue
        (first_index, fetch_since), (_, last_fetch) = fetches[0], fetches[-1]
        if group.place in what_goes_on.explained_partitions_of(observations):
            continue
        if last_fetch.at_ms - fetch_since.at_ms > what_goes_on.patience_ms(observations) and any(
            known_at_ms < first_index
            and _was_before(observations, group, observed_write, first_index)
            for known_at_ms, observed_write in _demanded_records(observations, group)
        ):
            return True
    return False


def _of_groups(observations: Observations) -> list[ShareFetched]:
    """An answer of each group and partition, if all answers came and no start offset was set."""
    fetches = every(observations, ShareFetched)
    return [
        group
        for _, group in fetches
        if not any(_is_of(fetch, group) and fetch.outcome is UNKNOWN for _, fetch in fetches)
        and not _is_set(observations, group, -1, len(observations))
    ]


def _demanded_records(
    observations: Observations, group: ShareFetched
) -> Iterator[tuple[int, Wrote]]:
    """Committed records that a group did not get, with the line that shows the commit."""
    starts = [
        read.log_start_offset
        for _, read in every(observations, Read)
        if not read.error and read.place == group.place
    ]
    given_offsets = {
        record.offset for _, fetch, record in _given_records(observations) if _is_of(fetch, group)
    }
    for index, observed_write in every(observations, Wrote):
        if (
            observed_write.place != group.place
            or observed_write.outcome is not OK
            or observed_write.offset in given_offsets
        ):
            continue
        if promises.is_passed(observations, observed_write):
            continue
        if (
            observed_write.value is None
            or observed_write.key is not None
            or observed_write.offset < max([0, *starts])
        ):
            continue
        if observed_write.transaction is None or is_acknowledged(
            observations, observed_write.transaction
        ):
            yield (
                max([index, *(end for end, _ in ends(observations, observed_write.transaction))]),
                observed_write,
            )


def _was_before(
    observations: Observations, group: ShareFetched, observed_write: Wrote, until: int
) -> bool:
    """Whether the group was known to be at or before a record."""
    return any(
        index < until and 0 <= start.start_offset <= observed_write.offset and _is_of(start, group)
        for index, start in every(observations, ShareStart)
    ) or any(
        index < until and record.offset <= observed_write.offset and _is_of(fetch, group)
        for index, fetch, record in _given_records(observations)
    )
