"""Judges the parts of one replica in order of offset. Some errors show only across segments.

The state of producers begins with the snapshot at the oldest segment, as in a broker. After a torn
segment it begins again with the next segment's snapshot. Kafka's counterparts: LogLoader.load,
ProducerStateManager.truncateAndReload, UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.storage import names
from txnsim_spark.scan import kernel
from txnsim_spark.soundness._producer_rules import ProducerStates
from txnsim_spark.soundness._replica_facts import UNKNOWN_END, ReplicaFacts
from txnsim_spark.soundness._segment_parts import SegmentPart
from txnsim_spark.soundness._stored_file_rules import judge_aborted, judge_snapshot
from txnsim_spark.soundness.violations import BrokenRule, Findings, Invariant, Violation

RULES_OF_MISSING_BATCHES: Final = frozenset(
    {
        Invariant.SEQUENCE,
        Invariant.OFFSET_GAP,
        Invariant.IDLE_MARKER,
        Invariant.ABORTED_MISSING,
        Invariant.ABORTED_EXTRA,
        Invariant.ABORTED_DIFFERS,
    }
)
"""Rules that a compacted log may break, since the cleaner removes records, batches, markers and
aborted transactions.
"""

Snapshots = Mapping[int, Sequence[SnapshotEntry]]


def judge_replica(
    replica_facts: ReplicaFacts, segment_parts: Sequence[SegmentPart], snapshots: Snapshots
) -> Iterator[Violation]:
    """All violations in a replica.

    Args:
        replica_facts: Facts on the replica.
        segment_parts: Parts of its segments, in order of offset; at least one.
        snapshots: Its readable snapshots by offset.
    """
    cleaned_until = replica_facts.cleaned_until
    if not cleaned_until and any(segment_part.shows_cleaning for segment_part in segment_parts):
        cleaned_until = UNKNOWN_END  # no checkpoint says how far
    chain = _Chain(replica_facts, snapshots, cleaned_until)
    for segment_part in segment_parts:
        for broken_rule in without_followers(
            segment_part, (*segment_part.broken_rules, *chain.link(segment_part))
        ):
            is_cleaned_away = (
                broken_rule.rule in RULES_OF_MISSING_BATCHES
                and (broken_rule.offset or 0) < cleaned_until
            )
            if not is_cleaned_away:
                # A segment whose first batch is torn ends where it begins, and is recovered if the
                # recovery point is there (LogSegments.values begins with the floor segment).
                segment_end = max(segment_part.end_offset, segment_part.segment.base_offset + 1)
                yield replica_facts.finding(broken_rule, segment_end=segment_end)
    if all(segment_part.has_no_batch for segment_part in segment_parts) and any(
        segment_part.is_torn for segment_part in segment_parts
    ):
        size_bytes = sum(segment_part.segment.size for segment_part in segment_parts)
        broken_rule = BrokenRule(
            rule=Invariant.NO_BATCH,
            file=segment_parts[0].file,
            offset=segment_parts[0].base_offset,
            found=f"no batch in {size_bytes} bytes",
            expected="at least one batch that can be read",
        )
        yield replica_facts.finding(broken_rule, segment_end=UNKNOWN_END)
    for broken_rule in judge_bounds(replica_facts, segment_parts):
        yield replica_facts.finding(broken_rule, segment_end=UNKNOWN_END)
    for offset in sorted(snapshots):
        if offset > segment_parts[-1].end_offset:
            broken_rule = BrokenRule(
                rule=Invariant.SNAPSHOT,
                file=_snapshot_name(offset),
                offset=offset,
                found=f"a snapshot at {offset}",
                expected=f"none behind the end of the log, {segment_parts[-1].end_offset}",
            )
            yield replica_facts.finding(broken_rule, segment_end=UNKNOWN_END)


RULES_OF_DAMAGE: Final = frozenset(
    {
        Invariant.CRC,
        Invariant.TORN,
        Invariant.OFFSET_ORDER,
        Invariant.OFFSET_GAP,
        Invariant.UNREADABLE_FILE,
    }
)
"""Damage that is always reported, unlike what may follow from other damage."""


def without_followers(
    segment_part: SegmentPart, violations: Iterable[BrokenRule]
) -> Iterator[BrokenRule]:
    """The violations of a segment, without those that may follow from damage. After a batch with a
    wrong CRC or offset only other such damage is named; the rest is counted. One flipped bit
    changes a producer's state, and so sequences, snapshots and indexes up to the end of the
    segment.

    Args:
        segment_part: The segment.
        violations: All violations found.
    """
    if segment_part.doubtful_from is None:
        yield from violations
        return
    left_out_count = 0
    for broken_rule in violations:
        is_before_follower = broken_rule.file == segment_part.file and (
            broken_rule.position is not None and broken_rule.position < segment_part.doubtful_from
        )
        if broken_rule.rule in RULES_OF_DAMAGE or is_before_follower or broken_rule.is_notice:
            yield broken_rule
        else:
            left_out_count += 1
    if left_out_count:
        yield BrokenRule(
            rule=Invariant.CRC,
            file=segment_part.file,
            position=segment_part.doubtful_from,
            found=f"{left_out_count} more findings in this segment,"
            " which may follow from this batch",
            expected="none",
            is_notice=True,
        )


def judge_bounds(facts: ReplicaFacts, segment_parts: Sequence[SegmentPart]) -> Iterator[BrokenRule]:
    """Compare checkpoints with the log (UnifiedLog.maybeIncrementLogStartOffset and similar
    checks).
    """
    start_offset, end_offset = segment_parts[0].base_offset, segment_parts[-1].end_offset
    for checkpoint_name, file, offset in (
        ("high watermark", names.FileName.HIGH_WATERMARKS, facts.high_watermark),
        ("recovery point", names.FileName.RECOVERY_POINTS, facts.recovery_point),
        ("log start", names.FileName.LOG_STARTS, facts.log_start),
    ):
        if offset is not None and offset > end_offset:
            yield BrokenRule(
                rule=Invariant.CHECKPOINT,
                file=file,
                offset=offset,
                found=f"the {checkpoint_name} {offset}",
                expected=f"{end_offset}, the end of the log, or below",
            )
    if facts.log_start is not None and facts.log_start < start_offset:
        yield BrokenRule(
            rule=Invariant.CHECKPOINT,
            file=names.FileName.LOG_STARTS,
            offset=facts.log_start,
            found=f"the log start {facts.log_start}",
            expected=f"{start_offset}, the oldest segment, or above",
        )


class _Chain:
    """The state of a replica after the segments so far."""

    def __init__(self, facts: ReplicaFacts, snapshots: Snapshots, cleaned_until: int) -> None:
        self._facts = facts
        self._snapshots = snapshots
        self._cleaned_until = cleaned_until
        self._producers = ProducerStates(facts)
        self._previous_part: SegmentPart | None = None
        self._first_offset = self._open_unknown_below = 0

    def link(self, segment_part: SegmentPart) -> Iterator[BrokenRule]:
        """Add the next segment; yields violations."""
        previous_part = self._previous_part
        if previous_part is not None and previous_part.is_followed:
            yield from self._judge_seam(previous_part, segment_part)
        if (
            previous_part is None
            or not previous_part.is_followed
            or self._starts_anew(previous_part, segment_part)
        ):
            self._restart_producers(segment_part.base_offset)
        for previous_end, base_offset in segment_part.gaps:
            yield offset_gap(segment_part.file, previous_end, base_offset)
        yield from self._check_producers(segment_part)
        if segment_part.aborted_index is not None:
            yield from judge_aborted(
                segment_part.aborted_index,
                self._producers.aborted,
                file=str(Path(segment_part.file).with_suffix(names.Suffix.TXN_INDEX)),
                open_unknown_below=self._open_unknown_below,
            )
        self._producers.aborted = []
        self._previous_part = segment_part

    # Steps

    def _starts_anew(self, previous_part: SegmentPart, segment_part: SegmentPart) -> bool:
        """Whether a whole segment is missing and a snapshot has the state after it."""
        return (
            segment_part.base_offset > previous_part.end_offset
            and segment_part.base_offset in self._snapshots
        )

    def _restart_producers(self, offset: int) -> None:
        """Restart producers' state with a snapshot, or empty without one."""
        snapshot_entries = self._snapshots.get(offset)
        self._first_offset = offset
        # Without a snapshot it is not known which transactions were open here.
        self._open_unknown_below = offset if snapshot_entries is None else 0
        lacks_snapshot = bool(self._open_unknown_below)
        self._producers = ProducerStates(
            self._facts, snapshot_entries or (), lacks_snapshot=lacks_snapshot
        )

    def _judge_seam(
        self, previous_part: SegmentPart, segment_part: SegmentPart
    ) -> Iterator[BrokenRule]:
        file = segment_part.file
        first_offset = (
            segment_part.base_offset
            if segment_part.first_offset is None
            else segment_part.first_offset
        )
        if segment_part.base_offset < previous_part.end_offset:
            yield BrokenRule(
                rule=Invariant.OFFSET_ORDER,
                file=file,
                position=0,
                offset=segment_part.base_offset,
                found=f"a segment from {segment_part.base_offset} on",
                expected=f"{previous_part.end_offset}, the end of {previous_part.file}, or above",
            )
        elif first_offset > previous_part.end_offset:
            yield offset_gap(file, previous_part.end_offset, first_offset)
        if 0 <= segment_part.first_epoch < previous_part.last_epoch:
            yield BrokenRule(
                rule=Invariant.LEADER_EPOCH,
                file=file,
                position=0,
                offset=first_offset,
                found=f"epoch {segment_part.first_epoch}",
                expected=f"{previous_part.last_epoch} or a higher one",
            )

    def _check_producers(self, segment_part: SegmentPart) -> Iterator[BrokenRule]:
        """Check the batches of producers, and each snapshot when the log reaches its offset."""
        findings = Findings(segment_part.file)
        start_offset, end_offset = segment_part.base_offset, segment_part.end_offset
        snapshot_offsets = [
            offset
            for offset in sorted(self._snapshots)
            if start_offset < offset <= segment_part.last_base
        ]
        for table in segment_part.rows:
            for row in table.T.tolist():
                while snapshot_offsets and snapshot_offsets[0] <= row[kernel.BASE_OFFSET]:
                    yield from self._judge_snapshot(snapshot_offsets.pop(0))
                self._producers.take(row, findings)
        for offset in (*snapshot_offsets, end_offset):
            yield from self._judge_snapshot(offset)
        yield from findings.all()

    def _judge_snapshot(self, offset: int) -> Iterator[BrokenRule]:
        snapshot_entries = self._snapshots.get(offset)
        if snapshot_entries is not None:
            yield from judge_snapshot(
                snapshot_entries,
                self._producers.state.to_snapshot(),
                self._producers.last_offsets,
                offset=offset,
                path=Path(self._facts.replica.path, _snapshot_name(offset)),
                judged_from=max(self._first_offset, self._cleaned_until),
                expiration_ms=self._facts.producer_expiration_ms,
            )


def offset_gap(file: str, missing_offset: int, next_offset: int) -> BrokenRule:
    """The violation that no batch has some offsets."""
    return BrokenRule(
        rule=Invariant.OFFSET_GAP,
        file=file,
        offset=missing_offset,
        found=f"nothing from {missing_offset} to {next_offset - 1}",
        expected=f"a batch from {missing_offset} on",
    )


def _snapshot_name(offset: int) -> str:
    return names.Suffix.SNAPSHOT.file_name(offset)
