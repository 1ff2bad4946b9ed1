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
from txnsim_spark.soundness.violations import BrokenRule, Invariant, Violation

Replica = tuple[ReplicaFacts, Sequence[SegmentPart]]


def comparable_facts(
    replicas: Sequence[ReplicaFacts], start_offsets: Sequence[int]
) -> tuple[ReplicaFacts, ...]:
    """The replicas of one partition, with the offsets between which they must agree.

    Args:
        replicas: All replicas.
        start_offsets: Base offset of the oldest segment of each.
    """
    start_offset = max(
        max(replica.log_start or 0, replica.cleaned_until, oldest_offset)
        for replica, oldest_offset in zip(replicas, start_offsets, strict=True)
    )
    end_offset = min(replica.high_watermark or 0 for replica in replicas)
    if len(replicas) == 1 or start_offset >= end_offset:
        return tuple(replicas)
    return tuple(
        msgspec.structs.replace(replica, compare_from=start_offset, compare_until=end_offset)
        for replica in replicas
    )


def judge_replicas(replicas: Sequence[Replica]) -> Iterator[Violation]:
    """The differences between replicas of a partition: for each replica the first place at which it
    differs from the first replica.
    """
    if any(
        segment_part.shows_cleaning and not facts.cleaned_until
        for facts, segment_parts in replicas
        for segment_part in segment_parts
    ):
        return  # cleaned, it is not known how far
    (reference_facts, reference_parts), *follower_replicas = replicas
    reference_sum_by_bucket = sums_of(reference_parts)
    for facts, segment_parts in follower_replicas:
        sum_by_bucket = sums_of(segment_parts)
        differing_bucket_numbers = sorted(
            bucket_number
            for bucket_number in reference_sum_by_bucket.keys() | sum_by_bucket.keys()
            if reference_sum_by_bucket.get(bucket_number) != sum_by_bucket.get(bucket_number)
        )
        if differing_bucket_numbers:
            yield _first_difference(
                facts, segment_parts, reference_facts, reference_parts, differing_bucket_numbers
            )


def sums_of(segment_parts: Sequence[SegmentPart]) -> dict[int, tuple[int, int]]:
    """Range of offsets -> (number of batches, sum of digests); a range may be in several
    segments.
    """
    sum_by_bucket: defaultdict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for segment_part in segment_parts:
        for bucket_number, (batch_count, digest_sum) in segment_part.digests.items():
            earlier_count, earlier_sum = sum_by_bucket[bucket_number]
            sum_by_bucket[bucket_number] = (
                earlier_count + batch_count,
                (earlier_sum + digest_sum) & SUM_MASK,
            )
    return sum_by_bucket


def _first_difference(
    facts: ReplicaFacts,
    segment_parts: Sequence[SegmentPart],
    reference_facts: ReplicaFacts,
    reference_parts: Sequence[SegmentPart],
    bucket_numbers: Sequence[int],
) -> Violation:
    batch_by_offset = _batches_of_range(facts, segment_parts, bucket_numbers[0])
    reference_batch_by_offset = _batches_of_range(
        reference_facts, reference_parts, bucket_numbers[0]
    )
    offset = min(
        base_offset
        for base_offset in batch_by_offset.keys() | reference_batch_by_offset.keys()
        if batch_by_offset.get(base_offset) != reference_batch_by_offset.get(base_offset)
    )
    file, position, actual = batch_by_offset.get(
        offset, (Path(facts.replica.path).name, None, "no batch")
    )
    _, _, expected = reference_batch_by_offset.get(offset, ("", None, "no batch"))
    range_count_text = f"; {len(bucket_numbers)} ranges of {1 << BUCKET_BITS} offsets differ"
    return facts.finding(
        BrokenRule(
            rule=Invariant.REPLICAS,
            file=file,
            position=position,
            offset=offset,
            found=actual + (range_count_text if len(bucket_numbers) > 1 else ""),
            expected=f"{expected}, as {_broker_name(reference_facts)} has it",
        )
    )


def _batches_of_range(
    facts: ReplicaFacts, segment_parts: Sequence[SegmentPart], bucket_number: int
) -> dict[int, tuple[str, int | None, str]]:
    """Base offset -> (file, position, text) of the batches of one range."""
    batch_by_offset: dict[int, tuple[str, int | None, str]] = {}
    for segment_part in segment_parts:
        if bucket_number not in segment_part.digests:
            continue
        path = Path(segment_part.segment.path)
        for stored_batch in read_log_file(path, on_torn=ignore_problem, checks_crc=False):
            header = stored_batch.header
            if header.base_offset >> BUCKET_BITS > bucket_number:
                break
            if (
                header.base_offset >> BUCKET_BITS == bucket_number
                and facts.compare_from <= header.base_offset < facts.compare_until
            ):
                batch_by_offset[header.base_offset] = (
                    path.name,
                    stored_batch.position,
                    _batch_description(header),
                )
    return batch_by_offset


def _batch_description(header: BatchHeader) -> str:
    return (
        f"a batch of offsets {header.base_offset} to {header.last_offset}, leader epoch "
        f"{header.leader_epoch}, CRC {header.crc}"
    )


def _broker_name(facts: ReplicaFacts) -> str:
    broker = facts.replica.broker
    return f"broker {broker}" if broker >= 0 else facts.replica.log_dir
