"""A topic was deleted and created again while a broker was down (``tests.support.remade_topic``):
no way of reading takes its old log for that of the new topic.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from tests.support.broker_dirs import BrokerDir
from tests.support.logs import NOW, driven_log
from tests.support.no_spark import no_session
from tests.support.remade_topic import GONE_ID, NEW_ID, OLD_ID, remade_topic
from txnsim.cli.main import main
from txnsim.storage import names
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim_spark.forensics._evidence import Status
from txnsim_spark.forensics.find_hanging import Search, find_hanging
from txnsim_spark.forensics.findings import Report
from txnsim_spark.questions._positions import leading_states

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("duckdb", reason="the extra spark is not installed")

HOUR_MS: Final = 3_600_000
SEARCH: Final = Search(paths=(), as_of_ms=NOW + HOUR_MS)
AS_OF: Final = ("--as-of", str(NOW + HOUR_MS))
Ask = Callable[[Path], Report]


def report_here(path: Path, **search_fields: Any) -> Report:
    search = msgspec.structs.replace(SEARCH, paths=(path,), **search_fields)
    return find_hanging(search, new_session=no_session, progress=lambda _: None)


def everything(path: Path) -> Report:
    return report_here(path, uses_snapshots=False)


@pytest.fixture(params=[report_here, everything])
def ask(request: pytest.FixtureRequest) -> Ask:
    return request.param  # type: ignore[no-any-return] # one of the functions above


@pytest.mark.parametrize("old_epoch", [7, 0], ids=["newer-epoch", "equal-epoch"])
def test_the_old_log_is_named_and_does_not_hide_what_hangs(
    tmp_path: Path, ask: Ask, old_epoch: int
) -> None:
    report = ask(remade_topic(tmp_path / "disks", old_epoch=old_epoch, is_clean=old_epoch > 0))
    (finding,) = report.findings
    assert (finding.verdict, finding.topic, finding.topic_id) == (
        OpenTxnStatus.HANGING,
        "orders",
        NEW_ID,
    )
    assert (finding.producer_id, finding.start_offset, finding.open_on) == (8, 1, (1,))
    assert finding.evidence.is_sound
    assert finding.command is not None
    stale_rows = [
        (stale_evidence.topic, stale_evidence.broker, stale_evidence.topic_id)
        for stale_evidence in report.source.stale
    ]
    assert stale_rows == [("gone", 2, GONE_ID), ("orders", 2, OLD_ID)]
    assert (report.source.replicas, report.source.problems) == (1, ())
    assert [partition.broker for partition in report.partitions] == [1]


@pytest.mark.parametrize(
    ("copies", "has_lost_records"),
    [((), False), ((2,), False), ((1,), True)],
    ids=["none", "old", "short"],
)
def test_where_no_copy_of_the_metadata_log_decides_nothing_is_guessed(
    tmp_path: Path, ask: Ask, copies: tuple[int, ...], *, has_lost_records: bool
) -> None:
    report = ask(remade_topic(tmp_path / "disks", copies=copies, has_lost_records=has_lost_records))
    finding_by_topic_id = {
        finding.topic_id: finding for finding in report.findings if finding.topic == "orders"
    }
    assert finding_by_topic_id.keys() == {NEW_ID, OLD_ID}
    for stale_replica_finding in finding_by_topic_id.values():
        assert (stale_replica_finding.verdict, stale_replica_finding.command) == (
            OpenTxnStatus.UNKNOWN,
            None,
        )
        assert stale_replica_finding.reason.startswith("orders was deleted and made again (id ")
        assert stale_replica_finding.evidence.status is Status.INCOMPLETE
    assert report.source.stale == ()


def test_the_same_coordinators_log_of_two_topics_is_not_used(tmp_path: Path) -> None:
    path = remade_topic(tmp_path)
    for log_dir, topic_id in (("broker-1", NEW_ID), ("broker-2", OLD_ID)):
        folder = path / log_dir / "__transaction_state-0"
        folder.mkdir(exist_ok=True)
        metadata_file = folder / names.FileName.PARTITION_METADATA
        metadata_file.write_text(f"version: 0\ntopic_id: {topic_id}\n")
    for copied_path in path.glob("*/__cluster_metadata-0/*.log"):
        copied_path.unlink()
    report = report_here(path)
    assert {finding.verdict for finding in report.findings} == {OpenTxnStatus.UNKNOWN}
    assert any(
        "__transaction_state was deleted" in problem_text for problem_text in report.source.problems
    )


# Commands


def test_the_exit_status_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory_with_copies = remade_topic(tmp_path / "told")
    assert main(["logs", "find-hanging", str(directory_with_copies), *AS_OF]) == 3
    output = capsys.readouterr()
    assert "stale replicas: 2" in output.err
    assert f"stale: orders, partition 0, on broker 2 has topic id {OLD_ID}" in output.err
    assert "repair --topic orders --partition 0" in output.out
    untold_file = remade_topic(tmp_path / "untold", copies=())
    assert main(["logs", "find-hanging", str(untold_file), *AS_OF]) == 4
    assert "replica" not in capsys.readouterr().out.replace("this replica is of the topic", "")


@pytest.fixture
def two_clusters(tmp_path: Path) -> Path:
    for broker, cluster_id in ((1, "one"), (2, "other")):
        broker_dir = BrokerDir(tmp_path / f"b{broker}", broker, cluster_id=cluster_id)
        broker_dir.replica(driven_log())
        broker_dir.stop()
    return tmp_path


@pytest.mark.parametrize(
    "command", [["find-hanging"], ["verify"], ["describe"], ["timeline", "report"]]
)
def test_two_clusters_are_refused(
    two_clusters: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert main(["logs", *command, str(two_clusters)]) == 2
    assert "replicas of two clusters can't be compared" in capsys.readouterr().err


@pytest.mark.parametrize("copies", [(1, 2), ()], ids=["told", "untold"])
def test_verify_compares_replicas_of_one_topic_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], way: list[str], copies: tuple[int, ...]
) -> None:
    path = remade_topic(tmp_path, copies=copies)
    main(["logs", "verify", "--json", "--topic", "orders", str(path), *way])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [finding for finding in findings if finding["rule"] == "replicas"] == []


def test_a_timeline_leaves_the_old_log_out(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    way: list[str],
) -> None:
    directory_with_copies, untold_file = (
        remade_topic(tmp_path / "told"),
        remade_topic(tmp_path / "untold", copies=()),
    )
    monkeypatch.chdir(tmp_path)
    main(["logs", "timeline", "report", "--json", directory_with_copies.name, *way])
    timeline = json.loads(capsys.readouterr().out)
    assert timeline["open"] == []
    assert [stale_replica["topic"] for stale_replica in timeline["stale"]] == ["gone", "orders"]
    assert main(["logs", "timeline", "report", "--json", str(untold_file), *way]) != 0
    timeline = json.loads(capsys.readouterr().out)
    assert [stale_replica["topic"] for stale_replica in timeline["open"]] == ["gone", "orders"]
    assert "orders was deleted and made again" in timeline["disagreements"][0]


def test_describe_marks_the_old_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "describe", "--json", str(remade_topic(tmp_path))]) == 0
    description = json.loads(capsys.readouterr().out)
    stale_rows = {
        (stale_replica["topic"], stale_replica["broker"], stale_replica["topic_id"])
        for stale_replica in description
        if stale_replica["is_stale"]
    }
    assert stale_rows == {("orders", 2, OLD_ID), ("gone", 2, GONE_ID)}
    main(["logs", "describe", str(tmp_path)])
    assert "orders-0 on broker 2 is stale: its topic was deleted" in capsys.readouterr().out


def test_questions_about_one_topic_read_the_log_of_the_living_one(tmp_path: Path) -> None:
    problems: list[str] = []
    directory_with_copies, untold_file = (
        remade_topic(tmp_path / "told"),
        remade_topic(tmp_path / "untold", copies=()),
    )
    (state_by_topic_id,) = leading_states([directory_with_copies], "orders", problems.append)
    assert (state_by_topic_id.replica.broker, problems) == (1, [])
    assert not list(leading_states([directory_with_copies], "gone", problems.append))
    list(leading_states([untold_file], "orders", problems.append))
    assert len(problems) == 1
    assert problems[0].startswith("orders was deleted and made again")


@pytest.mark.spark
def test_the_table_has_the_verdicts(spark: SparkSession, tmp_path: Path) -> None:
    path = remade_topic(tmp_path)
    frame_reader = (
        spark.read.format("kafka_log").option("path", str(path)).option("asOf", str(AS_OF[1]))
    )
    (row,) = frame_reader.option("table", "findings").load().collect()
    assert (row.verdict, row.topic_id, row.producer_id) == ("hanging", NEW_ID, 8)
