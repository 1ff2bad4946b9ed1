"""Audits past decisions: did each partition of a transaction get the marker that its coordinator
had decided? Pure.

A coordinator writes down each decision (PrepareCommit, PrepareAbort) with the partitions that it
lists, and sends each of them one marker. A marker can be missing (KAFKA-20734), contradict its
decision, or come twice, without an error anywhere. So the two logs are compared:

- **By epoch.** Transactions v2 raise the producer epoch with each end, and the marker has the
  decision's epoch. One epoch has one decision, so clocks do not matter.
- **By order and time.** Before v2 an epoch has many transactions. Decisions and markers of an epoch
  are both in order, and a marker lies between its decision and the next one. Two brokers set the
  times, and their clocks may differ by ``SKEW_MS``. Of all ways to pair them, the one with the
  fewest findings counts, and of these the one that needs the least difference of the clocks: what
  clocks can explain is no alarm.

What the logs no longer have (retention, compaction) or do not have yet is ``UNKNOWN``, with its
reason. ``txn.marker_payment`` answers the related question about one open transaction. Kafka's
counterparts: TransactionMetadata.prepareAbortOrCommit, ProducerStateManager.completeTxn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from txnsim.txn.marker_payment import AFTER_ALL_MARKERS_MS, BEFORE_ALL_MARKERS_MS, SKEW_MS

CLOCK_TOLERANCE_MS: Final = 50
"""A difference of clocks up to this many milliseconds leaves no doubt about a pair."""
_BAND: Final = 48
"""How many findings in a row, beyond the difference of the lengths, are considered in pairing."""
_FINDING_COST: Final = 1 << 40
"""Cost of a finding in pairing: more than all differences of clocks together."""
_FORBIDDEN: Final = 1 << 62
_NEVER: Final = 1 << 80
"""Cost of a place that no way leads to."""
_PAIR, _MISSING, _EXTRA = range(3)
"""Steps of the cheapest way: a pair, a decision without a marker, a marker without a decision."""


class AuditState(StrEnum):
    """What became of a decision on a partition, or of a marker."""

    AGREES = "agrees"
    NO_MARKER = "no-marker"
    CONTRADICTS = "contradicts"
    TWICE = "twice"
    OWED = "owed"
    """Decided, and not completed yet: the coordinator will send the marker again."""
    UNKNOWN = "unknown"
    WITHOUT_DECISION = "marker-without-decision"
    RECORDS_BEHIND = "records-behind-marker"
    """Records behind the last marker are in no transaction that a coordinator would end."""
    EPOCH_BACK = "epoch-back"
    """Records have an older epoch than the producer had on the partition before."""


class AuditedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision about a transaction, as it concerns one partition."""

    coordinator: int
    """Partition of ``__transaction_state``."""
    offset: int
    """Offset of the record there."""
    at_ms: int
    """Time of the decision by the coordinator's clock."""
    is_commit: bool
    by_epoch: bool = False
    """Whether the epoch has this decision only (transactions v2)."""
    completed_ms: int | None = None
    """Time of the id's next record, by which all markers were acknowledged; None if there is none.
    """


class AuditedMarker(msgspec.Struct, frozen=True, kw_only=True):
    """A marker in a partition's log."""

    offset: int
    at_ms: int
    """Time of the marker by the clock of the partition's leader."""
    is_commit: bool
    coordinator_epoch: int = 0


class LogReach(msgspec.Struct, frozen=True, kw_only=True):
    """The time for which a log is known to be complete."""

    since_ms: int = BEFORE_ALL_MARKERS_MS
    """Nothing is missing since then."""
    reason: str = ""
    """Why earlier records are missing; empty if none are."""
    until_ms: int = AFTER_ALL_MARKERS_MS
    """Later records may not be in the copy."""

    @classmethod
    def absent(cls, reason: str) -> LogReach:
        """The reach of a log that is not there."""
        return cls(since_ms=AFTER_ALL_MARKERS_MS, reason=reason)


class AuditVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a decision with its markers, or on a marker without a decision."""

    state: AuditState
    decision: AuditedDecision | None = None
    markers: tuple[AuditedMarker, ...] = ()
    reason: str = ""
    """Why the state is unknown; else empty."""


def audit_epoch(
    decisions: Sequence[AuditedDecision],
    markers: Sequence[AuditedMarker],
    *,
    partition_reach: LogReach,
    coordinator_reach: LogReach,
) -> list[AuditVerdict]:
    """Pair the decisions and markers of one producer id and epoch on one partition, and judge.

    Args:
        decisions: The decisions that list the partition, in order of the coordinator's log.
        markers: The markers in the partition's log, in order.
        partition_reach: For which time the partition's log has all markers.
        coordinator_reach: For which time the coordinator's log has all decisions.

    Returns:
        A verdict for each decision, and for each marker that belongs to none.
    """
    if partition_reach.since_ms == AFTER_ALL_MARKERS_MS and not markers:
        return [
            AuditVerdict(state=AuditState.UNKNOWN, decision=decision, reason=partition_reach.reason)
            for decision in decisions
        ]
    judge = _EpochJudge(partition_reach, coordinator_reach)
    if len(decisions) == 1 and decisions[0].by_epoch:
        return list(judge.verdicts_by_epoch(decisions[0], markers))
    pairing = _Pairing(decisions, markers, partition_reach, coordinator_reach)
    return list(judge.verdicts_of(pairing, pairing.best()))


def with_final_reach(
    verdict: AuditVerdict, *, partition_reach: LogReach, coordinator_reach: LogReach
) -> AuditVerdict:
    """A verdict on something missing, given while logs were being read, by what is known of their
    reach at the end: a gap that was found later makes it unknown.
    """
    judge = _EpochJudge(partition_reach, coordinator_reach)
    match verdict.state:
        case AuditState.NO_MARKER:
            assert verdict.decision is not None
            return judge.verdict_on_unmarked(verdict.decision)
        case AuditState.WITHOUT_DECISION:
            return judge.verdict_on_lone(verdict.markers[0])
        case _:
            return verdict


class _EpochJudge:
    """Judges decisions and markers of one producer epoch on one partition."""

    def __init__(self, partition_reach: LogReach, coordinator_reach: LogReach) -> None:
        self._partition_reach = partition_reach
        self._coordinator_reach = coordinator_reach

    def verdicts_by_epoch(
        self, decision: AuditedDecision, markers: Sequence[AuditedMarker]
    ) -> Iterator[AuditVerdict]:
        """The verdicts on the only decision of an epoch, and on markers that came too late."""
        own_markers = tuple(
            marker for marker in markers if is_repetition(decision, markers[0], marker)
        )
        yield self.verdict_on(decision, own_markers, 0)
        for marker in markers:
            if marker not in own_markers:
                yield self.verdict_on_lone(marker)

    def verdicts_of(
        self, pairing: _Pairing, index_pairs: Sequence[tuple[int | None, int | None]]
    ) -> Iterator[AuditVerdict]:
        markers_of_decision: dict[int, list[int]] = {}
        lone_marker_indexes: list[int] = []
        for decision_index, marker_index in index_pairs:
            if decision_index is not None:
                markers_of_decision[decision_index] = [] if marker_index is None else [marker_index]
        for decision_index, marker_index in index_pairs:
            if decision_index is None and marker_index is not None:
                owner_index = pairing.owner_of_repetition(marker_index, markers_of_decision)
                if owner_index is None:
                    lone_marker_indexes.append(marker_index)
                else:
                    markers_of_decision[owner_index].append(marker_index)
        tolerance_ms = 0 if pairing.needs_unlikely_clocks(index_pairs) else CLOCK_TOLERANCE_MS
        for decision_index, marker_indexes in markers_of_decision.items():
            clock_ms = max(
                (pairing.clock_ms(decision_index, index) for index in marker_indexes), default=0
            )
            yield self.verdict_on(
                pairing.decisions[decision_index],
                tuple(pairing.markers[index] for index in sorted(marker_indexes)),
                clock_ms if clock_ms > tolerance_ms else 0,
            )
        for marker_index in lone_marker_indexes:
            yield self.verdict_on_lone(pairing.markers[marker_index])

    def verdict_on(
        self, decision: AuditedDecision, markers: tuple[AuditedMarker, ...], clock_ms: int
    ) -> AuditVerdict:
        """The verdict on a decision.

        Args:
            decision: The decision.
            markers: Its markers, in order.
            clock_ms: Difference of clocks that leaves a doubt about them; 0 without a doubt.
        """
        if not markers:
            return self.verdict_on_unmarked(decision)
        state, reason = AuditState.AGREES, ""
        if any(marker.is_commit != decision.is_commit for marker in markers):
            state = AuditState.CONTRADICTS
        elif len(markers) > 1:
            state = AuditState.TWICE
        elif clock_ms:
            state = AuditState.UNKNOWN
            reason = (
                f"the clocks of coordinator and leader would have to differ by {clock_ms} ms for"
                " this marker to be the decision's"
            )
        return AuditVerdict(state=state, decision=decision, markers=markers, reason=reason)

    def verdict_on_unmarked(self, decision: AuditedDecision) -> AuditVerdict:
        reach = self._partition_reach
        if decision.completed_ms is None:
            return AuditVerdict(state=AuditState.OWED, decision=decision)
        if decision.at_ms <= reach.since_ms + SKEW_MS and reach.reason:
            return AuditVerdict(state=AuditState.UNKNOWN, decision=decision, reason=reach.reason)
        if decision.completed_ms > reach.until_ms:
            reason = "recent: the copy of the partition may be older than the marker"
            return AuditVerdict(state=AuditState.UNKNOWN, decision=decision, reason=reason)
        return AuditVerdict(state=AuditState.NO_MARKER, decision=decision)

    def verdict_on_lone(self, marker: AuditedMarker) -> AuditVerdict:
        reach = self._coordinator_reach
        if is_before_reach(marker.at_ms, reach):
            return AuditVerdict(state=AuditState.UNKNOWN, markers=(marker,), reason=reach.reason)
        return AuditVerdict(state=AuditState.WITHOUT_DECISION, markers=(marker,))


def is_before_reach(at_ms: int, reach: LogReach) -> bool:
    """Whether a time is so early, or so late, that the other log may lack the counterpart."""
    is_early = bool(reach.reason) and at_ms <= reach.since_ms + SKEW_MS
    return is_early or at_ms > reach.until_ms


def is_repetition(
    decision: AuditedDecision, first_marker: AuditedMarker, marker: AuditedMarker
) -> bool:
    """Whether a coordinator may have sent a marker again: until it had completed the transaction.
    The leader's clock set both times.
    """
    ending_ms = (decision.completed_ms or AFTER_ALL_MARKERS_MS) - decision.at_ms
    return abs(marker.at_ms - first_marker.at_ms) <= ending_ms + SKEW_MS


class _Pairing:
    """Pairs decisions with markers, both in order, at the least cost.

    The cost of a pairing is the number of findings first, and then the differences of clocks that
    it needs, in milliseconds. Only pairs near the diagonal are tried (``_BAND``).
    """

    def __init__(
        self,
        decisions: Sequence[AuditedDecision],
        markers: Sequence[AuditedMarker],
        partition_reach: LogReach,
        coordinator_reach: LogReach,
    ) -> None:
        self.decisions = decisions
        self.markers = markers
        self._ends_ms = [decision.at_ms for decision in decisions[1:]] + [AFTER_ALL_MARKERS_MS]
        self._missing_costs = [
            SKEW_MS
            if decision.completed_ms is None
            or (partition_reach.reason and decision.at_ms <= partition_reach.since_ms + SKEW_MS)
            or decision.completed_ms > partition_reach.until_ms
            else _FINDING_COST
            for decision in decisions
        ]
        self._extra_costs = [
            SKEW_MS if is_before_reach(marker.at_ms, coordinator_reach) else _FINDING_COST
            for marker in markers
        ]

    def clock_ms(self, decision_index: int, marker_index: int) -> int:
        """By how much the clocks must differ for a marker to be a decision's; 0 if not at all."""
        decision, marker = self.decisions[decision_index], self.markers[marker_index]
        lateness_ms = marker.at_ms - self._ends_ms[decision_index]
        return max(0, decision.at_ms - marker.at_ms, lateness_ms)

    def owner_of_repetition(
        self, marker_index: int, markers_of_decision: Mapping[int, Sequence[int]]
    ) -> int | None:
        """The decision that an unpaired marker repeats, by its time; None if it repeats none.

        Args:
            marker_index: The unpaired marker.
            markers_of_decision: Decision -> its markers so far, the paired one first.
        """
        marker = self.markers[marker_index]
        next_index = bisect_right(self.decisions, marker.at_ms, key=lambda decision: decision.at_ms)
        for decision_index in (next_index - 1, next_index):
            paired_indexes = markers_of_decision.get(decision_index)
            if (
                paired_indexes
                and self.clock_ms(decision_index, marker_index) <= CLOCK_TOLERANCE_MS
                and is_repetition(
                    self.decisions[decision_index], self.markers[paired_indexes[0]], marker
                )
            ):
                return decision_index
        return None

    def best(self) -> list[tuple[int | None, int | None]]:
        """The pairs in order; None stands for a missing marker, or for a missing decision."""
        head_count, tail_count = self._plain_ends()
        head_pairs: list[tuple[int | None, int | None]] = [
            (index, index) for index in range(head_count)
        ]
        tail_pairs: list[tuple[int | None, int | None]] = [
            (len(self.decisions) - index, len(self.markers) - index)
            for index in range(tail_count, 0, -1)
        ]
        middle_pairs = self._align(
            range(head_count, len(self.decisions) - tail_count),
            range(head_count, len(self.markers) - tail_count),
        )
        return [*head_pairs, *middle_pairs, *tail_pairs]

    def _plain_ends(self) -> tuple[int, int]:
        """How many pairs at the start, and at the end, need no thought: equal outcomes, no
        difference of clocks, and no other marker in the decision's window.
        """
        decision_count, marker_count = len(self.decisions), len(self.markers)
        shorter_count = min(decision_count, marker_count)
        head_count = 0
        while head_count < shorter_count and self._is_plain(head_count, head_count):
            head_count += 1
        # The window of the last plain pair may hold the next marker, too.
        if head_count < shorter_count or decision_count != marker_count:
            head_count = max(0, head_count - 1)
        tail_count = 0
        while tail_count < shorter_count - head_count and self._is_plain(
            decision_count - 1 - tail_count, marker_count - 1 - tail_count
        ):
            tail_count += 1
        if head_count + tail_count < max(decision_count, marker_count):
            tail_count = max(0, tail_count - 1)
        return head_count, tail_count

    def _is_plain(self, decision_index: int, marker_index: int) -> bool:
        return (
            self.decisions[decision_index].is_commit == self.markers[marker_index].is_commit
            and self.clock_ms(decision_index, marker_index) == 0
        )

    def _pair_cost(self, decision_index: int, marker_index: int) -> int:
        clock_ms = self.clock_ms(decision_index, marker_index)
        if clock_ms > SKEW_MS:
            return _FORBIDDEN
        is_equal = self.decisions[decision_index].is_commit == self.markers[marker_index].is_commit
        return clock_ms if is_equal else clock_ms + _FINDING_COST

    def _align(
        self, decision_indexes: range, markers: range
    ) -> list[tuple[int | None, int | None]]:
        """The cheapest pairs of two ranges: an edit distance near the diagonal."""
        row_count, column_count = len(decision_indexes), len(markers)
        band_width = abs(row_count - column_count) + _BAND
        first_columns: list[int] = []
        """Row -> the first column that is tried."""
        steps: list[bytearray] = []
        costs: list[int] = []
        for row in range(row_count + 1):
            centre_column = row * column_count // row_count if row_count else 0
            first_column, last_column = (
                max(0, centre_column - band_width),
                min(column_count, centre_column + band_width),
            )
            costs_before, first_column_above = costs, first_columns[-1] if first_columns else 0
            costs, row_steps = [], bytearray()
            for column in range(first_column, last_column + 1):
                best_cost, best_step = (0, _PAIR) if row == column == 0 else (_NEVER, _PAIR)
                index_above = column - first_column_above
                if row and column and 0 < index_above <= len(costs_before):
                    best_cost = costs_before[index_above - 1] + self._pair_cost(
                        decision_indexes[row - 1], markers[column - 1]
                    )
                if row and 0 <= index_above < len(costs_before):
                    cost = (
                        costs_before[index_above] + self._missing_costs[decision_indexes[row - 1]]
                    )
                    if cost < best_cost:
                        best_cost, best_step = cost, _MISSING
                if column > first_column:
                    cost = costs[-1] + self._extra_costs[markers[column - 1]]
                    if cost < best_cost:
                        best_cost, best_step = cost, _EXTRA
                costs.append(best_cost)
                row_steps.append(best_step)
            first_columns.append(first_column)
            steps.append(row_steps)
        return self._walk_back(decision_indexes, markers, first_columns, steps)

    @staticmethod
    def _walk_back(
        decision_indexes: range,
        markers: range,
        first_columns: Sequence[int],
        steps: Sequence[bytearray],
    ) -> list[tuple[int | None, int | None]]:
        """The pairs of the cheapest way, from the step that led to each place."""
        index_pairs: list[tuple[int | None, int | None]] = []
        row, column = len(decision_indexes), len(markers)
        while row or column:
            match steps[row][column - first_columns[row]]:
                case step if step == _PAIR:
                    row, column = row - 1, column - 1
                    index_pairs.append((decision_indexes[row], markers[column]))
                case step if step == _MISSING:
                    row -= 1
                    index_pairs.append((decision_indexes[row], None))
                case _:
                    column -= 1
                    index_pairs.append((None, markers[column]))
        return index_pairs[::-1]

    def needs_unlikely_clocks(self, index_pairs: Sequence[tuple[int | None, int | None]]) -> bool:
        """Whether pairs need a leader's clock that is ahead of the coordinator's, while another
        marker came sooner after its decision than such a clock allows. Another leader may have
        written that one; or a marker is lost, and a later one is there twice.
        """
        lags_ms: list[int] = []
        ahead_ms = 0
        for decision_index, marker_index in index_pairs:
            if decision_index is not None and marker_index is not None:
                marker_ms = self.markers[marker_index].at_ms
                ahead_ms = max(ahead_ms, marker_ms - self._ends_ms[decision_index])
                lags_ms.append(marker_ms - self.decisions[decision_index].at_ms)
        return ahead_ms > 0 and min(lags_ms) < ahead_ms
