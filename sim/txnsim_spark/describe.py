"""``logs describe``: describes the contents of log directories, replica by replica, without
Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from txnsim.storage.names import PartitionDirectory
from txnsim_spark._replica_summary import ReplicaSummary, summarize
from txnsim_spark.forensics.identity import identities_in
from txnsim_spark.scan.log_dirs import LogDirectory, OnProblem, ignore_problem, topic_id_of
from txnsim_spark.scan.segments import Replica, replicas_in


class ReplicaDescription(ReplicaSummary, frozen=True, kw_only=True):
    """A replica, with the values of its log directory's checkpoints."""

    log_dir: str
    broker: int
    """Broker id; -1 if the directory does not have it."""
    is_clean: bool
    """Whether the broker was stopped in order."""
    log_start_offset: int
    """Log start offset in the checkpoint; else the base offset of the oldest segment."""
    high_watermark: int | None
    """Checkpointed high watermark, at most the end offset; None if missing."""
    last_stable_offset: int
    """The offset at which ``read_committed`` consumers stop; the end of the log if there is no high
    watermark.
    """
    withheld: int
    """Number of offsets between the last stable offset and the high watermark."""
    topic_id: str | None
    """None where unknown, as before Kafka 2.8."""
    is_stale: bool
    """Whether its topic was deleted, by the copies of the metadata log in the directories."""


def describe_replicas(
    paths: Sequence[Path],
    topics: frozenset[str] = frozenset(),
    *,
    progress: Callable[[str], object],
    on_problem: OnProblem = ignore_problem,
) -> Iterator[ReplicaDescription]:
    """Describe every replica, by directory, topic and partition.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        topics: Topics to describe; empty for all.
        progress: Called with the name of each file as it is read.
        on_problem: Called with a replica that can't be read, which is skipped.
    """
    identities = identities_in(paths, topics)
    log_directory_at = cache(partial(LogDirectory.read, on_problem=on_problem))
    for replica in replicas_in(paths, topics, on_problem):
        log_directory = log_directory_at(Path(replica.log_dir))
        progress(f"reading {replica.path}")
        partition_directory = PartitionDirectory(
            topic_partition=replica.topic_partition, path=Path(replica.path)
        )
        try:
            summary = summarize(partition_directory)
        except OSError as error:
            unreadable_file = error.filename or replica.path
            on_problem(f"{unreadable_file}: {error.strerror or error}; its replica is passed by")
            continue
        yield describe_replica(
            replica, log_directory, summary, is_stale=identities.is_stale(replica)
        )


def describe_replica(
    replica: Replica,
    log_directory: LogDirectory,
    summary: ReplicaSummary,
    *,
    is_stale: bool = False,
) -> ReplicaDescription:
    """Summarise a replica from its log, its snapshots and the checkpoints of its log directory."""
    topic_partition = replica.topic_partition
    checkpointed_offset = log_directory.high_watermarks.get(topic_partition)
    high_watermark = (
        None if checkpointed_offset is None else min(checkpointed_offset, summary.end_offset)
    )
    visible_end_offset = summary.end_offset if high_watermark is None else high_watermark
    last_stable_offset = min(
        [visible_end_offset, *(txn.first_offset for txn in summary.open_transactions)]
    )
    log_start_offset = max(log_directory.log_starts.get(topic_partition, 0), summary.first_offset)
    return ReplicaDescription(
        **{field_name: getattr(summary, field_name) for field_name in summary.__struct_fields__},
        log_dir=replica.log_dir,
        broker=replica.broker,
        is_clean=log_directory.is_clean,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        withheld=visible_end_offset - last_stable_offset,
        topic_id=topic_id_of(Path(replica.path)),
        is_stale=is_stale,
    )
