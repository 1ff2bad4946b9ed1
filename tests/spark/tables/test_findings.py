"""Findings as rows, without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW, PID, LogDriver
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables.findings import read
from txnsim_spark.tables.read_here import read_here
from txnsim_spark.tables.rows import Job


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """``orders`` and ``payments`` hang: their coordinator knows nothing of a transaction."""
    hanging = LogDriver()
    hanging.txn(0)
    made = BrokerDir(tmp_path / "broker-1", 1)
    made.coordinator(move("Empty"))
    made.replica(hanging, "payments")
    made.replica(hanging)
    return made.stop()


def test_a_row_per_open_transaction_topic_by_topic(log_dir: Path) -> None:
    batches = list(read_here("findings", [log_dir]))
    assert [batch["topic"].to_pylist() for batch in batches] == [["orders"], ["payments"]]
    assert all(batch.schema == TABLES["findings"].arrow() for batch in batches)
    (row,) = batches[0].to_pylist()
    assert (row["log_dir"], row["broker"], row["producer_id"]) == (str(log_dir), 1, PID)
    assert (row["verdict"], row["rule"], row["transactional_id"]) == (
        "hanging",
        "not_listed",
        "app",
    )
    began = datetime.fromtimestamp(NOW / 1_000, UTC)
    assert (row["started_at"], row["last_written_at"]) == (began, began)
    assert (row["open_on"], row["behind"], row["evidence_reasons"]) == ([1], [], [])
    assert json.loads(row["evidence"])["status"] == row["evidence_status"] == "sound"
    assert row["command"].endswith(" repair --topic orders --partition 0 --yes")


def test_it_is_asked_about_a_time_and_a_timeout(log_dir: Path) -> None:
    def verdicts(**values: int) -> set[str]:
        asked = KafkaLogOptions(paths=(log_dir,), table="findings")
        options = msgspec.structs.replace(asked, **values)
        schema = TABLES["findings"].arrow(("verdict",))
        rows = read(Job(options=options, columns=("verdict",)))
        return {one for batch in rows for one in batch.in_schema(schema)["verdict"].to_pylist()}

    assert verdicts() == {"hanging"}
    assert verdicts(as_of_ms=NOW + 60_000) == {"recent"}
    assert verdicts(as_of_ms=NOW + 60_000, max_transaction_timeout_ms=59_000) == {"hanging"}
