"""Coordinators that don't finish. A transaction stays decided and unmarked, or it stays Ongoing far
past its timeout, or a transactional id is answered CONCURRENT_TRANSACTIONS for ever.

A healthy coordinator writes the markers of a decision within moments. If a leader is gone, it
writes them as soon as it can. The transaction's timeout does not help, because only Ongoing
transactions time out (``TransactionCoordinator.abortTimedOutTransactions``). So the checker uses
that timeout as its measure: nothing was broken meanwhile (``Healed``), and a transaction or a
reader has waited for longer than a transaction may take.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.types import TopicPartition
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import (
    Added,
    Described,
    Ended,
    Healed,
    Initialised,
    Outcome,
    SentOffsets,
    Wrote,
)

DECIDED_STATES: Final = frozenset({"PrepareCommit", "PrepareAbort"})
BUSY_ERROR: Final = "CONCURRENT_TRANSACTIONS"

_GrantedRequest = Initialised | Added | Wrote | SentOffsets | Ended


ONGOING: Final = "Ongoing"
SCANS_GRACE_MS: Final = 60_000
"""Six scans for timed-out transactions: a healthy coordinator needs one
(``transaction.abort.timed.out.transaction.cleanup.interval.ms``).
"""
TIMEOUT_NEVER_MS: Final = 2**31 - 1
"""Such a transaction is never timed out (KIP-939)."""


class _StuckPeriod(msgspec.Struct):
    """A time in which the coordinator's entry makes no progress: Ongoing past its timeout, or
    prepared and not completed.
    """

    progress_key: tuple[object, ...]
    """Does not change as long as the transaction makes no progress. The first element is the
    trouble, the last the time since when it lasts (None if unknown).
    """
    index: int
    at_ms: int
    last_index: int = -1
    """Index of the last observation of the trouble."""
    waited_ms: int = 0
    grace_ms: int = 0
    """Time allowed in addition to the timeout."""

    @property
    def trouble(self) -> object:
        """The kind of trouble, the first element of ``progress_key``."""
        return self.progress_key[0]


def stuck_coordinators(history: History) -> tuple[Anomaly, ...]:
    """Ids that are stuck at the end of a history, each convicted once."""
    timeout_by_id = timeouts_of(history)
    anomaly_by_id: dict[str, Anomaly] = {}
    for transactional_id, period in (
        *_periods_in_decided_state(history).items(),
        *_periods_of_busy_answers(history).items(),
    ):
        timeout_ms = timeout_by_id.get(transactional_id)
        if transactional_id in anomaly_by_id or timeout_ms is None:
            continue
        if period.last_index == period.index or period.waited_ms <= timeout_ms + period.grace_ms:
            continue
        reason = (
            f"{transactional_id} has been {period.trouble} for {period.waited_ms} ms, longer than "
            f"its timeout of {timeout_ms}"
        )
        anomaly_by_id[transactional_id] = convict(
            Kind.STUCK_COORDINATOR, reason, period.index, period.last_index
        )
    return tuple(anomaly_by_id.values())


def stuck_partitions(history: History) -> set[TopicPartition]:
    """Partitions to which a stuck coordinator owes a marker, according to any of its answers
    meanwhile.
    """
    partitions: set[TopicPartition] = set()
    for anomaly in stuck_coordinators(history):
        first_index, last_index = anomaly.evidence[0], anomaly.evidence[-1]
        first_description = history[first_index]
        if not isinstance(first_description, Described):
            continue  # an answer to a producer
        for index, description in history.all_of(Described):
            if (
                first_index <= index <= last_index
                and description.transactional_id == first_description.transactional_id
            ):
                partitions.update(description.partitions)
    return partitions


def timeouts_of(history: History) -> dict[str, int]:
    """The longest observed timeout of each transactional id."""
    timeout_by_id: dict[str, int] = {}
    for observation in history:
        if isinstance(observation, Initialised | Described) and observation.timeout_ms is not None:
            timeout_by_id[observation.transactional_id] = max(
                observation.timeout_ms,
                timeout_by_id.get(observation.transactional_id, observation.timeout_ms),
            )
    return timeout_by_id


def _periods_in_decided_state(history: History) -> dict[str, _StuckPeriod]:
    """Ids with a decision but without all markers, while nothing was broken. Without a start time,
    two transactions of one epoch look alike. So a request that was granted to the producer
    meanwhile, or may have been, counts as the end of the first transaction.
    """
    periods: dict[str, _StuckPeriod] = {}
    for index, observation in enumerate(history):
        if isinstance(observation, _GrantedRequest) and observation.outcome is not Outcome.FAILED:
            owner = _id_of_answer(history, observation) or ""
            if owner in periods and periods[owner].progress_key[-1] is None:
                del periods[owner]
        if isinstance(observation, Healed):
            periods.clear()
        if not isinstance(observation, Described) or observation.error:
            continue
        is_overdue = _is_overdue(observation)
        if not is_overdue and observation.state not in DECIDED_STATES:
            periods.pop(observation.transactional_id, None)
            continue
        state_text = f"{ONGOING} past its timeout" if is_overdue else observation.state
        progress_key = (
            state_text,
            observation.producer_id,
            observation.producer_epoch,
            observation.start_ms,
        )
        _extend_period(
            periods,
            observation.transactional_id,
            progress_key,
            index=index,
            at_ms=observation.at_ms,
        )
        if is_overdue:
            periods[observation.transactional_id].grace_ms = SCANS_GRACE_MS
    return periods


def _is_overdue(description: Described) -> bool:
    """Whether the coordinator should have aborted the transaction by now."""
    timeout_ms, start_ms = description.timeout_ms, description.start_ms
    if description.state != ONGOING or timeout_ms is None or start_ms is None or start_ms < 0:
        return False
    return timeout_ms != TIMEOUT_NEVER_MS and description.at_ms - start_ms > timeout_ms


def _periods_of_busy_answers(history: History) -> dict[str, _StuckPeriod]:
    """Ids whose producers get only CONCURRENT_TRANSACTIONS, while nothing was broken."""
    periods: dict[str, _StuckPeriod] = {}
    for index, observation in enumerate(history):
        if isinstance(observation, Healed):
            periods.clear()
        elif (
            isinstance(observation, _GrantedRequest)
            and (owner := _id_of_answer(history, observation)) is not None
        ):
            if observation.error == BUSY_ERROR:
                _extend_period(
                    periods,
                    owner,
                    (f"answered {BUSY_ERROR}", -1),
                    index=index,
                    at_ms=observation.at_ms,
                )
            elif observation.outcome is not Outcome.FAILED:
                periods.pop(owner, None)  # it was done, or may have been
    return periods


def _extend_period(
    periods: dict[str, _StuckPeriod],
    transactional_id: str,
    progress_key: tuple[object, ...],
    *,
    index: int,
    at_ms: int,
) -> None:
    period = periods.get(transactional_id)
    if period is None or period.progress_key != progress_key:
        period = periods[transactional_id] = _StuckPeriod(progress_key, index, at_ms)
    period.last_index, period.waited_ms = index, at_ms - period.at_ms


def _id_of_answer(history: History, answer: _GrantedRequest) -> str | None:
    """The transactional id that an answer is about."""
    if isinstance(answer, Initialised):
        return answer.transactional_id
    transaction = history.transaction_of(answer)
    return None if transaction is None else transaction.transactional_id
