"""Pairs decisions with markers while both are being read, and keeps only what is undecided. Pure.

The logs are read side by side, in order of time (``client.inspection.decisions``). What is judged
is let go, so memory goes with what is in doubt and with what is read at once, not with the age of
the logs. The verdicts are those of ``decision_audit``:

- Transactions v2: an epoch has one decision. It is judged once its marker is there and its
  coordinator has completed the transaction. Without a marker it is kept to the end.
- Old flow: an epoch has many. What was read so far is cut where a decision plainly has its marker
  and either a pause follows, longer than any difference of clocks, or ``NEIGHBOURS`` others on
  either side are as plain.
- Markers without a decision are judged once every coordinator has been read beyond their time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Final, NamedTuple

import msgspec

from txnsim.txn.decision_audit import (
    AuditedDecision,
    AuditedMarker,
    AuditVerdict,
    LogReach,
    audit_epoch,
)
from txnsim.txn.marker_payment import AFTER_ALL_MARKERS_MS, SKEW_MS
from txnsim.types import TopicPartition

NEIGHBOURS: Final = 50
"""How many plain windows on either side keep a cut away from what is in doubt."""
PAUSE_MS: Final = 10 * SKEW_MS
"""A pause that no difference of clocks bridges."""


class EpochPlace(NamedTuple):
    """A producer's epoch on a partition."""

    producer_id: int
    producer_epoch: int
    partition: TopicPartition


class JudgedPlace(NamedTuple):
    """A verdict, with the partition and producer epoch that it is about."""

    place: EpochPlace
    verdict: AuditVerdict


ReachOf = Callable[[EpochPlace], tuple[LogReach, LogReach]]
"""Place -> the reach of the partition's log, and of its coordinator's."""


class _UnjudgedEpoch(msgspec.Struct):
    """What is undecided about an epoch on a partition, in the order of the logs."""

    decisions: list[AuditedDecision] = msgspec.field(default_factory=list)
    markers: list[AuditedMarker] = msgspec.field(default_factory=list)

    @property
    def is_v2(self) -> bool:
        return len(self.decisions) == 1 and self.decisions[0].by_epoch


class DecisionLedger:
    """Decisions and markers that are not judged yet.

    Args:
        reach_of: The reach of the logs, as far as they were read.
    """

    def __init__(self, reach_of: ReachOf) -> None:
        self._reach_of = reach_of
        self._places: defaultdict[EpochPlace, _UnjudgedEpoch] = defaultdict(_UnjudgedEpoch)
        self.kept_count = 0
        """How many decisions and markers are kept."""

    def add_decision(self, epoch_place: EpochPlace, decision: AuditedDecision) -> None:
        """Take a decision. Those of one place come in the order of the coordinator's log, each once
        its transaction is complete; others at the end.
        """
        self._places[epoch_place].decisions.append(decision)
        self.kept_count += 1

    def add_marker(self, epoch_place: EpochPlace, marker: AuditedMarker) -> None:
        """Take a marker. Those of one place come in the order of the partition's log."""
        self._places[epoch_place].markers.append(marker)
        self.kept_count += 1

    def unmarked_epochs(self) -> Mapping[tuple[int, TopicPartition], Set[int]]:
        """(producer id, partition) -> its epochs with a decision that lacks its marker."""
        epochs_by_producer_and_partition: defaultdict[tuple[int, TopicPartition], set[int]] = (
            defaultdict(set)
        )
        for epoch_place, unjudged_epoch in self._places.items():
            if unjudged_epoch.decisions and not unjudged_epoch.markers:
                epochs_by_producer_and_partition[
                    epoch_place.producer_id, epoch_place.partition
                ].add(epoch_place.producer_epoch)
        return epochs_by_producer_and_partition

    def settle(self, before_ms: int, held_ids: Set[int]) -> Iterator[JudgedPlace]:
        """Judge what later reading can't change, and let it go.

        Args:
            before_ms: Every decision and marker before this time has been read.
            held_ids: Producer ids with a decision that is not complete yet.
        """
        for epoch_place, unjudged_epoch in [*self._places.items()]:
            if unjudged_epoch.is_v2:
                (decision,) = unjudged_epoch.decisions
                if unjudged_epoch.markers and _is_over(decision, before_ms):
                    yield from self._judge_epoch(
                        epoch_place, unjudged_epoch, 1, len(unjudged_epoch.markers)
                    )
            elif unjudged_epoch.decisions:
                decision_count, marker_count = _settled_counts(unjudged_epoch, before_ms)
                if decision_count:
                    yield from self._judge_epoch(
                        epoch_place, unjudged_epoch, decision_count, marker_count
                    )
            elif (
                epoch_place.producer_id not in held_ids
                and unjudged_epoch.markers[-1].at_ms < before_ms - PAUSE_MS
            ):
                yield from self._judge_epoch(
                    epoch_place, unjudged_epoch, 0, len(unjudged_epoch.markers)
                )

    def finish(self) -> Iterator[JudgedPlace]:
        """Judge the decisions and markers that are not judged yet."""
        for epoch_place, unjudged_epoch in sorted(self._places.items(), key=lambda item: item[0]):
            decision_count, marker_count = (
                len(unjudged_epoch.decisions),
                len(unjudged_epoch.markers),
            )
            yield from self._judge_epoch(epoch_place, unjudged_epoch, decision_count, marker_count)

    def _judge_epoch(
        self,
        epoch_place: EpochPlace,
        unjudged_epoch: _UnjudgedEpoch,
        decision_count: int,
        marker_count: int,
    ) -> Iterator[JudgedPlace]:
        """Judge the first decisions and markers of a place, and forget them."""
        partition_reach, coordinator_reach = self._reach_of(epoch_place)
        decisions = unjudged_epoch.decisions[:decision_count]
        markers = unjudged_epoch.markers[:marker_count]
        del unjudged_epoch.decisions[:decision_count], unjudged_epoch.markers[:marker_count]
        self.kept_count -= decision_count + marker_count
        if not unjudged_epoch.decisions and not unjudged_epoch.markers:
            del self._places[epoch_place]
        for verdict in audit_epoch(
            decisions,
            markers,
            partition_reach=partition_reach,
            coordinator_reach=coordinator_reach,
        ):
            yield JudgedPlace(epoch_place, verdict)


def _is_over(decision: AuditedDecision, before_ms: int) -> bool:
    """Whether even a repeated marker of a decision would have been read."""
    return decision.completed_ms is not None and decision.completed_ms + PAUSE_MS < before_ms


def _settled_counts(unjudged_epoch: _UnjudgedEpoch, before_ms: int) -> tuple[int, int]:
    """How many decisions, and how many markers, can be judged without the rest."""
    decisions, markers = unjudged_epoch.decisions, unjudged_epoch.markers
    settled_counts = (0, 0)
    plain_in_a_row, marker_index = 0, 0
    for index, decision in enumerate(decisions):
        if not _is_over(decision, before_ms):
            break
        is_last = index + 1 == len(decisions)
        end_ms = AFTER_ALL_MARKERS_MS if is_last else decisions[index + 1].at_ms
        first_index = marker_index
        while marker_index < len(markers) and markers[marker_index].at_ms < end_ms:
            marker_index += 1
        own_markers = markers[first_index:marker_index]
        if not _is_plain(decision, own_markers):
            plain_in_a_row = 0
            continue
        plain_in_a_row += 1
        quiet_until_ms = before_ms if is_last else end_ms
        if quiet_until_ms - own_markers[0].at_ms > PAUSE_MS:
            settled_counts = index + 1, marker_index
        elif plain_in_a_row >= 2 * NEIGHBOURS:  # each of them has one marker
            settled_counts = max(
                settled_counts, (index + 1 - NEIGHBOURS, marker_index - NEIGHBOURS)
            )
    return settled_counts


def _is_plain(decision: AuditedDecision, own_markers: Sequence[AuditedMarker]) -> bool:
    """Whether the markers up to the next decision are one, of the decided outcome."""
    return (
        len(own_markers) == 1
        and own_markers[0].is_commit == decision.is_commit
        and own_markers[0].at_ms >= decision.at_ms
    )
