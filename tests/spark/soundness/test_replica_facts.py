"""What the small files of a log directory say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.soundness import note_offset
from txnsim.storage import names
from txnsim.types import TopicPartition
from txnsim_spark.scan.segments import Replica
from txnsim_spark.soundness._replica_facts import (
    UNKNOWN_END,
    ReplicaFacts,
    read_log_dir,
    replica_facts,
)
from txnsim_spark.soundness.violations import BrokenRule, Invariant, Severity

ORDERS = TopicPartition("orders", 0)


def facts(log_dir: Path, topic_partition: TopicPartition = ORDERS) -> ReplicaFacts:
    return replica_facts(
        read_log_dir(log_dir),
        Replica(
            log_dir=str(log_dir),
            broker=1,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            path="orders-0",
        ),
    )


def test_checkpoints_are_read(tmp_path: Path) -> None:
    for number, name in enumerate(
        (
            names.FileName.HIGH_WATERMARKS,
            names.FileName.RECOVERY_POINTS,
            names.FileName.LOG_STARTS,
            names.FileName.CLEANER_OFFSETS,
        )
    ):
        note_offset(tmp_path, name, ORDERS, number + 1)
    replica = facts(tmp_path)
    assert (replica.high_watermark, replica.recovery_point) == (1, 2)
    assert (replica.log_start, replica.cleaned_until) == (3, 4)
    assert not replica.is_clean
    (tmp_path / names.FileName.CLEAN_SHUTDOWN).touch()
    assert facts(tmp_path).is_clean


def test_what_no_file_says_is_not_known(tmp_path: Path) -> None:
    replica = facts(tmp_path)
    assert (replica.high_watermark, replica.recovery_point, replica.log_start) == (None, None, None)
    assert (replica.cleaned_until, replica.has_sequences) == (0, True)
    # In a file that is there, it would be named once something had been flushed.
    note_offset(tmp_path, names.FileName.RECOVERY_POINTS, TopicPartition("other", 0), 5)
    assert facts(tmp_path).recovery_point == 0


def test_a_coordinators_log_is_compacted_and_has_no_sequences(tmp_path: Path) -> None:
    replica = facts(tmp_path, TopicPartition("__consumer_offsets", 0))
    assert (replica.cleaned_until, replica.has_sequences) == (UNKNOWN_END, False)


def test_a_checkpoint_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / names.FileName.HIGH_WATERMARKS).write_text("7\n")
    (broken_rule,) = read_log_dir(tmp_path).broken_rules
    assert (broken_rule.rule, broken_rule.file) == (
        Invariant.UNREADABLE_FILE,
        names.FileName.HIGH_WATERMARKS,
    )


@pytest.mark.parametrize(
    ("invariant", "end", "is_clean", "severity"),
    [
        (Invariant.TORN, 11, False, Severity.NOTICE),
        (Invariant.TORN, 10, False, Severity.ERROR),
        (Invariant.TORN, 11, True, Severity.ERROR),
        (Invariant.CRC, 11, False, Severity.ERROR),
    ],
)
def test_what_recovery_mends_is_a_notice(
    tmp_path: Path, invariant: Invariant, end: int, is_clean: bool, severity: Severity
) -> None:
    note_offset(tmp_path, names.FileName.RECOVERY_POINTS, ORDERS, 10)
    if is_clean:
        (tmp_path / names.FileName.CLEAN_SHUTDOWN).touch()
    broken_rule = BrokenRule(rule=invariant, file="f", found="this", expected="that")
    assert facts(tmp_path).finding(broken_rule, segment_end=end).severity is severity
