"""Compares the replicas of one partition: below the high watermark they must be equal.

Each segment leaves a digest per range of offsets, so only ranges that differ are read again. Ranges
that the cleaner has changed are not compared, because every broker cleans by itself. Kafka's
counterpart is ReplicaVerificationTool, which did the same over the wire.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from txnsim.storage.log_file import read_log_file
from txnsim.wire.batch import BatchHeader
from txnsim_spark.scan.log_dirs import ignore_problem
from txnsim_spark.soundness._replica_facts import ReplicaFacts
from txnsim_spark.soundness._segment_parts import SegmentPart
from txnsim_spark.soundness._segment_walk import BUCKET_BITS, SUM_MASK
from txnsim_spark.soundness.violations import Broken, Invariant, Violation

Replica = tuple[ReplicaFacts, Sequence[SegmentPart]]


def comparable(replicas: Sequence[ReplicaFacts], starts: Sequence[int]) -> tuple[ReplicaFacts, ...]:
    """The replicas of one partition, with the offsets between which they must agree.

    Args:
        replicas: All replicas.
        starts: Base offset of the oldest segment of each.
    """
    start = max(
        max(replica.log_start or 0, replica.cleaned_until, oldest)
        for replica, oldest in zip(replicas, starts, strict=True)
    )
    until = min(replica.high_watermark or 0 for replica in replicas)
    if len(replicas) == 1 or start >= until:
        return tuple(replicas)
    return tuple(
        msgspec.structs.replace(replica, compare_from=start, compare_until=until)
        for replica in replicas
    )


def judge_replicas(replicas: Sequence[Replica]) -> Iterator[Violation]:
    """The differences between replicas of a partition: for each replica the first place at which it
    differs from the first replica.
    """
    if any(
        part.shows_cleaning and not facts.cleaned_until
        for facts, parts in replicas
        for part in parts
    ):
        return  # cleaned, it is not known how far
    (reference, reference_parts), *followers = replicas
    reference_sums = sums_of(reference_parts)
    for facts, parts in followers:
        sums = sums_of(parts)
        differing = sorted(
            bucket
            for bucket in reference_sums.keys() | sums.keys()
            if reference_sums.get(bucket) != sums.get(bucket)
        )
        if differing:
            yield _first_difference(facts, parts, reference, reference_parts, differing)


def sums_of(parts: Sequence[SegmentPart]) -> dict[int, tuple[int, int]]:
    """Range of offsets -> (number of batches, sum of digests); a range may be in several
    segments.
    """
    sums: defaultdict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for part in parts:
        for bucket, (batches, total) in part.digests.items():
            batches_so_far, so_far = sums[bucket]
            sums[bucket] = batches_so_far + batches, (so_far + total) & SUM_MASK
    return sums


def _first_difference(
    facts: ReplicaFacts,
    parts: Sequence[SegmentPart],
    reference: ReplicaFacts,
    reference_parts: Sequence[SegmentPart],
    buckets: Sequence[int],
) -> Violation:
    batches = _batches(facts, parts, buckets[0])
    reference_batches = _batches(reference, reference_parts, buckets[0])
    offset = min(
        base
        for base in batches.keys() | reference_batches.keys()
        if batches.get(base) != reference_batches.get(base)
    )
    file, position, actual = batches.get(offset, (Path(facts.replica.path).name, None, "no batch"))
    _, _, expected = reference_batches.get(offset, ("", None, "no batch"))
    range_count_text = f"; {len(buckets)} ranges of {1 << BUCKET_BITS} offsets differ"
    return facts.finding(
        Broken(
            rule=Invariant.REPLICAS,
            file=file,
            position=position,
            offset=offset,
            found=actual + (range_count_text if len(buckets) > 1 else ""),
            expected=f"{expected}, as {_broker_name(reference)} has it",
        )
    )


def _batches(
    facts: ReplicaFacts, parts: Sequence[SegmentPart], bucket: int
) -> dict[int, tuple[str, int | None, str]]:
    """Base offset -> (file, position, text) of the batches of one range."""
    batches: dict[int, tuple[str, int | None, str]] = {}
    for part in parts:
        if bucket not in part.digests:
            continue
        path = Path(part.segment.path)
        for stored in read_log_file(path, on_torn=ignore_problem, check_crc=False):
            header = stored.header
            if header.base_offset >> BUCKET_BITS > bucket:
                break
            if (
                header.base_offset >> BUCKET_BITS == bucket
                and facts.compare_from <= header.base_offset < facts.compare_until
            ):
                batches[header.base_offset] = (path.name, stored.position, _description(header))
    return batches


def _description(header: BatchHeader) -> str:
    return (
        f"a batch of offsets {header.base_offset} to {header.last_offset}, leader epoch "
        f"{header.leader_epoch}, CRC {header.crc}"
    )


def _broker_name(facts: ReplicaFacts) -> str:
    broker = facts.replica.broker
    return f"broker {broker}" if broker >= 0 else facts.replica.log_dir
