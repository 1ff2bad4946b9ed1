"""From directories to a report, without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.support.broker_dirs import BrokerDir, move, remove_end_snapshot
from tests.support.logs import NOW, LogDriver, plain
from tests.support.no_spark import no_session
from txnsim import on_demand_imports
from txnsim.errors import BadInputError, MissingExtraError
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import names
from txnsim.text import time_text
from txnsim.txn.marker_payment import BEFORE_ALL_MARKERS_MS, NO_MARKERS
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.state import TxnTransition
from txnsim.types import TopicPartition
from txnsim_spark.forensics import find_hanging as module
from txnsim_spark.forensics._partition_markers import markers_before
from txnsim_spark.forensics.find_hanging import Search, find_hanging
from txnsim_spark.forensics.findings import Finding, Report
from txnsim_spark.forensics.verdicts import Reason
from txnsim_spark.options import time_ms_of
from txnsim_spark.scan.segments import Replica, segments_of

HERE = TopicPartition("orders", 0)
MINUTE = 60_000


def report_on(*paths: Path, age_min: int = 60, **search_fields: object) -> Report:
    values = {"as_of_ms": NOW + age_min * MINUTE, **search_fields}
    search = Search(paths=paths, **values)  # type: ignore[arg-type] # each test names what it wants
    return find_hanging(search, new_session=no_session, progress=lambda _: None)


def only_finding(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


@pytest.fixture
def driver() -> LogDriver:
    """Producer 7 has a transaction open since offset 2; the one before was committed."""
    log_driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=300))
    log_driver.txn(0)
    log_driver.end(committed=True, coordinator_epoch=4)
    log_driver.txn(1)
    log_driver.txn(2, timestamp=NOW + 5)
    for _ in range(6):
        log_driver.append(plain())
    return log_driver


def broker_with(
    path: Path, driver: LogDriver, *states: str, broker: int = 1, is_clean: bool = True
) -> BrokerDir:
    broker_dir = BrokerDir(path, broker)
    replica = broker_dir.replica(driver)
    broker_dir.coordinator(*(move(state, HERE) for state in states))
    if is_clean:
        broker_dir.stop()
    else:
        remove_end_snapshot(replica)
        broker_dir.kill()
    return broker_dir


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("uses_snapshots", [True, False])
def test_a_transaction_that_nobody_lists_hangs(
    tmp_path: Path, driver: LogDriver, *, is_clean: bool, uses_snapshots: bool
) -> None:
    broker = broker_with(tmp_path / "b", driver, "Empty", is_clean=is_clean)
    report = report_on(broker.path, uses_snapshots=uses_snapshots)
    finding = only_finding(report)
    assert (finding.verdict, finding.rule) == (OpenTxnStatus.HANGING, Reason.NOT_LISTED)
    assert (finding.producer_id, finding.producer_epoch, finding.coordinator_epoch) == (7, 0, 4)
    assert (finding.start_offset, finding.start_timestamp_ms) == (2, NOW)
    assert (finding.last_timestamp_ms, finding.age_ms) == (NOW + 5, 60 * MINUTE - 5)
    (figures,) = report.partitions
    assert (figures.last_stable_offset, figures.lag) == (2, driver.log.log_end_offset - 2)
    was_scanned = not (is_clean and uses_snapshots)
    assert report.source.scanned == int(was_scanned)
    assert (report.source.scanned_bytes > 0) is was_scanned
    assert not report.source.with_spark
    assert report.source.directories == (str(broker.path),)


@pytest.mark.parametrize(
    ("state", "status"),
    [("Ongoing", OpenTxnStatus.ALIVE), ("PrepareAbort", OpenTxnStatus.DECIDED)],
)
def test_a_transaction_that_its_coordinator_lists_does_not_hang(
    tmp_path: Path, driver: LogDriver, state: str, status: OpenTxnStatus
) -> None:
    report = report_on(broker_with(tmp_path / "b", driver, state).path)
    assert only_finding(report).verdict is status
    assert [owed_txn.state for owed_txn in report.owed] == (
        [state] if status is OpenTxnStatus.DECIDED else []
    )


def decided_and_complete(*, at_ms: int) -> list[TxnTransition]:
    """A commit of the partition by the old flow, after an epoch that began a minute before."""
    return [
        with_times("Empty", at_ms=at_ms - MINUTE),
        with_times("PrepareCommit", HERE, at_ms=at_ms),
        with_times("CompleteCommit", at_ms=at_ms + 3),
    ]


def with_times(state: str, *partitions: TopicPartition, at_ms: int) -> TxnTransition:
    return msgspec.structs.replace(
        move(state, *partitions),
        start_timestamp_ms=at_ms - 5 if partitions else -1,
        last_update_timestamp_ms=at_ms,
    )


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
def test_what_lies_behind_the_marker_of_the_last_decision_is_to_be_aborted(
    tmp_path: Path, driver: LogDriver, *, is_clean: bool
) -> None:
    """Such records were in no transaction. Yet COMMIT was advised: the decision whose marker was
    already written was taken for theirs.
    """
    broker = BrokerDir(tmp_path / "b")
    replica = broker.replica(driver)
    broker.coordinator(*decided_and_complete(at_ms=NOW - 3))
    if is_clean:
        broker.stop()
    else:
        remove_end_snapshot(replica)
        broker.kill()
    finding = only_finding(report_on(broker.path))
    assert (finding.verdict, finding.outcome) == (OpenTxnStatus.HANGING, "abort")
    assert "the marker at offset 1 has carried it out" in (finding.outcome_because or "")
    assert finding.abort is not None, "Kafka's own tool does the same"


def test_what_a_lost_marker_left_open_is_to_be_committed(tmp_path: Path, driver: LogDriver) -> None:
    """The marker at offset 1 is an hour older than the decision (KAFKA-20734)."""
    broker = BrokerDir(tmp_path / "b")
    broker.replica(driver)
    broker.coordinator(
        *decided_and_complete(at_ms=NOW), *decided_and_complete(at_ms=NOW + 60 * MINUTE)[1:]
    )
    broker.stop()
    finding = only_finding(report_on(broker.path, age_min=120))
    assert (finding.verdict, finding.outcome) == (OpenTxnStatus.HANGING, "commit")


def test_where_retention_took_the_markers_nothing_is_guessed(
    tmp_path: Path, driver: LogDriver
) -> None:
    broker = BrokerDir(tmp_path / "b")
    replica = broker.replica(driver)
    broker.coordinator(*decided_and_complete(at_ms=NOW - 3))
    broker.stop()
    first_log_file, *_ = sorted(replica.glob("*.log"))
    for file in replica.glob(f"{first_log_file.stem}.*"):
        file.unlink()
    finding = only_finding(report_on(broker.path))
    assert (finding.verdict, finding.outcome) == (OpenTxnStatus.HANGING, "unknown")


def test_no_more_segments_are_read_than_a_time_needs(tmp_path: Path, driver: LogDriver) -> None:
    """Closed segments whose greatest timestamp is older are not opened."""
    for _ in range(3):
        driver.now += 10 * MINUTE
        driver.txn(0, producer_id=9)
        driver.end(committed=True, producer_id=9)
        for _ in range(4):
            driver.append(plain(timestamp=driver.now))
    replica = BrokerDir(tmp_path / "b").replica(driver)
    log_dir = str(tmp_path / "b")
    segments = list(
        segments_of(
            Replica(log_dir=log_dir, broker=1, topic="orders", partition=0, path=str(replica))
        )
    )
    end = driver.log.log_end_offset
    all_markers = markers_before(segments, 9, before_offset=end, since_ms=0)
    late_markers = markers_before(segments, 9, before_offset=end, since_ms=NOW + 25 * MINUTE)
    assert (len(all_markers.markers), all_markers.complete_since_ms) == (3, BEFORE_ALL_MARKERS_MS)
    assert late_markers.complete_since_ms == NOW + 25 * MINUTE
    assert late_markers.markers == all_markers.markers[-len(late_markers.markers) :]
    assert 0 < len(late_markers.markers) < 3
    assert markers_before([], 9, before_offset=0, since_ms=0) == NO_MARKERS


def test_several_brokers_are_laid_side_by_side(tmp_path: Path, driver: LogDriver) -> None:
    """Broker 2 has the marker that broker 1 lacks, below what both have: no broker wrote that."""
    broker_with(tmp_path / "b1", driver, "Empty", broker=1)
    other_driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=300))
    other_driver.txn(0)
    other_driver.end(committed=True)
    other_driver.txn(1)
    other_driver.end(committed=False)
    for _ in range(5):
        other_driver.append(plain())
    broker_with(tmp_path / "b2", other_driver, "Empty", broker=2)
    finding = only_finding(report_on(tmp_path))
    assert (finding.verdict, finding.open_on, finding.against) == (
        OpenTxnStatus.REPLICAS_DISAGREE,
        (1,),
        (2,),
    )


def test_a_replica_that_lacks_the_marker_only_because_it_is_behind_is_no_finding(
    tmp_path: Path, driver: LogDriver
) -> None:
    broker_with(tmp_path / "b1", driver, "Empty", broker=1)
    assert driver.end(committed=False, coordinator_epoch=4) == 0
    driver.append(plain())
    broker_with(tmp_path / "b2", driver, "Empty", broker=2)
    report = report_on(tmp_path)
    assert (report.findings, report.partitions) == ((), ())


def test_without_the_coordinators_log_nothing_is_guessed(tmp_path: Path, driver: LogDriver) -> None:
    broker = BrokerDir(tmp_path / "b")
    broker.replica(driver)
    report = report_on(broker.stop())
    assert only_finding(report).verdict is OpenTxnStatus.UNKNOWN
    assert "no partition of __transaction_state" in report.source.transaction_log_gap


def test_only_the_topics_that_are_asked_for_are_judged(tmp_path: Path, driver: LogDriver) -> None:
    broker = BrokerDir(tmp_path / "b")
    broker.replica(driver)
    broker.replica(driver, "payments", 3)
    broker.coordinator(move("Empty"))
    report = report_on(broker.stop(), topics=frozenset({"payments"}))
    assert only_finding(report).topic_partition == TopicPartition("payments", 3)
    assert report.source.replicas == 1
    assert report.source.transaction_log_gap == ""


def test_a_torn_tail_is_told_and_not_counted(tmp_path: Path, driver: LogDriver) -> None:
    broker = broker_with(tmp_path / "b", driver, "Empty", is_clean=False)
    *_, (_, last_log_file) = names.Suffix.LOG.files_in(broker.path / "orders-0")
    last_log_file.write_bytes(last_log_file.read_bytes()[:-1])
    report = report_on(broker.path)
    end = driver.log.log_end_offset - 1
    # What was below the high watermark is lost, unless the checkpoint is older than that.
    (problem_text,) = report.source.problems
    assert problem_text.endswith(
        f"orders-0: the log ends at offset {end}, below its high watermark {end + 1}"
    )
    checkpoint_file = broker.path / names.FileName.HIGH_WATERMARKS
    checkpoint_file.write_text(
        checkpoint_file.read_text().replace(f"orders 0 {end + 1}", f"orders 0 {end}")
    )
    report = report_on(broker.path)
    assert only_finding(report).start_offset == 2
    (cut_off_line,) = report.source.cut_off
    assert cut_off_line.startswith(f"{last_log_file}, byte ")
    assert report.source.problems == ()
    assert report.partitions[0].end_offset == end


def test_where_a_log_can_not_be_read_to_its_end_nothing_is_guessed(
    tmp_path: Path, driver: LogDriver
) -> None:
    broker = broker_with(tmp_path / "b", driver, "Empty")
    _, (_, middle_segment), *_ = names.Suffix.LOG.files_in(broker.path / "orders-0")
    middle_segment.write_bytes(middle_segment.read_bytes()[:-1])
    report = report_on(broker.path, uses_snapshots=False)
    assert only_finding(report).verdict is OpenTxnStatus.UNKNOWN
    assert only_finding(report).reason.startswith(f"it may have ended: {middle_segment}, byte ")
    assert len(report.source.problems) == 1
    assert only_finding(report_on(broker.path)).verdict is OpenTxnStatus.HANGING


def test_ages_are_counted_to_the_newest_time_that_files_tell(
    tmp_path: Path, driver: LogDriver
) -> None:
    broker = broker_with(tmp_path / "b", driver, "Empty")
    for path in broker.path.rglob("*"):
        os.utime(path, (1, 1))
    assert report_on(broker.path, as_of_ms=None).as_of_ms == NOW  # of the coordinator's record
    os.utime(broker.path / names.FileName.CLEAN_SHUTDOWN, ns=(0, (NOW + 77) * 1_000_000))
    assert report_on(broker.path, as_of_ms=None).as_of_ms == NOW + 77


def test_a_beginning_in_a_deleted_segment_has_no_time(tmp_path: Path, driver: LogDriver) -> None:
    broker = broker_with(tmp_path / "b", driver, "Empty")
    logs = names.Suffix.LOG.files_in(broker.path / "orders-0")
    for _, path in logs[:-1]:
        path.unlink()
    report = report_on(broker.path)
    assert only_finding(report).start_timestamp_ms is None
    assert report.partitions[0].last_stable_offset == logs[-1][0]


def test_progress_is_told_now_and_then(
    tmp_path: Path, driver: LogDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PROGRESS_EVERY", 1)
    broker = broker_with(tmp_path / "b", driver, "Empty", is_clean=False)
    progress_lines: list[str] = []
    find_hanging(
        Search(paths=(broker.path,)), new_session=no_session, progress=progress_lines.append
    )
    assert progress_lines[0] == "looked at 1 of 2 replicas"
    assert "read part 1 of 1" in progress_lines


def test_a_path_without_anything_of_kafka_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no log directory"):
        report_on(tmp_path)


def test_what_a_kill_left_to_read_takes_the_extra(
    tmp_path: Path, driver: LogDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra's libraries are imported neither before the message nor if snapshots are enough."""
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(on_demand_imports, "find_spec", lambda _name: None)
    killed_dir = broker_with(tmp_path / "killed", driver, "Ongoing", is_clean=False)
    with pytest.raises(MissingExtraError, match="the extra spark is not installed"):
        report_on(killed_dir.path)
    stopped_broker = broker_with(tmp_path / "stopped", driver, "Ongoing")
    assert only_finding(report_on(stopped_broker.path)).verdict is OpenTxnStatus.ALIVE


def test_the_files_of_an_advanced_clock_are_one_line_with_the_time_to_ask_for(
    tmp_path: Path, driver: LogDriver
) -> None:
    broker = broker_with(tmp_path / "b", driver, "Empty")
    files = [path for path in broker.path.rglob("*") if path.is_file()]
    newest_ms = NOW + 120 * MINUTE
    for number, file in enumerate(files):
        stamp = (newest_ms - number * 1_000) / 1_000
        os.utime(file, (stamp, stamp))
    report = report_on(broker.path, as_of_ms=None, now_ms=NOW + MINUTE)
    (problem_text,) = report.source.problems
    newest_text = time_text(newest_ms + 999)
    assert problem_text.endswith(f"other files: --as-of {newest_text} takes them")
    later_report = report_on(broker.path, as_of_ms=time_ms_of(newest_text), now_ms=NOW + MINUTE)
    assert later_report.source.problems == ()
    assert only_finding(later_report).verdict is OpenTxnStatus.HANGING


@pytest.mark.slow
def test_a_search_loads_no_event_loop() -> None:
    program = (
        "import sys, txnsim_spark.forensics.find_hanging, txnsim.runtime.wall_clock;"
        "sys.exit('structlog' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
