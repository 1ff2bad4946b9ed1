"""Facts on a replica that are known before its segments are read, from the small files of its
directory. Kafka's counterparts: LogManager.loadLog, the checkpoints of OffsetCheckpointFile.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from txnsim.storage import checkpoints, names
from txnsim.types import TopicPartition
from txnsim_spark.scan.log_dirs import topic_id_of
from txnsim_spark.scan.segments import Replica
from txnsim_spark.soundness.violations import (
    BrokenRule,
    Invariant,
    Severity,
    Violation,
    read_or_report,
)

PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""Default of ``producer.id.expiration.ms``."""
COORDINATOR_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""Topics that brokers write themselves: compacted, and without sequences
(AppendOrigin.COORDINATOR).
"""
RULES_MENDED_BY_RECOVERY: Final = frozenset(
    {
        Invariant.TORN,
        Invariant.NO_BATCH,
        Invariant.ABORTED_MISSING,
        Invariant.ABORTED_EXTRA,
        Invariant.ABORTED_DIFFERS,
        Invariant.SNAPSHOT,
        Invariant.LEADER_EPOCH,
        Invariant.CHECKPOINT,
        Invariant.UNREADABLE_FILE,
    }
)
"""Rules whose violations after the recovery point a broker repairs when it starts after an unclean
stop.
"""
UNKNOWN_END: Final = 1 << 63


class LogDirFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a log directory that concern all its replicas."""

    is_clean: bool
    high_watermarks: dict[TopicPartition, int]
    recovery_points: dict[TopicPartition, int] | None
    """None without a checkpoint file, as in a copy of replica folders only."""
    log_starts: dict[TopicPartition, int]
    cleaned_offsets: dict[TopicPartition, int]
    broken_rules: tuple[BrokenRule, ...] = ()
    """Files that can't be read."""


class ReplicaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts on one replica, and the range of offsets in which replicas are compared."""

    replica: Replica
    is_clean: bool
    high_watermark: int | None
    recovery_point: int | None
    """Offset from which recovery after an unclean shutdown starts; None if unknown."""
    log_start: int | None
    cleaned_until: int
    """Offset up to which the cleaner has worked; 0 for never, ``UNKNOWN_END`` for unknown."""
    topic_id: str | None = None
    compare_from: int = 0
    compare_until: int = 0
    """Offset up to which replicas must agree, exclusive; 0 without another replica."""
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS

    def finding(self, broken_rule: BrokenRule, *, segment_end: int = 0) -> Violation:
        """The violation, placed in this replica and with its severity.

        Args:
            broken_rule: What was found.
            segment_end: Offset after the last one of its segment: if a starting broker recovers
                this segment, it repairs the files that are derived from it.
        """
        is_recovered = not self.is_clean and segment_end > (self.recovery_point or 0)
        is_notice = broken_rule.is_notice or (
            is_recovered and broken_rule.rule in RULES_MENDED_BY_RECOVERY
        )
        location_fields = msgspec.structs.asdict(broken_rule)
        del location_fields["is_notice"]
        return Violation(
            severity=Severity.NOTICE if is_notice else Severity.ERROR,
            broker=self.replica.broker,
            log_dir=self.replica.log_dir,
            topic=self.replica.topic,
            partition=self.replica.partition,
            **location_fields,
        )

    @property
    def has_sequences(self) -> bool:
        """Whether clients write the topic, so that its batches have sequences."""
        return self.replica.topic not in COORDINATOR_TOPICS


def read_log_dir(log_dir: Path) -> LogDirFacts:
    """Read the checkpoints of a log directory. A missing file is no error; a file that can't be
    read is reported as broken.
    """
    broken_rules: list[BrokenRule] = []

    def offsets(file_name: str) -> dict[TopicPartition, int]:
        offsets_by_partition = read_or_report(
            log_dir / file_name,
            lambda data: checkpoints.decode_offsets(data.decode(), error_prefix=file_name),
            "offsets of partitions (OffsetCheckpointFile)",
            broken_rules.append,
            is_small=True,
        )
        return offsets_by_partition or {}

    return LogDirFacts(
        is_clean=(log_dir / names.FileName.CLEAN_SHUTDOWN).is_file(),
        high_watermarks=offsets(names.FileName.HIGH_WATERMARKS),
        recovery_points=offsets(names.FileName.RECOVERY_POINTS)
        if (log_dir / names.FileName.RECOVERY_POINTS).exists()
        else None,
        log_starts=offsets(names.FileName.LOG_STARTS),
        cleaned_offsets=offsets(names.FileName.CLEANER_OFFSETS),
        broken_rules=tuple(broken_rules),
    )


def replica_facts(
    log_dir_facts: LogDirFacts,
    replica: Replica,
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
) -> ReplicaFacts:
    topic_partition = replica.topic_partition
    # A coordinator's log is compacted also where no checkpoint names it: a copy of one folder.
    unknown_offset = UNKNOWN_END if topic_partition.topic in COORDINATOR_TOPICS else 0
    return ReplicaFacts(
        replica=replica,
        is_clean=log_dir_facts.is_clean,
        high_watermark=log_dir_facts.high_watermarks.get(topic_partition),
        recovery_point=None
        if log_dir_facts.recovery_points is None
        else log_dir_facts.recovery_points.get(topic_partition, 0),
        log_start=log_dir_facts.log_starts.get(topic_partition),
        cleaned_until=log_dir_facts.cleaned_offsets.get(topic_partition, unknown_offset),
        topic_id=topic_id_of(Path(replica.path)),
        producer_expiration_ms=producer_expiration_ms,
    )
