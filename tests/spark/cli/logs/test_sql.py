"""``txnsim logs sql``."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import LogDriver
from txnsim.cli.main import main
from txnsim.types import TopicPartition

pytest.importorskip("duckdb", reason="the extra spark is not installed")


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A log directory in which ``app`` has a committed, an aborted and an open transaction."""
    topic_partition = TopicPartition("orders", 0)
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.end(committed=True)
    driver.txn(2)
    driver.end(committed=False)
    driver.txn(3)
    broker_dir = BrokerDir(tmp_path / "broker-1")
    broker_dir.coordinator(
        move("Empty"), move("Ongoing", topic_partition), move("Empty", name="near", producer_id=8)
    )
    broker_dir.replica(driver)
    return str(broker_dir.stop())


@pytest.fixture
def pages() -> dict[str, str]:
    """The queries of the page, by what is said to be asked."""
    page_text = Path("docs/forensics.md").read_text()
    return dict(re.findall(r"^-- (.+)\n((?:[^`\n].*\n)+)", page_text, re.MULTILINE))


def test_rows_for_people_and_as_json(log_dir: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT `offset`, key, NULL AS nothing FROM leader WHERE topic = 'orders' LIMIT 1"
    assert main(["logs", "sql", query, log_dir]) == 0
    headers, row = capsys.readouterr().out.splitlines()
    assert (headers.split(), row.split()) == (["offset", "key", "nothing"], ["0", "k"])
    assert main(["logs", "sql", query, log_dir, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == [{"offset": 0, "key": "aw==", "nothing": None}]


@pytest.mark.parametrize("query", ["", "-- nothing", " ; "])
def test_an_empty_query_is_a_misuse(
    log_dir: str, query: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "sql", query, log_dir]) == 2
    assert "the query is empty: write a statement, such as SELECT" in capsys.readouterr().err


def test_a_folder_without_logs_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "sql", "SELECT count(*) FROM kafka_batches", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path} holds no log directory, and is none" in line


def test_every_query_of_the_page_answers(
    log_dir: str,
    pages: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    rows_of: dict[str, list[dict[str, object]]] = {}
    for question, query in pages.items():
        monkeypatch.setattr(sys, "stdin", io.StringIO(query.replace("app-1", "app")))
        assert main(["logs", "sql", "-", log_dir, "--json"]) == 0, question
        rows_of[question] = json.loads(capsys.readouterr().out)
    assert [row["transactional_id"] for row in rows_of["Whose producer id it was"]] == ["app"]
    assert rows_of["Which ids got theirs at about the same time"] == [
        {"producer_id": 7, "transactional_id": "app"},
        {"producer_id": 8, "transactional_id": "near"},
    ]
    (written_row,) = rows_of["Where it wrote"]
    assert (
        written_row["topic"],
        written_row["first"],
        written_row["last"],
        written_row["open"],
    ) == ("orders", 0, 5, 1)
    lost_rows = rows_of["What was lost, or would be"]
    assert [(row["outcome"], row["verdict"], row["records"]) for row in lost_rows] == [
        ("aborted", None, 1),
        ("open", "alive", 1),
    ]
    rows = ds.dataset(tmp_path / "app", partitioning="hive").to_table().to_pylist()
    outcomes = [row["outcome"] for row in sorted(rows, key=lambda row: row["offset"])]
    assert outcomes == ["committed", "committed", "aborted", "open"]
    grown = rows_of["Which ids fill __transaction_state"]
    assert [(row["transactional_id"], row["records"], row["dead"]) for row in grown] == [
        ("app", 2, 1),
        ("near", 1, 0),
    ]
    assert len(rows_of) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SELECT"], "Parser Error"),
        (["FROM kafka_batches", "--option", "topics=none"], "no topic 'none'"),
    ],
)
def test_a_misuse_has_its_status(
    log_dir: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    query, *options = arguments
    assert main(["logs", "sql", query, log_dir, *options]) == 2
    assert message in capsys.readouterr().err


def test_what_can_t_be_read_has_its_status_and_can_be_passed_over(
    log_dir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Path(log_dir) / "orders-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    query = "SELECT count(*) AS batches FROM kafka_batches WHERE topic = 'orders'"
    assert main(["logs", "sql", query, log_dir]) == 4
    output = capsys.readouterr()
    assert output.out == ""
    assert f"{log}, byte " in output.err
    assert main(["logs", "sql", query, log_dir, "--option", "ignoreCorruptFiles=true"]) == 0
    assert capsys.readouterr().out.split() == ["batches", "4"]


def test_a_timeline_of_what_can_be_read_has_its_status(
    log_dir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "timeline", "app", log_dir]) == 0
    whole_timeline = capsys.readouterr().out
    (Path(log_dir) / "more-0").mkdir()
    log = Path(log_dir) / "more-0" / f"{0:020}.log"
    log.write_bytes(b"nothing of Kafka's")
    assert main(["logs", "timeline", "app", log_dir]) == 4
    output = capsys.readouterr()
    assert output.out == whole_timeline
    assert output.err.startswith(f"Something may be missing: {log}, byte 0: 18 bytes")
