"""``logs verify`` on Spark: the same findings as one segment after the other, in several tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.soundness import busy_log, found_in, patch, write_log_dir
from txnsim.cli.main import main
from txnsim.pipeline.engine import Engine, Way
from txnsim.pipeline.soundness.verify import Plan, plan, verify
from txnsim.pipeline.soundness.violations import Violation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def by_spark(spark: SparkSession, planned: Plan) -> list[Violation]:
    return list(verify(Engine(lambda: spark, print), planned, Way.SPARK))


@pytest.fixture
def log_dirs(tmp_path: Path) -> Path:
    """Two brokers with two replicas each; one is damaged in two ways."""
    for broker in (1, 2):
        drivers = {"orders-0": busy_log(), "payments-0": busy_log()}
        write_log_dir(tmp_path / f"broker-{broker}", broker, drivers)
    replica = tmp_path / "broker-2" / "orders-0"
    patch(replica / "00000000000000000025.log", 5, base_sequence=11)
    (replica / "00000000000000000048.txnindex").write_bytes(b"no")
    return tmp_path


def test_findings_are_those_of_one_process(spark: SparkSession, log_dirs: Path) -> None:
    found = by_spark(spark, plan([log_dirs]))
    assert len(found) == 4  # two sequences, a file, a difference between replicas
    key = repr
    assert sorted(found, key=key) == sorted(found_in(log_dirs), key=key)
    assert {one.broker for one in found} == {2}


def test_segments_are_shared_out(spark: SparkSession, log_dirs: Path) -> None:
    planned = plan([log_dirs], task_bytes=2_000)
    assert len(planned.tasks) > 2
    group = "verify-segments"
    spark.sparkContext.setJobGroup(group, "walk over segments")
    assert len(by_spark(spark, planned)) == 4
    tracker = spark.sparkContext.statusTracker()
    stages = [
        info.numTasks
        for job in tracker.getJobIdsForGroup(group)
        for stage in getattr(tracker.getJobInfo(job), "stageIds", ())
        if (info := tracker.getStageInfo(stage)) is not None
    ]
    assert len(planned.tasks) in stages


@pytest.mark.usefixtures("spark")
def test_the_command_tells_each_and_ends_with_a_status(
    log_dirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "verify", str(log_dirs), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["replicas"], told["segments"], len(told["findings"])) == (4, 20, 4)
    assert main(["logs", "verify", str(log_dirs / "broker-1")]) == 0
    assert capsys.readouterr().err.endswith(": sound\n")


def test_nothing_to_read_is_sound(spark: SparkSession, tmp_path: Path) -> None:
    write_log_dir(tmp_path, 1, {})
    assert by_spark(spark, plan([tmp_path])) == []
