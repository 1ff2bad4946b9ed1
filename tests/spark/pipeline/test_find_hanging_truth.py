"""``logs find-hanging`` on directories of a real Apache Kafka, compared with the truth: what the
script did that made them, and what Kafka's own ``find-hanging`` listed before the stop.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.spark.pipeline.corpus.made import Corpus
from tests.spark.pipeline.corpus.truth import HangingRow, OpenTransaction, Place, Stage
from tests.spark.pipeline.reading import STAGES
from tests.support.no_spark import no_session
from txnsim.storage import names
from txnsim.storage.checkpoints import decode_offsets
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import INTERNAL_TOPICS, TopicPartition
from txnsim_spark.forensics.find_hanging import Search, find_hanging
from txnsim_spark.forensics.findings import Finding, Report
from txnsim_spark.forensics.verdicts import Reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.real]

MINUTE = 60_000
VERDICTS = {
    "hanging": OpenTxnStatus.HANGING,
    "open": OpenTxnStatus.ALIVE,
    "undecided": OpenTxnStatus.DECIDED,
}
"""Verdicts of open transactions, except on replicas that stopped early."""

WITHOUT_THE_EXTRA = """
import sys
from pathlib import Path

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "numpy", "numba", "pyarrow", "pandas"}:
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
from txnsim.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def report_on(
    corpus: Corpus,
    stage_name: str,
    spark: SparkSession | None = None,
    *,
    uses_snapshots: bool = True,
) -> Report:
    search = Search(
        paths=corpus.brokers(stage_name),
        as_of_ms=corpus.stage(stage_name).stopped_at_ms,
        max_transaction_timeout_ms=MINUTE,  # as Kafka's tool was asked
        uses_snapshots=uses_snapshots,
        with_spark=spark is not None,
    )
    return find_hanging(
        search,
        new_session=no_session if spark is None else lambda: spark,
        progress=lambda _: None,
    )


def partition_of(finding: Finding) -> Place:
    return Place(finding.topic, finding.partition)


Key = tuple[Place, int, int, int, int]


def key_of(finding: Finding | OpenTransaction) -> Key:
    partition = partition_of(finding) if isinstance(finding, Finding) else finding.place
    return (
        partition,
        finding.producer_id,
        finding.producer_epoch,
        finding.start_offset,
        finding.last_timestamp_ms,
    )


def reported_statuses(report: Report, stage: Stage) -> dict[Key, OpenTxnStatus]:
    """The open transactions in the topics that the script has noted."""
    unjudged_topics = INTERNAL_TOPICS | set(stage.writers)
    return {
        key_of(finding): finding.verdict
        for finding in report.findings
        if finding.topic not in unjudged_topics
    }


def row_of(finding: Finding) -> HangingRow:
    return HangingRow(
        place=partition_of(finding),
        producer_id=finding.producer_id,
        producer_epoch=finding.producer_epoch,
        coordinator_epoch=-1 if finding.coordinator_epoch is None else finding.coordinator_epoch,
        start_offset=finding.start_offset,
        last_timestamp_ms=finding.last_timestamp_ms,
    )


@pytest.mark.parametrize("stage_name", STAGES)
@pytest.mark.parametrize("uses_snapshots", [True, False], ids=["snapshots", "segments"])
def test_every_open_transaction_is_found_and_judged_rightly(
    corpus: Corpus, stage_name: str, *, uses_snapshots: bool
) -> None:
    truth = corpus.stage(stage_name)
    report = report_on(corpus, stage_name, uses_snapshots=uses_snapshots)
    incomplete = ended_below_its_high_watermark(corpus, stage_name)
    expected = {
        key_of(truth): OpenTxnStatus.UNKNOWN
        if truth.place in incomplete and truth.verdict == "hanging"
        else VERDICTS[truth.verdict]
        for truth in truth.open
        if truth.verdict != "lagging"
    }
    assert reported_statuses(report, truth) == expected
    assert set(expected.values()) >= set(VERDICTS.values())
    assert report.source.transaction_log_gap == ""
    lost_folders = {
        problem_text.partition(": the log ends at offset ")[0]
        for problem_text in report.source.problems
    }
    assert {Path(folder_path).name for folder_path in lost_folders} <= {
        f"{topic}-{n}" for topic, n in incomplete
    }


def ended_below_its_high_watermark(corpus: Corpus, stage_name: str) -> set[Place]:
    """Damaged partitions whose log ends below its checkpointed high watermark: a marker may be lost
    there. How far the checkpoint had come when the broker was killed differs from corpus to corpus.
    """
    noted_watermark_by_partition: dict[TopicPartition, int] = {}
    for log_dir in corpus.brokers(stage_name):
        checkpoint_file = log_dir / names.FileName.HIGH_WATERMARKS
        noted_watermark_by_partition |= decode_offsets(
            checkpoint_file.read_text(), error_prefix=str(checkpoint_file)
        )
    return {
        true_damage.place
        for true_damage in corpus.stage(stage_name).damage
        if noted_watermark_by_partition.get(TopicPartition(*true_damage.place), 0)
        > true_damage.sound_end
    }


@pytest.mark.parametrize("stage_name", STAGES)
def test_what_kafkas_own_tool_listed_is_listed(corpus: Corpus, stage_name: str) -> None:
    """But for what came to hang after it was asked: the partition whose only replica had stopped,
    the marker that was torn off.
    """
    truth = corpus.stage(stage_name)
    excluded_partitions = (
        {Place("lonely", 0)} if stage_name == "clean" else {truth.place for truth in truth.damage}
    )
    rows = {
        row_of(finding)
        for finding in report_on(corpus, stage_name).findings
        if finding.listed_by_kafka
    }
    assert {row for row in rows if row.place not in excluded_partitions} == set(truth.find_hanging)
    assert truth.find_hanging


def test_after_a_stop_in_order_no_segment_is_read(corpus: Corpus) -> None:
    source = report_on(corpus, "clean").source
    assert (source.scanned, source.scanned_bytes) == (0, 0)
    assert source.from_snapshots > 20


def test_after_a_kill_only_what_lies_behind_the_last_snapshots_is_read(corpus: Corpus) -> None:
    source = report_on(corpus, "killed").source
    whole_source = report_on(corpus, "killed", uses_snapshots=False).source
    # A replica without a sound snapshot is read from its recovery point on, so all may be read; but
    # not all of each.
    assert 0 < source.scanned <= whole_source.scanned
    assert 0 < source.scanned_bytes < whole_source.scanned_bytes


def test_torn_ends_are_told_as_what_a_broker_cuts_off(corpus: Corpus) -> None:
    cut_off_lines = report_on(corpus, "torn", uses_snapshots=False).source.cut_off
    torn_places = {true_damage.place for true_damage in corpus.stage("torn").damage}
    assert {line.rsplit("/", 2)[1] for line in cut_off_lines} == {
        f"{partition.topic}-{partition.partition}" for partition in torn_places
    }


def test_a_commit_whose_marker_was_left_out_is_told_as_one(corpus: Corpus) -> None:
    """KAFKA-20734: the partition had no leader, so the coordinator dropped its marker."""
    (lonely_finding,) = [
        finding for finding in report_on(corpus, "killed").findings if finding.topic == "lonely"
    ]
    assert (lonely_finding.rule, lonely_finding.outcome, lonely_finding.state) == (
        Reason.COMPLETED_UNMARKED,
        "commit",
        "CompleteCommit",
    )


def test_a_replica_that_stopped_earlier_contradicts_nobody(corpus: Corpus) -> None:
    (lagging_transaction,) = [
        true_transaction
        for true_transaction in corpus.stage("clean").open
        if true_transaction.verdict == "lagging"
    ]
    report = report_on(corpus, "clean")
    assert all(partition_of(finding) != lagging_transaction.place for finding in report.findings)
    assert report.with_verdicts(OpenTxnStatus.REPLICAS_DISAGREE) == ()
    other_search = Search(
        paths=corpus.brokers("clean")[1:], topics=frozenset({lagging_transaction.place.topic})
    )
    hanging_report = find_hanging(other_search, new_session=no_session, progress=lambda _: None)
    assert [finding.start_offset for finding in hanging_report.findings] == [
        lagging_transaction.start_offset
    ]


def test_stable_offsets_are_those_that_leaders_told(corpus: Corpus) -> None:
    true_stage = corpus.stage("clean")
    leader_by_partition = {
        partition.place: partition for topic in true_stage.topics for partition in topic.partitions
    }
    figures = report_on(corpus, "clean").partitions
    user_figures = [
        partition_figures
        for partition_figures in figures
        if partition_figures.topic not in INTERNAL_TOPICS
    ]
    assert user_figures
    for partition_figures in user_figures:
        leader = leader_by_partition[Place(partition_figures.topic, partition_figures.partition)]
        assert (partition_figures.last_stable_offset, partition_figures.end_offset) == (
            leader.last_stable,
            leader.end,
        )
        assert (
            partition_figures.lag
            == partition_figures.high_watermark - partition_figures.last_stable_offset
        )


def test_positions_in_open_transactions_hold_the_groups_log_back(corpus: Corpus) -> None:
    report = report_on(corpus, "clean")
    offsets = [finding for finding in report.findings if finding.topic == "__consumer_offsets"]
    assert [offset.verdict for offset in offsets] == [OpenTxnStatus.ALIVE]


@pytest.mark.parametrize("uses_snapshots", [True, False], ids=["snapshots", "segments"])
@pytest.mark.parametrize("stage_name", ["killed", "torn"])
def test_spark_says_the_same(
    spark: SparkSession, corpus: Corpus, stage_name: str, *, uses_snapshots: bool
) -> None:
    report_here = report_on(corpus, stage_name, uses_snapshots=uses_snapshots)
    report_by_spark = report_on(corpus, stage_name, spark, uses_snapshots=uses_snapshots)
    source = msgspec.structs.replace(report_by_spark.source, with_spark=False)
    assert report_by_spark.source.with_spark
    assert msgspec.structs.replace(report_by_spark, source=source) == report_here


def test_a_directory_that_stopped_in_order_is_judged_without_spark_being_there(
    corpus: Corpus,
) -> None:
    """Run the command in a process that can't import PySpark, numpy or numba."""
    brokers = map(str, corpus.brokers("clean"))
    arguments = ["logs", "find-hanging", "--json", "--max-transaction-timeout", "0", *brokers]
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 3, run.stderr
    hanging = [
        finding for finding in json.loads(run.stdout)["findings"] if finding["verdict"] == "hanging"
    ]
    truth = [truth for truth in corpus.stage("clean").open if truth.verdict == "hanging"]
    assert len(hanging) == len(truth)
