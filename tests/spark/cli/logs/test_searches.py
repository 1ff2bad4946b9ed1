"""``txnsim logs``: what hangs, since when, whose it is, and whether a log is sound."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW, LogDriver, plain
from tests.support.soundness import write_log_dir
from txnsim.cli._txns.operator_commands import HANGS as TXNS_HANGS
from txnsim.cli._txns.operator_commands import INCOMPLETE as TXNS_INCOMPLETE
from txnsim.cli._txns.operator_commands import hanging_columns
from txnsim.cli.main import main
from txnsim.cli.output import TERMINAL
from txnsim.txn.state import TxnTransition
from txnsim.types import TopicPartition
from txnsim.wire.batch import iter_batches
from txnsim_spark.cli.logs import _searching as searching
from txnsim_spark.cli.logs._find_hanging import FINDING_COLUMNS, HANGING_STATUS, INCOMPLETE_STATUS
from txnsim_spark.cli.logs._searching import (
    add_as_of_argument,
    make_run,
    search_files,
    search_of,
    show_progress,
    time_ms,
)
from txnsim_spark.engine import Engine, EngineKind
from txnsim_spark.forensics.findings import json_schema
from txnsim_spark.forensics.timeline import CoordinatorRecord, PartitionTxn, Timeline, timeline_of

pytest.importorskip("duckdb", reason="the extra spark is not installed")

# ``txnsim logs find-hanging``.


HERE = TopicPartition("orders", 0)
AS_OF = str(NOW + 3_600_000)


class CommandOutput:
    """Exit status and output of ``txnsim logs find-hanging``."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        self.status = main(["logs", "find-hanging", *arguments])
        captured = capsys.readouterr()
        self.out = captured.out
        self.err = captured.err

    @property
    def cells(self) -> list[list[str]]:
        """The table, cell by cell."""
        return [
            [cell_text.strip() for cell_text in printed_line.split("\t")[:-1]]
            for printed_line in self.out.splitlines()
            if "\t" in printed_line
        ]


def directory(path: Path, *states: str) -> Path:
    driver = LogDriver()
    driver.txn(0)
    broker = BrokerDir(path)
    broker.replica(driver)
    if states:
        broker.coordinator(*(move(state, HERE) for state in states))
    return broker.stop()


def test_statuses_and_columns_are_those_of_the_command_for_living_clusters() -> None:
    assert (HANGING_STATUS, INCOMPLETE_STATUS, tuple(FINDING_COLUMNS)) == (
        TXNS_HANGS,
        TXNS_INCOMPLETE,
        tuple(hanging_columns(0)),
    )


def test_what_hangs_is_told_with_the_command_that_ends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = directory(tmp_path / "b", "Empty")
    output = CommandOutput(capsys, str(log_dir), "--as-of", AS_OF, "--bootstrap-server", "b1:9092")
    assert output.status == HANGING_STATUS
    assert output.cells == [
        list(FINDING_COLUMNS),
        ["orders", "0", "7", "0", "-1", "0", str(NOW), "60"],
    ]
    assert "orders-0 at offset 0: transactional id app is Empty without this" in output.out
    assert "  txnsim txns --bootstrap-server b1:9092 repair --topic orders " in output.out
    assert output.err == (
        "replicas: 1, scanned: 0; hanging: 1; late: 1; as of 2023-11-14T23:13:20Z.\n"
    )


@pytest.mark.parametrize(
    ("records", "lines"),
    [
        (
            [move("Empty")],
            [
                "  It was not committed: end it with ABORT, which discards its records, as no"
                " transaction was begun at epoch 0"
            ],
        ),
        (
            [move("Ongoing", HERE), move("PrepareCommit", HERE), move("CompleteCommit")],
            [
                "  It was committed: end it with COMMIT, as its coordinator's log has Prepare",
            ],
        ),
        (
            [move("Empty", name="other", producer_id=8)],
            ["  What was decided is unknown, as no coordinator knows the producer"],
        ),
    ],
)
def test_the_marker_that_it_should_have_had_is_told(
    records: list[TxnTransition],
    lines: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver = LogDriver()
    driver.txn(0)
    broker = BrokerDir(tmp_path / "b")
    broker.replica(driver)
    broker.coordinator(*records)
    output = CommandOutput(capsys, str(broker.stop()), "--as-of", AS_OF)
    assert all(line in output.out for line in lines)
    # The command never says an abort beside words that say COMMIT.
    assert " abort --topic" not in output.out


def test_what_lives_is_counted_and_shown_with_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = directory(tmp_path / "b", "Ongoing")
    output = CommandOutput(capsys, str(log_dir), "--as-of", AS_OF)
    assert (output.status, output.cells) == (0, [list(FINDING_COLUMNS)])
    assert "; alive: 1;" in output.err
    whole_output = CommandOutput(capsys, str(log_dir), "--as-of", AS_OF, "--all")
    assert whole_output.status == 0
    assert whole_output.cells[1][-1] == "alive"
    assert whole_output.cells[-1] == ["orders", "0", "1", "0", "1", "1", "1", "60", "1", "yes"]


def test_what_can_not_be_judged_has_a_status_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = CommandOutput(capsys, str(directory(tmp_path / "b")), "--as-of", AS_OF)
    assert output.status == INCOMPLETE_STATUS
    assert "Not everything can be judged: the directories hold no partition of" in output.err


@pytest.mark.parametrize("read_all", [(), ("--read-all",)], ids=["by-snapshots", "read-all"])
@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "beside-a-whole-replica"])
def test_a_log_whose_end_is_lost_with_all_that_was_open_is_no_success(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    is_alone: bool,
    read_all: tuple[str, ...],
) -> None:
    paths = []
    for broker_id in (1, 2)[: 1 if is_alone else 2]:
        driver = LogDriver()
        driver.append(plain(3))
        driver.txn(0)
        broker = BrokerDir(tmp_path / f"b{broker_id}", broker_id)
        (segment,) = broker.replica(driver).glob("*.log")
        if broker_id == 1:  # at the end of a batch: no byte of it looks torn
            (_, (position, _)) = iter_batches(segment.read_bytes())
            os.truncate(segment, position)
        broker.coordinator(move("Empty"))
        paths.append(str(broker.stop()))
    output = CommandOutput(capsys, *paths, "--as-of", AS_OF, *read_all)
    is_named = "/orders-0: the log ends at offset 3, below its high watermark 4" in output.err
    # The other replica has the log to its end, and is the one that counts.
    assert (output.status, is_named) == (
        (INCOMPLETE_STATUS, True) if is_alone else (HANGING_STATUS, False)
    )


def test_problems_are_told_and_have_that_status_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = directory(tmp_path / "b", "Ongoing")
    checkpoint_file = log_dir / "replication-offset-checkpoint"
    checkpoint_file.write_text("nonsense\n")
    output = CommandOutput(capsys, str(log_dir), "--as-of", AS_OF)
    assert output.status == INCOMPLETE_STATUS
    assert f"{checkpoint_file}: 1 lines, without version and count\n" in output.err


def test_json_is_as_its_schema_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_dir = directory(tmp_path / "b", "Empty")
    time_options = ["--as-of", "2023-11-14T22:13:30+00:00", "--max-transaction-timeout", "0"]
    output = CommandOutput(capsys, str(log_dir), "--json", *time_options)
    report = json.loads(output.out)
    jsonschema.validate(report, json_schema())
    assert (report["as_of_ms"], report["findings"][0]["age_ms"]) == (NOW + 10_000, 10_000)
    assert output.status == HANGING_STATUS


def test_everything_is_read_where_snapshots_are_not_to_be_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = directory(tmp_path / "b", "Empty")
    output = CommandOutput(
        capsys, str(log_dir), "--as-of", AS_OF, "--read-all", "--topic", "orders"
    )
    assert output.status == HANGING_STATUS
    assert output.err.startswith("replicas: 1, scanned: 1; ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--as-of", "yesterday"],
            "'yesterday' is neither ISO 8601, a number of milliseconds, nor 'now'",
        ),
        (["--as-of", "2026-11-20T10:00:00"], "needs a time zone"),
        (["--max-transaction-timeout", "-1"], "'-1' is no whole number of minutes"),
        (["--max-transaction-timeout", "x"], "'x' is no whole number of minutes"),
        ([], "is no directory"),
    ],
)
def test_a_misuse_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    output = CommandOutput(capsys, str(tmp_path / "none"), *arguments)
    assert output.status == 2
    assert complaint in output.err


def test_a_file_that_can_not_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = directory(tmp_path / "b", "Empty")
    (log_dir / "orders-0" / "00000000000000000000.log").unlink()
    (log_dir / "orders-0" / "00000000000000000000.log").mkdir()
    output = CommandOutput(capsys, str(log_dir), "--read-all")
    assert output.status == 4
    assert "a folder, not a file; passed by" in output.err


@pytest.mark.usefixtures("without_java", "without_session")
def test_spark_that_is_missing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_dir = directory(tmp_path / "b", "Empty")
    output = CommandOutput(capsys, str(log_dir), "--read-all", "--master", "local[1]")
    assert output.status == 2
    assert "Apache Spark needs Java 17" in output.err
    assert "starting Spark" in output.err


# ``timeline``: ``txnsim logs timeline``: what it prints, with Spark's part done before.


def _coordinator_record(offset: int, state: str, *partitions: TopicPartition) -> CoordinatorRecord:
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


RECORDS = (
    _coordinator_record(0, "Empty"),
    _coordinator_record(1, "Ongoing", TopicPartition("orders", 0)),
)
OPEN = PartitionTxn(
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
    is_named = {
        "app": timeline_of("app", RECORDS, [OPEN]),
        "done": timeline_of("done", RECORDS[:1], [OPEN]),
        "none": timeline_of("none", [], []),
    }
    monkeypatch.setattr(
        "txnsim_spark.forensics.timeline_reading.read_timeline",
        lambda _engine, _paths, name, _topics: is_named[name],
    )
    write_log_dir(tmp_path, 1, {})
    return tmp_path


def test_a_life_is_told_line_by_line(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "timeline", "app", str(log_dir)]) == 0
    printed_lines = capsys.readouterr().out.splitlines()
    assert printed_lines == [
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
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "none: no coordinator's log in these directories has it\n"


def test_json_has_the_documented_fields(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "timeline", "app", str(log_dir), "--json"]) == 0
    timeline = json.loads(capsys.readouterr().out)
    documented_text = Path("docs/logs-reference.md").read_text()
    for value in (timeline, timeline["events"][0], timeline["open"][0]):
        assert all(f"`{name}`" in documented_text for name in value)


def test_a_master_asks_for_spark(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def session(master: str | None, *, is_short: bool) -> Iterator[str | None]:
        assert is_short
        yield master

    def read(engine: Engine, *_asked: object) -> Timeline:
        assert engine.kind_for(1) is EngineKind.SPARK
        return timeline_of(str(engine.spark()), RECORDS, [])

    monkeypatch.setattr(searching, "session", session)
    monkeypatch.setattr("txnsim_spark.forensics.timeline_reading.read_timeline", read)
    assert main(["logs", "timeline", "app", str(log_dir), "--master", "local[3]"]) == 0
    assert capsys.readouterr().out.startswith("local[3]: producer id 7")


def test_a_misuse_has_its_status(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "timeline", "app", str(log_dir / "nowhere")]) == 2
    assert "is no directory" in capsys.readouterr().err


# Times that are asked for, progress.


def test_a_search_is_what_was_asked_for() -> None:
    parser = argparse.ArgumentParser()
    add_as_of_argument(parser)
    args = parser.parse_args(["--as-of", str(NOW)])
    args.directory, args.topic, args.master = [Path("a")], ["orders"], None
    search = search_of(args)
    assert (search.paths, search.topics, search.as_of_ms) == (
        (Path("a"),),
        frozenset({"orders"}),
        NOW,
    )
    assert (search.with_spark, search.now_ms > NOW) == (False, True)


def test_nothing_starts_spark_that_does_not_ask_for_it() -> None:
    assert search_files(
        None, lambda argument, *, new_session, progress: (argument, progress), 7
    ) == (
        7,
        show_progress,
    )


def test_times() -> None:
    assert time_ms("12") == 12
    assert time_ms("2023-11-14T22:13:20Z") == NOW
    assert time_ms("now") > NOW
    for wrong_time in ("soon", "2023-11-14T22:13:20"):
        with pytest.raises(argparse.ArgumentTypeError):
            time_ms(wrong_time)


def test_progress_that_takes_long_is_told_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    show_progress("looked at 100 replicas")
    show_progress("starting Spark")
    assert capsys.readouterr().err == "starting Spark\n"


def test_a_long_count_is_told_by_tenths_and_a_short_one_not_at_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for part in range(1, 6):
        show_progress(f"read part {part} of 5")
    for part in range(1, 81):
        show_progress(f"read part {part} of 80")
    printed_lines = capsys.readouterr().err.splitlines()
    assert printed_lines == [f"read part {part} of 80" for part in range(8, 81, 8)]


@pytest.mark.parametrize(("as_json", "expected_output"), [(False, "seven\n"), (True, "7\n")])
def test_for_people_and_as_json(
    as_json: bool, expected_output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(lambda _: 7, lambda _: TERMINAL.line("seven"), lambda number: number - 6)
    assert run(argparse.Namespace(json=as_json)) == 1
    assert capsys.readouterr().out == expected_output


def test_the_exit_status_is_0_unless_it_is_asked_for() -> None:
    assert make_run(lambda _: 7, str)(argparse.Namespace(json=False)) == 0
