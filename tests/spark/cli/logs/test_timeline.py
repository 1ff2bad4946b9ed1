"""``txnsim logs timeline``: what it prints, with Spark's part done before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.soundness import write_log_dir
from txnsim.cli.main import main
from txnsim.types import TopicPartition
from txnsim_spark.cli.logs import _searching as searching
from txnsim_spark.engine import Engine, Way
from txnsim_spark.forensics.timeline import CoordinatorRecord, Stay, Timeline, timeline_of


def _record(offset: int, state: str, *partitions: TopicPartition) -> CoordinatorRecord:
    return CoordinatorRecord(
        brokers=(1,),
        partition=3,
        offset=offset,
        timestamp_ms=1_700_000_000_001 + offset,
        state=state,
        producer_id=7,
        producer_epoch=0,
        partitions=partitions,
    )


RECORDS = (_record(0, "Empty"), _record(1, "Ongoing", TopicPartition("orders", 0)))
OPEN = Stay(
    brokers=(1,),
    topic="orders",
    partition=0,
    producer_id=7,
    producer_epoch=0,
    first_offset=5,
    last_offset=5,
    first_timestamp_ms=1_700_000_000_003,
    last_timestamp_ms=1_700_000_000_003,
    records=1,
    marker_offset=None,
    marker_epoch=None,
    marker_timestamp_ms=None,
    committed=None,
    coordinator_epoch=None,
)


@pytest.fixture
def log_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    told = {
        "app": timeline_of("app", RECORDS, [OPEN]),
        "done": timeline_of("done", RECORDS[:1], [OPEN]),
        "none": timeline_of("none", [], []),
    }
    monkeypatch.setattr(
        "txnsim_spark.forensics.timeline_reading.read_timeline",
        lambda _engine, _paths, name, _topics: told[name],
    )
    write_log_dir(tmp_path, 1, {})
    return tmp_path


def test_a_life_is_told_line_by_line(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "timeline", "app", str(log_dir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "app: producer id 7, __transaction_state-3",
        "2023-11-14T22:13:20.001Z  Empty           __transaction_state-3 @0  InitProducerId; "
        "producer 7 epoch 0",
        "2023-11-14T22:13:20.002Z  Ongoing         __transaction_state-3 @1  the transaction "
        "begins; added orders-0",
        "2023-11-14T22:13:20.003Z    first         orders-0 @5               first record "
        "(epoch 0)",
        "2023-11-14T22:13:20.003Z    last          orders-0 @5               the only record",
        "Open: orders-0 since offset 5, 2023-11-14T22:13:20.003Z, producer 7 epoch 0; the "
        "coordinator's newest record: Ongoing",
    ]


def test_a_disagreement_has_its_status(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "timeline", "done", str(log_dir)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == (
        "Disagreement: orders-0: open since offset 5; for the coordinator it is Empty"
    )


def test_an_id_that_nobody_knows_has_its_status(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "timeline", "none", str(log_dir)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "none: no coordinator's log in these directories has it\n"


def test_json_has_the_documented_fields(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "timeline", "app", str(log_dir), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    documented = Path("docs/logs.md").read_text()
    for value in (told, told["events"][0], told["open"][0]):
        assert all(f"`{name}`" in documented for name in value)


def test_a_master_asks_for_spark(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def session(master: str | None, *, is_short: bool) -> Iterator[str | None]:
        assert is_short
        yield master

    def read(engine: Engine, *_asked: object) -> Timeline:
        assert engine.way(1) is Way.SPARK
        return timeline_of(str(engine.spark()), RECORDS, [])

    monkeypatch.setattr(searching, "session", session)
    monkeypatch.setattr("txnsim_spark.forensics.timeline_reading.read_timeline", read)
    assert main(["logs", "timeline", "app", str(log_dir), "--master", "local[3]"]) == 0
    assert capsys.readouterr().out.startswith("local[3]: producer id 7")


def test_a_misuse_has_its_status(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "timeline", "app", str(log_dir / "nowhere")]) == 2
    assert "is no directory" in capsys.readouterr().err
