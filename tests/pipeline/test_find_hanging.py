"""The search with Spark: the same answers as without, from jobs of several tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.support.broker_dirs import BrokerDir, forget_the_end, move
from tests.support.logs import NOW, LogDriver, plain
from txnsim.log.config import LogConfig
from txnsim.pipeline import planning
from txnsim.pipeline.engine import Engine, Way
from txnsim.pipeline.forensics.coordinator_log import logs_of, replayed
from txnsim.pipeline.forensics.find_hanging import Search, find_hanging
from txnsim.pipeline.forensics.findings import Report
from txnsim.pipeline.forensics.read_compiled import log_job, replica_job
from txnsim.pipeline.forensics.replica_state import ReplicaState, state_of
from txnsim.pipeline.scan.segments import replicas_in
from txnsim.releases.rules import LATEST
from txnsim.runtime.rng import SeededRng
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.state import Tombstone, TxnRecord
from txnsim.types import TopicPartition, TransactionalId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEED = 20_261_120
MINUTE = 60_000


def random_log(number: int) -> LogDriver:
    """Some producers that begin, write, end and bump their epochs over several segments."""
    chance = SeededRng(SEED).stream(f"log {number}")
    driver = LogDriver(LogConfig(rules=LATEST, roll_bytes=chance.choice([300, 700, 5_000])))
    epochs = dict.fromkeys(range(1, 6), 0)
    sequences = dict.fromkeys(epochs, 0)
    for step in range(chance.randrange(20, 60)):
        pid = chance.choice(list(epochs))
        match chance.randrange(6):
            case 0:
                driver.append(plain(timestamp=NOW + step))
            case 1:
                driver.end(committed=chance.random() < 0.5, pid=pid, epoch=epochs[pid])
            case 2:
                epochs[pid] += 1
                sequences[pid] = 0
                driver.end(committed=False, pid=pid, epoch=epochs[pid], coordinator_epoch=1)
            case _:
                count = chance.randrange(1, 3)
                refused = driver.txn(
                    sequences[pid], count=count, pid=pid, epoch=epochs[pid], timestamp=NOW + step
                )
                sequences[pid] += 0 if refused else count
    return driver


def states_in(log_dir: Path, *, use_snapshots: bool) -> list[ReplicaState]:
    return [state_of(one, use_snapshots=use_snapshots) for one in replicas_in([log_dir])]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A killed broker's directory of a dozen random replicas."""
    broker = BrokerDir(tmp_path_factory.mktemp("killed") / "broker-1")
    for partition in range(12):
        forget_the_end(broker.replica(random_log(partition), "random", partition))
    return broker.kill()


@pytest.mark.parametrize("use_snapshots", [True, False])
def test_the_merge_on_workers_is_the_merge_here(
    spark: SparkSession, killed: Path, *, use_snapshots: bool
) -> None:
    states = [one for one in states_in(killed, use_snapshots=use_snapshots) if one.unread]
    assert states
    engine = Engine(lambda: spark, print)
    job = replica_job(states, cores=engine.cores(Way.SPARK))
    found = engine.done(job, Way.SPARK)
    assert found == engine.done(job, Way.HERE)
    assert sum(len(one.opened) for one in found.values()) > 12


HERE = TopicPartition("orders", 0)


def coordinators_dir(path: Path) -> Path:
    """Entries of every kind, in three partitions."""
    broker = BrokerDir(path)
    records: list[tuple[TxnRecord, ...]] = [
        (
            move("Empty", name="a", pid=1),
            move("Ongoing", HERE, name="a", pid=1),
            move("PrepareCommit", HERE, name="a", pid=1, at_ms=NOW + 9),
            move("CompleteCommit", name="a", pid=1, at_ms=NOW + 10),
        ),
        (
            move("Ongoing", HERE, name="b", pid=2),
            move("PrepareAbort", HERE, TopicPartition("orders", 3), name="c", pid=3, epoch=6),
            Tombstone(transactional_id=TransactionalId("b")),
        ),
        (
            move("CompleteAbort", name="d", pid=5, previous=4),
            move("Ongoing", HERE, name="e", pid=6),
            move("Empty", name="f", pid=99),
        ),
    ]
    for partition, moves in enumerate(records):
        broker.coordinator(*moves, partition=partition)
    return broker.stop()


def test_entries_from_workers_are_the_entries_read_here(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = logs_of(states_in(coordinators_dir(tmp_path / "broker-1"), use_snapshots=True))
    states = [state for ranked in logs.values() for state in ranked]
    wanted = {1, 2, 4, 5, 6}
    there = Engine(lambda: spark, print).done(log_job(states, wanted), Way.SPARK)
    assert {path: read.replayed for path, read in there.items()} == {
        state.replica.path: replayed(state, print).concerning(wanted) for state in states
    }
    assert {name for read in there.values() for name in read.replayed.gone.values()} == {"b"}
    assert not any(read.problems for read in there.values())


def report_on(spark: SparkSession, path: Path, *, with_spark: bool) -> Report:
    search = Search(paths=(path,), as_of_ms=NOW + 60 * MINUTE, with_spark=with_spark)
    return find_hanging(search, new_session=lambda: spark, progress=print)


def test_a_killed_broker_is_judged_alike_with_and_without_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    driver = LogDriver(LogConfig(rules=LATEST, roll_bytes=300))
    driver.txn(0, pid=7)
    driver.txn(0, pid=8)
    driver.end(committed=True, pid=7)
    driver.txn(1, pid=7)
    for _ in range(8):
        driver.append(plain())
    broker = BrokerDir(tmp_path / "broker-1")
    forget_the_end(broker.replica(driver))
    broker.coordinator(move("Empty"), move("Ongoing", HERE, name="alive", pid=8))
    log_dir = broker.kill()
    here = report_on(spark, log_dir, with_spark=False)
    there = report_on(spark, log_dir, with_spark=True)
    assert there.source.with_spark
    assert not here.source.with_spark
    assert {one.verdict for one in there.findings} == {OpenTxnStatus.HANGING, OpenTxnStatus.ALIVE}
    assert msgspec.structs.replace(there, source=here.source) == here


def test_segments_are_shared_out_to_several_tasks(
    spark: SparkSession, killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_TASK_BYTES_MIN", 2_000)
    monkeypatch.setattr(planning, "_OPEN_BYTES", 0)
    states = states_in(killed, use_snapshots=False)
    tracker = spark.sparkContext.statusTracker()
    group = "find-hanging"

    def jobs() -> set[int]:
        # Rows are fetched by a thread of the JVM, which need not know the group.
        return {*tracker.getJobIdsForGroup(group), *tracker.getJobIdsForGroup(None)}

    before = jobs()
    spark.sparkContext.setJobGroup(group, "find hanging transactions")
    engine = Engine(lambda: spark, print)
    assert engine.done(replica_job(states, cores=engine.cores(Way.SPARK)), Way.SPARK)
    tasks = [
        stage.numTasks
        for job in jobs() - before
        if (info := tracker.getJobInfo(job)) is not None
        for number in info.stageIds
        if (stage := tracker.getStageInfo(number)) is not None
    ]
    assert max(tasks) > 4
