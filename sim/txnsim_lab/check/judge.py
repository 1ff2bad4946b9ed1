"""The verdict on a history: the anomalies that all checkers found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from txnsim.types import TopicPartition
from txnsim_lab.check._cleaning import uncleanable_logs
from txnsim_lab.check._coordinators import stuck_coordinators
from txnsim_lab.check._dependencies import (
    circular_information_flow,
    dirty_writes,
    lost_updates,
    read_skews,
)
from txnsim_lab.check._dirty_reads import aborted_reads, intermediate_reads
from txnsim_lab.check._duplicates import duplicates
from txnsim_lab.check._fencing import false_fencing
from txnsim_lab.check._losses import losses
from txnsim_lab.check._ordering import out_of_order, readers_went_back
from txnsim_lab.check._positions import positions_before_decision
from txnsim_lab.check._refusals import refused_producers
from txnsim_lab.check._share_groups import (
    aborted_deliveries,
    beyond_delivery_limit,
    delivered_after_acknowledgement,
    never_delivered,
    starving_groups,
    two_owners,
)
from txnsim_lab.check._skipped import skipped_input
from txnsim_lab.check._starvation import starving_readers, stuck_last_stable_offsets
from txnsim_lab.check._topics import own_name, with_distinct_topics
from txnsim_lab.check.anomaly import Anomaly, Kind
from txnsim_lab.check.history import History, HistoryError
from txnsim_lab.check.observations import UNKNOWN_OFFSET, Outcome, Wrote

Checker = Callable[[History], tuple[Anomaly, ...]]

CHECKERS: Final[tuple[Checker, ...]] = (
    dirty_writes,
    aborted_reads,
    intermediate_reads,
    circular_information_flow,
    lost_updates,
    read_skews,
    losses,
    duplicates,
    out_of_order,
    positions_before_decision,
    skipped_input,
    aborted_deliveries,
    beyond_delivery_limit,
    delivered_after_acknowledgement,
    two_owners,
    never_delivered,
    starving_groups,
    readers_went_back,
    starving_readers,
    stuck_last_stable_offsets,
    stuck_coordinators,
    false_fencing,
    refused_producers,
    uncleanable_logs,
)
HEALTHY: Final = "healthy"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of judging a history."""

    kinds: tuple[Kind, ...]
    """Kinds of anomalies, sorted and without duplicates; empty for a healthy history."""
    anomalies: tuple[Anomaly, ...]

    @property
    def healthy(self) -> bool:
        return not self.kinds

    def __str__(self) -> str:
        return ", ".join(self.kinds) or HEALTHY


def judge(history: History) -> Verdict:
    """Run every checker.

    A permanent error (a wrong record was read, a record is lost) stays in the verdict. Some errors
    can be repaired: a blocked reader, a stuck coordinator. They are judged by the state at the end.
    A history that goes on after the repair is healthy.

    Raises:
        HistoryError: A value names two records of a partition.
    """
    distinct_history = with_distinct_topics(history)
    _refuse_shared_values(distinct_history)
    anomalies = tuple(anomaly for checker in CHECKERS for anomaly in checker(distinct_history))
    anomaly_kinds = sorted({anomaly.kind for anomaly in anomalies})
    return Verdict(kinds=tuple(anomaly_kinds), anomalies=anomalies)


def _refuse_shared_values(history: History) -> None:
    """Raise HistoryError if two different records have the same value. Attempts to write one record
    belong to one transaction, and are acknowledged at one offset.
    """
    first_write_by_value: dict[tuple[TopicPartition, str], tuple[int, Wrote]] = {}
    for index, write in history.writes():
        if write.value is None or write.outcome is Outcome.FAILED:
            continue
        partition_and_value = (write.place, write.value)
        first_index, first_write = first_write_by_value.get(partition_and_value, (index, write))
        if first_write.transaction != write.transaction or _are_elsewhere(first_write, write):
            raise HistoryError(
                f"observations {first_index + 1} and {index + 1}: the value {write.value!r}"
                " names two "
                f"records of {own_name(write.place)}; each record needs a value of its own, and "
                "item says that two are the same work"
            )
        if partition_and_value not in first_write_by_value or first_write.offset == UNKNOWN_OFFSET:
            first_write_by_value[partition_and_value] = (index, write)


def _are_elsewhere(write: Wrote, other_write: Wrote) -> bool:
    """Whether both writes were acknowledged, at different offsets."""
    return (
        UNKNOWN_OFFSET not in (write.offset, other_write.offset)
        and write.offset != other_write.offset
    )
