"""Jobs on Spark's workers give the answers of this process, from several tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.support.broker_dirs import BrokerDir, move, remove_end_snapshot
from tests.support.logs import NOW, LogDriver, plain
from tests.support.soundness import busy_log, patch, write_log_dir
from txnsim.cli.main import main
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST_RULES
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition
from txnsim_spark import planning
from txnsim_spark.engine import Engine, EngineJob, EngineKind
from txnsim_spark.forensics._coordinator_log import coordinator_logs_of
from txnsim_spark.forensics._read_compiled import log_job, replica_job
from txnsim_spark.forensics.find_hanging import Search, find_hanging
from txnsim_spark.forensics.findings import Report
from txnsim_spark.forensics.replica_state import ReplicaState, state_of
from txnsim_spark.scan.segments import replicas_in
from txnsim_spark.soundness.verify import plan_verification, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HERE = TopicPartition("orders", 0)
MINUTE = 60_000


@pytest.fixture(scope="module")
def killed_broker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories of killed brokers: replicas of several segments and coordinators' logs, with
    hanging and live transactions.
    """
    broker = BrokerDir(tmp_path_factory.mktemp("killed") / "broker-1")
    for partition in range(4):
        driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=300))
        driver.txn(0, producer_id=7)
        driver.txn(0, producer_id=8)
        driver.end(committed=True, producer_id=7)
        driver.txn(1, producer_id=7)
        for _ in range(8):
            driver.append(plain())
        remove_end_snapshot(broker.replica(driver, "orders", partition))
    broker.coordinator(move("Empty"), move("Ongoing", HERE, name="alive", producer_id=8))
    broker.coordinator(move("PrepareAbort", HERE, name="other", producer_id=9), partition=1)
    return broker.kill()


def states_in(log_dir: Path) -> list[ReplicaState]:
    return [state_of(replica, uses_snapshots=False) for replica in replicas_in([log_dir])]


def of_replicas(log_dir: Path) -> EngineJob[Any, Any]:
    return replica_job(states_in(log_dir), core_count=4)


def of_coordinators(log_dir: Path) -> EngineJob[Any, Any]:
    logs = coordinator_logs_of(states_in(log_dir))
    return log_job([ranked_states[0] for ranked_states in logs.values()], {7, 8})


@pytest.mark.parametrize("job_of", [of_replicas, of_coordinators])
def test_workers_find_what_this_process_finds(
    spark: SparkSession,
    killed_broker: Path,
    job_of: Callable[[Path], EngineJob[Any, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "_TASK_BYTES_MIN", 2_000)
    monkeypatch.setattr(planning, "_OPEN_BYTES", 0)
    job = job_of(killed_broker)
    assert len(job.tasks) > 1
    engine = Engine(lambda: spark, print)
    results = engine.results_of(job, EngineKind.SPARK)
    assert results
    assert results == engine.results_of(job, EngineKind.HERE)
    tracker = spark.sparkContext.statusTracker()
    stages = [
        info.numTasks
        for stage_number in tracker.getJobIdsForGroup(None)
        for stage in getattr(tracker.getJobInfo(stage_number), "stageIds", ())
        if (info := tracker.getStageInfo(stage)) is not None
    ]
    assert len(job.tasks) in stages


def test_a_report_is_the_same_with_and_without_spark(
    spark: SparkSession, killed_broker: Path
) -> None:
    def report(*, with_spark: bool) -> Report:
        search = Search(paths=(killed_broker,), as_of_ms=NOW + 60 * MINUTE, with_spark=with_spark)
        return find_hanging(search, new_session=lambda: spark)

    report_without_spark, report_with_spark = report(with_spark=False), report(with_spark=True)
    assert (report_without_spark.source.with_spark, report_with_spark.source.with_spark) == (
        False,
        True,
    )
    assert {finding.verdict for finding in report_with_spark.findings} == {
        OpenTxnStatus.HANGING,
        OpenTxnStatus.ALIVE,
    }
    assert (
        msgspec.structs.replace(report_with_spark, source=report_without_spark.source)
        == report_without_spark
    )


def test_what_breaks_a_rule_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    for broker in (1, 2):
        driver_by_name = {"orders-0": busy_log(), "payments-0": busy_log()}
        write_log_dir(tmp_path / f"broker-{broker}", broker, driver_by_name)
    replica = tmp_path / "broker-2" / "orders-0"
    patch(replica / "00000000000000000025.log", 5, base_sequence=11)
    (replica / "00000000000000000048.txnindex").write_bytes(b"no")
    verification_plan = plan_verification([tmp_path], task_bytes=2_000)
    assert len(verification_plan.tasks) > 2
    engine = Engine(lambda: spark, print)
    violations = list(verify(engine, verification_plan, EngineKind.SPARK))
    assert len(violations) == 4  # two sequences, a file, a difference between replicas
    assert violations == list(verify(engine, verification_plan, EngineKind.HERE))
    assert main(["logs", "verify", str(tmp_path / "broker-1")]) == 0
