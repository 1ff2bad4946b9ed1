"""Judges the parts of one replica in order of offset. Some errors show only across segments.

The state of producers begins with the snapshot at the oldest segment, as in a broker. After a torn
segment it begins again with the next segment's snapshot. Kafka's counterparts: LogLoader.load,
ProducerStateManager.truncateAndReload, UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from txnsim.log.producer_state import SnapshotEntry
from txnsim.storage import names
from txnsim_spark.scan import kernel
from txnsim_spark.soundness._producer_rules import Producers
from txnsim_spark.soundness._replica_facts import END, ReplicaFacts
from txnsim_spark.soundness._segment_parts import SegmentPart
from txnsim_spark.soundness._stored_file_rules import judge_aborted, judge_snapshot
from txnsim_spark.soundness.violations import Broken, Findings, Invariant, Violation

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
    facts: ReplicaFacts, parts: Sequence[SegmentPart], snapshots: Snapshots
) -> Iterator[Violation]:
    """All violations in a replica.

    Args:
        facts: Facts on the replica.
        parts: Parts of its segments, in order of offset; at least one.
        snapshots: Its readable snapshots by offset.
    """
    cleaned_until = facts.cleaned_until
    if not cleaned_until and any(part.shows_cleaning for part in parts):
        cleaned_until = END  # no checkpoint says how far
    chain = _Chain(facts, snapshots, cleaned_until)
    for part in parts:
        for broken in without_followers(part, (*part.broken, *chain.link(part))):
            is_cleaned_away = (
                broken.rule in RULES_OF_MISSING_BATCHES and (broken.offset or 0) < cleaned_until
            )
            if not is_cleaned_away:
                # A segment whose first batch is torn ends where it begins, and is recovered if the
                # recovery point is there (LogSegments.values begins with the floor segment).
                segment_end = max(part.end_offset, part.segment.base_offset + 1)
                yield facts.finding(broken, segment_end=segment_end)
    if all(part.has_no_batch for part in parts) and any(part.is_torn for part in parts):
        size_bytes = sum(part.segment.size for part in parts)
        broken = Broken(
            rule=Invariant.NO_BATCH,
            file=parts[0].file,
            offset=parts[0].base_offset,
            found=f"no batch in {size_bytes} bytes",
            expected="at least one batch that can be read",
        )
        yield facts.finding(broken, segment_end=END)
    for broken in judge_bounds(facts, parts):
        yield facts.finding(broken, segment_end=END)
    for offset in sorted(snapshots):
        if offset > parts[-1].end_offset:
            broken = Broken(
                rule=Invariant.SNAPSHOT,
                file=_snapshot_name(offset),
                offset=offset,
                found=f"a snapshot at {offset}",
                expected=f"none behind the end of the log, {parts[-1].end_offset}",
            )
            yield facts.finding(broken, segment_end=END)


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


def without_followers(part: SegmentPart, violations: Iterable[Broken]) -> Iterator[Broken]:
    """The violations of a segment, without those that may follow from damage. After a batch with a
    wrong CRC or offset only other such damage is named; the rest is counted. One flipped bit
    changes a producer's state, and so sequences, snapshots and indexes up to the end of the
    segment.

    Args:
        part: The segment.
        violations: All violations found.
    """
    if part.doubtful_from is None:
        yield from violations
        return
    left_out = 0
    for broken in violations:
        is_before = broken.file == part.file and (
            broken.position is not None and broken.position < part.doubtful_from
        )
        if broken.rule in RULES_OF_DAMAGE or is_before or broken.is_notice:
            yield broken
        else:
            left_out += 1
    if left_out:
        yield Broken(
            rule=Invariant.CRC,
            file=part.file,
            position=part.doubtful_from,
            found=f"{left_out} more findings in this segment, which may follow from this batch",
            expected="none",
            is_notice=True,
        )


def judge_bounds(facts: ReplicaFacts, parts: Sequence[SegmentPart]) -> Iterator[Broken]:
    """Compare checkpoints with the log (UnifiedLog.maybeIncrementLogStartOffset and similar
    checks).
    """
    start_offset, end_offset = parts[0].base_offset, parts[-1].end_offset
    for checkpoint_name, file, offset in (
        ("high watermark", names.FileName.HIGH_WATERMARKS, facts.high_watermark),
        ("recovery point", names.FileName.RECOVERY_POINTS, facts.recovery_point),
        ("log start", names.FileName.LOG_STARTS, facts.log_start),
    ):
        if offset is not None and offset > end_offset:
            yield Broken(
                rule=Invariant.CHECKPOINT,
                file=file,
                offset=offset,
                found=f"the {checkpoint_name} {offset}",
                expected=f"{end_offset}, the end of the log, or below",
            )
    if facts.log_start is not None and facts.log_start < start_offset:
        yield Broken(
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
        self._producers = Producers(facts)
        self._previous_part: SegmentPart | None = None
        self._first_offset = self._blind_below = 0

    def link(self, part: SegmentPart) -> Iterator[Broken]:
        """Add the next segment; yields violations."""
        previous_part = self._previous_part
        if previous_part is not None and previous_part.is_followed:
            yield from self._judge_seam(previous_part, part)
        if (
            previous_part is None
            or not previous_part.is_followed
            or self._starts_anew(previous_part, part)
        ):
            self._restart_producers(part.base_offset)
        for end, base in part.gaps:
            yield offset_gap(part.file, end, base)
        yield from self._check_producers(part)
        if part.aborted_index is not None:
            yield from judge_aborted(
                part.aborted_index,
                self._producers.aborted,
                file=str(Path(part.file).with_suffix(names.Suffix.TXN_INDEX)),
                blind_below=self._blind_below,
            )
        self._producers.aborted = []
        self._previous_part = part

    # Steps

    def _starts_anew(self, previous_part: SegmentPart, part: SegmentPart) -> bool:
        """Whether a whole segment is missing and a snapshot has the state after it."""
        return part.base_offset > previous_part.end_offset and part.base_offset in self._snapshots

    def _restart_producers(self, offset: int) -> None:
        """Restart producers' state with a snapshot, or empty without one."""
        entries = self._snapshots.get(offset)
        self._first_offset = offset
        # Without a snapshot it is not known which transactions were open here.
        self._blind_below = offset if entries is None else 0
        is_blind = bool(self._blind_below)
        self._producers = Producers(self._facts, entries or (), is_blind=is_blind)

    def _judge_seam(self, previous_part: SegmentPart, part: SegmentPart) -> Iterator[Broken]:
        file = part.file
        first_offset = part.base_offset if part.first_offset is None else part.first_offset
        if part.base_offset < previous_part.end_offset:
            yield Broken(
                rule=Invariant.OFFSET_ORDER,
                file=file,
                position=0,
                offset=part.base_offset,
                found=f"a segment from {part.base_offset} on",
                expected=f"{previous_part.end_offset}, the end of {previous_part.file}, or above",
            )
        elif first_offset > previous_part.end_offset:
            yield offset_gap(file, previous_part.end_offset, first_offset)
        if 0 <= part.first_epoch < previous_part.last_epoch:
            yield Broken(
                rule=Invariant.LEADER_EPOCH,
                file=file,
                position=0,
                offset=first_offset,
                found=f"epoch {part.first_epoch}",
                expected=f"{previous_part.last_epoch} or a higher one",
            )

    def _check_producers(self, part: SegmentPart) -> Iterator[Broken]:
        """Check the batches of producers, and each snapshot when the log reaches its offset."""
        findings = Findings(part.file)
        start_offset, end_offset = part.base_offset, part.end_offset
        snapshot_offsets = [
            offset for offset in sorted(self._snapshots) if start_offset < offset <= part.last_base
        ]
        for table in part.rows:
            for row in table.T.tolist():
                while snapshot_offsets and snapshot_offsets[0] <= row[kernel.BASE_OFFSET]:
                    yield from self._judge_snapshot(snapshot_offsets.pop(0))
                self._producers.take(row, findings)
        for offset in (*snapshot_offsets, end_offset):
            yield from self._judge_snapshot(offset)
        yield from findings.all()

    def _judge_snapshot(self, offset: int) -> Iterator[Broken]:
        entries = self._snapshots.get(offset)
        if entries is not None:
            yield from judge_snapshot(
                entries,
                self._producers.state.to_snapshot(),
                self._producers.last_offsets,
                offset=offset,
                path=Path(self._facts.replica.path, _snapshot_name(offset)),
                judged_from=max(self._first_offset, self._cleaned_until),
                expiration_ms=self._facts.producer_expiration_ms,
            )


def offset_gap(file: str, missing_offset: int, next_offset: int) -> Broken:
    """The violation that no batch has some offsets."""
    return Broken(
        rule=Invariant.OFFSET_GAP,
        file=file,
        offset=missing_offset,
        found=f"nothing from {missing_offset} to {next_offset - 1}",
        expected=f"a batch from {missing_offset} on",
    )


def _snapshot_name(offset: int) -> str:
    return names.Suffix.SNAPSHOT.file_name(offset)
