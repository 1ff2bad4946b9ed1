"""Decisions against markers on log directories: changed segments, drawn histories with the truth
that made them, cleaned and deleted logs, copies of running brokers. Each incident by itself:
tests/lab/scenario/test_incidents.py; Spark: tests/spark/pipeline/test_decisions.py.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.changed_segments import (
    StoredMarker,
    markers_in,
    remove_marker,
    repeat_marker,
    turn_marker,
)
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.txn.decision_audit import AuditState
from txnsim.txn.decision_report import DecisionReport
from txnsim.types import TopicPartition
from txnsim_lab.scenario._incident_disks import WrittenCluster, WrittenProducer
from txnsim_lab.scenario.incidents import ORDERS, PAYMENTS, POSITIONS, write_incident
from txnsim_spark.forensics.find_hanging import Search
from txnsim_spark.questions.decisions import find_decisions

pytest.importorskip("duckdb", reason="the extra spark is not installed")

NOW_MS = 1 << 60


def decided(*paths: Path, topics: frozenset[str] = frozenset()) -> DecisionReport:
    return find_decisions(Search(paths=paths, now_ms=NOW_MS, never_spark=True, topics=topics))


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """Log directories of healthy transactions of both protocol versions."""
    write_incident("healthy").write(tmp_path / "healthy")
    return tmp_path / "healthy"


Change = Callable[[Path, int], None]


def change_replicas(
    disks_directory: Path, change: Change, topic_partition: TopicPartition, number: int
) -> StoredMarker:
    """Change one marker of a partition on both brokers."""
    replicas = sorted(disks_directory.glob(f"broker-*/{names.directory_name(topic_partition)}"))
    marker = markers_in(replicas[0])[number]
    for replica in replicas:
        change(replica, marker.offset)
    return marker


@pytest.mark.parametrize("topic_partition", [ORDERS, POSITIONS], ids=str)
@pytest.mark.parametrize("number", [0, 3, 4])
@pytest.mark.parametrize(
    ("change", "state"),
    [
        (remove_marker, AuditState.NO_MARKER),
        (turn_marker, AuditState.CONTRADICTS),
        (repeat_marker, AuditState.TWICE),
    ],
)
def test_a_changed_marker_is_the_only_finding(
    disks: Path, change: Change, state: AuditState, topic_partition: TopicPartition, number: int
) -> None:
    marker = change_replicas(disks, change, topic_partition, number)
    report = decided(disks)
    (finding,) = report.findings
    assert (finding.state, finding.producer_id) == (state, marker.producer_id)
    assert TopicPartition(finding.topic, finding.partition) == topic_partition
    assert finding.decision is not None
    assert finding.decision.outcome == ("commit" if marker.is_commit else "abort")
    assert report.agrees == report.decisions - 1
    assert (report.unknown, report.known_percent) == (0, 100)


def test_a_committed_record_that_reads_as_aborted_is_told(disks: Path) -> None:
    replica = disks / "broker-1" / names.directory_name(ORDERS)
    number = next(n for n, marker in enumerate(markers_in(replica)) if marker.is_commit)
    change_replicas(disks, turn_marker, ORDERS, number)
    (finding,) = decided(disks).findings
    assert finding.reads_as == "aborted, though their commit was acknowledged"
    assert (finding.records, finding.first_offset) == (1, finding.last_offset)
    assert f"BETWEEN {finding.first_offset} AND {finding.last_offset}" in finding.advice


def test_only_the_topics_that_are_named_count(disks: Path) -> None:
    change_replicas(disks, remove_marker, ORDERS, 2)
    report = decided(disks, topics=frozenset({PAYMENTS.topic}))
    assert report.findings == ()
    assert 0 < report.agrees == report.decisions < decided(disks).decisions


def test_a_partition_without_a_replica_is_unknown(disks: Path) -> None:
    for replica in disks.glob(f"broker-*/{names.directory_name(PAYMENTS)}"):
        shutil.rmtree(replica)
    report = decided(disks)
    (reason,) = report.unknown_because
    assert reason.why == "no replica of payments-0 is among the directories"
    assert (report.unknown, report.findings) == (reason.decisions, ())
    assert report.known_percent is not None
    assert 0 < report.known_percent < 100


def test_markers_below_what_the_cleaner_has_done_may_be_gone(disks: Path) -> None:
    markers = markers_in(disks / "broker-1" / names.directory_name(POSITIONS))
    change_replicas(disks, remove_marker, POSITIONS, 1)
    for checkpoint_file in disks.glob(f"broker-*/{names.FileName.CLEANER_OFFSETS}"):
        checkpoint_file.write_text(encode_offsets({POSITIONS: markers[3].offset}))
    report = decided(disks)
    assert (report.findings, report.unknown) == ((), 1)
    assert "the cleaner has been at __consumer_offsets-0" in report.unknown_because[0].why


def test_what_the_copy_of_a_running_broker_may_lack_is_recent(tmp_path: Path) -> None:
    cluster = WrittenCluster()
    producer = cluster.producer("shop", is_v2=True)
    producer.run([ORDERS])
    producer.write(ORDERS)
    producer.decide(is_commit=True)
    producer.complete()
    for directory in cluster.write(tmp_path):
        (directory / names.FileName.CLEAN_SHUTDOWN).unlink()
        for path in [directory, *directory.rglob("*")]:
            os.utime(path, (cluster.now_ms / 1_000 - 5, cluster.now_ms / 1_000 - 5))
    report = decided(tmp_path)
    assert report.findings == ()
    assert {reason.why.partition(":")[0] for reason in report.unknown_because} == {"recent"}


@pytest.mark.parametrize("broker", [1, 2])
@pytest.mark.parametrize(
    ("change", "state"),
    [(remove_marker, AuditState.NO_MARKER), (turn_marker, AuditState.CONTRADICTS)],
)
def test_a_marker_that_one_replica_lacks_is_found_whichever_leads(
    disks: Path, broker: int, change: Change, state: AuditState
) -> None:
    replica = disks / f"broker-{broker}" / names.directory_name(ORDERS)
    change(replica, markers_in(replica)[5].offset)
    report = decided(disks)
    (finding,) = report.findings
    assert (finding.state, finding.topic) == (state, ORDERS.topic)
    assert ("on a replica that differs" in finding.explanation) is (broker == 2)
    assert report.problems == (
        "orders-0: replicas hold different markers; txnsim logs verify says where",
    )


def test_a_partition_without_coordinators_logs_is_unknown(disks: Path) -> None:
    for replica in disks.glob("broker-*/__transaction_state-0"):
        shutil.rmtree(replica)
    report = decided(disks)
    assert (report.findings, report.agrees) == ((), 0)
    (reason,) = report.unknown_because
    assert reason.why == "no replica of __transaction_state is among the directories"


def test_the_leaders_replica_counts(disks: Path) -> None:
    """A follower that is behind lacks markers, which is no finding."""
    follower_directory = disks / "broker-2" / names.directory_name(ORDERS)
    shutil.rmtree(follower_directory)
    shutil.copytree(disks / "broker-2" / names.directory_name(PAYMENTS), follower_directory)
    for snapshot_file in follower_directory.glob("*.snapshot"):
        snapshot_file.unlink()
    assert decided(disks / "broker-1").findings == ()


# Drawn histories


class DrawnCluster:
    """A cluster of random transactions with faults, and the truth about each."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.cluster = WrittenCluster()
        self.truth: Counter[AuditState] = Counter()
        """State -> findings that ``logs decisions`` must have."""
        self._draw = draw
        producers = [
            self.cluster.producer(f"app-{number}", is_v2=bool(number % 2)) for number in range(3)
        ]
        for _ in range(draw(st.integers(1, 25))):
            self.cluster.now_ms += draw(st.sampled_from([0, 1, 40, 3_000]))
            self._play(draw(st.sampled_from(producers)))

    def _play(self, producer: WrittenProducer) -> None:
        draw = self._draw
        partitions = draw(
            st.lists(st.sampled_from([ORDERS, PAYMENTS, POSITIONS]), min_size=1, unique=True)
        )
        for partition in partitions:
            producer.write(partition, draw(st.integers(1, 3)))
        is_commit = draw(st.booleans())
        producer.decide(is_commit=is_commit)
        for partition in partitions:
            fault = draw(st.sampled_from([None] * 12 + ["lost", "turned", "repeated", "moved"]))
            match fault:
                case "lost":
                    self.truth[AuditState.NO_MARKER] += 1
                    continue
                case "turned":
                    self.truth[AuditState.CONTRADICTS] += 1
                    producer.mark(partition, is_commit=not is_commit)
                    continue
                case "moved":
                    self.cluster.move_leader(partition)
                    self.cluster.move_coordinator()
                case "repeated":
                    self.truth[AuditState.TWICE] += 1
                    producer.mark(partition)
                case _:
                    pass
            producer.mark(partition)
        producer.complete()


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_findings_of_drawn_histories_are_the_faults_that_made_them(data: st.DataObject) -> None:
    drawn_cluster = DrawnCluster(data.draw)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder_path:
        drawn_cluster.cluster.write(Path(folder_path) / "disks")
        report = decided(Path(folder_path) / "disks")
    found_states = Counter(finding.state for finding in report.findings)
    if not drawn_cluster.truth:
        assert (found_states, report.unknown) == (Counter(), 0)
    assert report.agrees + len(report.findings) + report.unknown >= report.decisions
    # Where faults of an epoch make up for each other, clocks of two leaders could explain it.
    assert sum(found_states.values()) + report.unknown >= bool(drawn_cluster.truth)
    if report.unknown == 0 and sum(drawn_cluster.truth.values()) == 1:
        assert found_states == drawn_cluster.truth
