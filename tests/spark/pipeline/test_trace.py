"""Traces as tables, and the findings in them, compared with the traces read line by line."""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from tests.spark.pipeline.analysis_page import PAGE, blocks, fill_page, names
from tests.spark.pipeline.made_trace import STREAM, brief_lives, odd_lives
from tests.spark.pipeline.recorded_run import APPLICATIONS, LEVELS, TRANSACTIONS, record
from txnsim.cli.main import main
from txnsim.errors import BadInputError
from txnsim_spark.traces import _trace_lines, tables
from txnsim_spark.traces.analyses import (
    ANALYSES,
    LATE_AFTER_MS,
    LSO_LAG_BY_PARTITION,
    lso_lag_by_partition,
)
from txnsim_spark.traces.schemas import TABLES, view_of
from txnsim_spark.traces.tables import (
    AskTraces,
    TraceError,
    embedded_queries,
    export_traces,
    register_views,
    spark_queries,
    traces_as_views,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Event = dict[str, Any]
PIECE: Final = "spark.sql.files.maxPartitionBytes"
PIECE_BYTES: Final = "1600k"
TORN = '{"i":99,"t":20,"n":0,"l":9,"p":[],"k":"note","d":{"te'
DREAM = '{"i":98,"t":20,"n":0,"l":9,"p":[],"k":"txn.dream","d":{"deep":[1,{"a":2}]}}\n'


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with the traces of the recorded run."""
    directory = tmp_path_factory.mktemp("traces") / "recorded"
    record(directory)
    return directory


@pytest.fixture(scope="module")
def odd_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with a trace whose last line is cut off, one of level brief, and an event
    stream.
    """
    directory = tmp_path_factory.mktemp("odd")
    lines = odd_lives().splitlines(keepends=True)
    (directory / "odd.jsonl").write_text("".join(lines[:-1]) + DREAM + TORN, "utf-8")
    (directory / "brief.jsonl").write_text(brief_lives(), "utf-8")
    (directory / "stream.sse").write_text(STREAM, "utf-8")
    return directory


# An export costs Spark ten seconds and more of CPU, however little there is: there are two.


class ExportedTables(NamedTuple):
    """Tables that the export command has written, and its output."""

    directory: Path
    status: int
    out: str
    err: str

    def rows(self, spark: SparkSession, table_name: str, *, runs: str) -> DataFrame:
        """Some runs of a table, read from its files, so that the session's views stay those of
        ``views``.
        """
        parquet_frame = spark.read.parquet(str(self.directory / table_name))
        return parquet_frame.where(parquet_frame.run.isin(*runs.split()))


@pytest.fixture(scope="module")
def exported_tables(
    spark: SparkSession, odd_traces: Path, tmp_path_factory: pytest.TempPathFactory
) -> ExportedTables:
    """The odd traces, by the command; it takes the session that runs."""
    target_path = tmp_path_factory.mktemp("exported") / "tables"
    text_output, err_output = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(text_output), contextlib.redirect_stderr(err_output):
        status = main(["trace", "export", str(odd_traces), "--to", str(target_path), "--json"])
    return ExportedTables(target_path, status, text_output.getvalue(), err_output.getvalue())


@pytest.fixture(scope="module")
def export(
    spark: SparkSession,
    traces: Path,
    exported_tables: ExportedTables,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Path]:
    """The recorded run as views; returns the folder of their tables. Each file is read in pieces.

    The command of ``exported_tables`` has named its own views before. No later test of this module
    names any.
    """
    assert exported_tables.directory.is_dir()
    partition = tmp_path_factory.mktemp("export")
    piece_before = spark.conf.get(PIECE)
    assert piece_before is not None
    spark.conf.set(PIECE, PIECE_BYTES)
    try:
        with traces_as_views(spark, [str(traces)], str(partition)):
            spark.conf.set(PIECE, piece_before)
            (directory,) = partition.iterdir()
            yield directory
    finally:
        spark.conf.set(PIECE, piece_before)
    assert not list(partition.iterdir())


@pytest.fixture(scope="module")
def views(spark: SparkSession, export: Path) -> SparkSession:
    """The session with the views of the recorded run."""
    assert export.is_dir()
    return spark


@pytest.fixture(scope="module")
def events(traces: Path) -> list[tuple[str, Event]]:
    """Every event of the recorded run, read without Spark."""
    return [
        (trace_file.stem, event)
        for trace_file in sorted(traces.iterdir())
        for event in map(json.loads, trace_file.read_text("utf-8").splitlines())
        if event["k"] not in ("run", "end")
    ]


def count_rows(spark: SparkSession, query: str) -> Counter[tuple[Any, ...]]:
    """Number of rows by the columns of a query, whose last column is a count."""
    return Counter({tuple(row)[:-1]: row[-1] for row in spark.sql(query).toLocalIterator()})


# Tables


def test_every_table_is_as_documented(views: SparkSession) -> None:
    for name, table in TABLES.items():
        columns = [(field.name, field.dataType) for field in views.table(view_of(name)).schema]
        schema = views.createDataFrame([], table.ddl).schema
        assert columns == [(field.name, field.dataType) for field in schema], name


def test_no_event_is_lost(views: SparkSession, events: list[tuple[str, Event]]) -> None:
    assert count_rows(
        views, "SELECT run, kind, count(*) FROM trace_events GROUP BY run, kind"
    ) == Counter((run_name, event["k"]) for run_name, event in events)
    runs = {row.run: row.events for row in views.table("trace_runs").toLocalIterator()}
    assert runs == Counter(run_name for run_name, _ in events)


def test_transactions_have_the_outcomes_that_coordinators_reached(
    views: SparkSession, events: list[tuple[str, Event]]
) -> None:
    ends = {"CompleteCommit": "committed", "CompleteAbort": "aborted"}
    outcome_counts = Counter(
        (run_name, event["tx"].split("/")[0], ends[event["d"]["state"]])
        for run_name, event in events
        if event["k"] == "txn.complete" and event["d"]["state"] in ends
    )
    query = "SELECT run, transactional_id, outcome, count(*) FROM trace_transactions GROUP BY ALL"
    assert count_rows(views, query) == outcome_counts
    for transaction_version in LEVELS:
        of_shop = [
            sum(
                outcome_counts[f"level-{transaction_version}", shop, outcome]
                for outcome in ends.values()
            )
            for shop in APPLICATIONS
        ]
        assert of_shop == [TRANSACTIONS] * len(APPLICATIONS)
    version_text = "SELECT run, transaction_version, count(*) FROM trace_transactions GROUP BY ALL"
    assert set(count_rows(views, version_text)) == {
        (f"level-{transaction_version}", transaction_version) for transaction_version in LEVELS
    }


def test_markers_are_as_late_as_their_events_say(
    views: SparkSession, events: list[tuple[str, Event]]
) -> None:
    owed_times: dict[tuple[str, int, int, str], int] = {}
    delays: list[int] = []
    for run_name, event in events:
        if event["k"] in ("marker.owed", "marker.written"):
            event_fields = event["d"]
            key = (run_name, event_fields["pid"], event_fields["epoch"], event_fields["tp"])
            if event["k"] == "marker.owed":
                owed_times[key] = event["t"]
            else:
                delays.append(event["t"] - owed_times.pop(key))
    sql = views.sql("SELECT written_us - owed_us AS delay FROM trace_markers")
    assert sorted(row.delay for row in sql.toLocalIterator()) == sorted(delays)
    assert not owed_times


def test_last_stable_offsets_lag_as_their_events_say(
    views: SparkSession, events: list[tuple[str, Event]]
) -> None:
    marks: dict[tuple[str, str], tuple[int, int]] = {}
    worst: Counter[tuple[str, str]] = Counter()
    for run_name, event in events:
        if event["k"] in ("log.hw", "log.lso"):
            partition = (run_name, event["d"]["tp"])
            high_watermark, stable_offset = marks.get(partition, (0, 0))
            to = event["d"]["to"]
            high_watermark, stable_offset = (
                (to, stable_offset) if event["k"] == "log.hw" else (high_watermark, to)
            )
            marks[partition] = (high_watermark, stable_offset)
            worst[partition] = max(worst[partition], high_watermark - stable_offset)
    rows = lso_lag_by_partition(views).toLocalIterator()
    lags = {(row.run, f"{row.topic}-{row.partition}"): row.lag_max for row in rows}
    assert {partition: lag for partition, lag in lags.items() if "__" not in partition[1]} == {
        partition: lag for partition, lag in worst.items() if "__" not in partition[1]
    }


def test_answers_to_verifications_are_counted_by_error(
    views: SparkSession, events: list[tuple[str, Event]]
) -> None:
    counts = Counter(
        (run_name, event["d"]["error"])
        for run_name, event in events
        if event["k"] == "verify.answer"
    )
    query = """SELECT run, coalesce(error, 'NONE'), count(*) FROM trace_verifications
               WHERE (outcome = 'allowed') = (error IS NULL) GROUP BY ALL"""
    assert count_rows(views, query) == counts


def test_requests_of_clients_are_answered(
    views: SparkSession, events: list[tuple[str, Event]]
) -> None:
    counts = Counter(
        (run_name, event["d"]["api"])
        for run_name, event in events
        if event["k"] == "msg.recv"
        and event["d"]["peer"].startswith("client/")
        and not event["d"].get("response")
    )
    query = "SELECT run, api, count(*) FROM trace_requests WHERE peer LIKE 'client/%' GROUP BY ALL"
    assert count_rows(views, query) == counts
    peers = "SELECT count_if(answered_us < at_us) AS early, count(answered_us) AS answered FROM "
    (row,) = views.sql(f"{peers} trace_requests").toLocalIterator()
    assert row.early == 0
    assert row.answered > counts.total()


# DuckDB, which takes what is small


def rows_of(ask: AskTraces, query: str) -> list[str]:
    """Rows of a query as sorted text."""
    return sorted(repr(row) for row in ask(query, late_after_ms=LATE_AFTER_MS))


def test_both_engines_make_the_same_tables_and_analyses(views: SparkSession, traces: Path) -> None:
    ask_embedded, ask_spark = (
        embedded_queries([str(traces)], are_exported=False),
        spark_queries(views),
    )
    assert ask_embedded is not None
    for name in TABLES:
        query = f"SELECT * FROM {view_of(name)}"
        if name == "runs":  # Spark names a file by a URI
            query = f"SELECT * EXCEPT (file) FROM {view_of(name)}"
        assert rows_of(ask_embedded, query.replace("EXCEPT", "EXCLUDE")) == rows_of(
            ask_spark, query
        ), name
    for analysis in ANALYSES.values():
        for query in (analysis.sql, analysis.worst(2), LSO_LAG_BY_PARTITION):
            assert rows_of(ask_embedded, query) == rows_of(ask_spark, query), analysis.title


def test_both_engines_read_an_export_and_odd_traces_alike(
    exported_tables: ExportedTables, odd_traces: Path, spark: SparkSession
) -> None:
    of_traces = embedded_queries([str(odd_traces)], are_exported=False)
    ask_export = embedded_queries([str(exported_tables.directory)], are_exported=True)
    assert of_traces is not None
    assert ask_export is not None
    for file_name in TABLES:
        query = f"SELECT * FROM {view_of(file_name)}"
        files_frame = spark.read.schema(TABLES[file_name].ddl).parquet(
            str(exported_tables.directory / file_name)
        )
        spark_frame = files_frame.select(*TABLES[file_name].names)
        expected = sorted(repr(row.asDict()) for row in spark_frame.collect())
        assert rows_of(ask_export, query) == expected, file_name
        assert [row.replace(str(odd_traces), "") for row in rows_of(of_traces, query)] == [
            row.replace(f"{odd_traces}", "") for row in expected
        ], file_name


# Analyses


def test_only_the_late_record_of_old_times_hangs(views: SparkSession) -> None:
    columns = ANALYSES["late_transactions"].run(views)
    hanging = {
        (row.transaction_version, row.transactional_id): row.hanging
        for row in columns.where(
            "hanging > 0 AND grouped_by = 'transactional_id'"
        ).toLocalIterator()
    }
    assert hanging == {(0, "late"): 1}


def test_late_is_what_is_open_for_longer_than_asked_for(views: SparkSession) -> None:
    (row,) = (
        ANALYSES["late_transactions"]
        .run(views, late_after_ms=1)
        .where("grouped_by = 'all'")
        .toLocalIterator()
    )
    assert 0 < row.late <= row.opened


def test_every_end_under_version_2_raises_the_epoch(views: SparkSession) -> None:
    columns = ANALYSES["epoch_bumps"].run(views).where("grouped_by = 'transaction_version'")
    by_end = {row.transaction_version: (row.by_end, row.by_timeout) for row in columns.collect()}
    end_counts = count_rows(
        views,
        "SELECT transaction_version, count(*) FROM trace_transactions"
        " WHERE decided_by = 'EndTxn' GROUP BY ALL",
    )
    assert by_end == {0: (0, 1), 1: (0, 1), 2: (end_counts[(2,)], 1)}


# Odd traces


def test_odd_lives_are_told_as_they_were(
    spark: SparkSession, exported_tables: ExportedTables
) -> None:
    def table_of(table_name: str) -> DataFrame:
        return exported_tables.rows(spark, table_name, runs="odd stream")

    txn_rows = table_of("transactions").orderBy("number").collect()
    assert [
        (row.transactional_id, row.producer_id, row.outcome, row.timed_out) for row in txn_rows
    ] == [
        ("a/b", 7, "committed", False),
        ("a/b", 7, "aborted", True),
        ("a/b", 8, "undecided", False),
    ]
    second_row = txn_rows[1]
    assert (
        second_row.began_us,
        second_row.asked_us,
        second_row.decided_us,
        second_row.completed_us,
    ) == (*(20, 60, 70, 99),)
    assert (second_row.end_epoch, second_row.refusals, second_row.last_error) == (
        4,
        1,
        "NOT_COORDINATOR",
    )
    (marker,) = table_of("markers").collect()
    assert (marker.owed_us, marker.written_us, marker.offset, marker.strays) == (70, 90, 8, 1)
    assert (marker.sends, marker.refused, marker.acked_us) == (2, 1, None)
    (stall_row,) = table_of("stalls").collect()
    assert (stall_row.last_stable, stall_row.from_us, stall_row.stalled_us) == (5, 40, 55)
    assert (stall_row.lag_max, stall_row.is_over, stall_row.transactional_id) == (4, True, "a/b")
    (question_row,) = table_of("verifications").collect()
    assert (question_row.outcome, question_row.transaction_version) == ("unanswered", 1)
    bump_rows = table_of("epoch_bumps").orderBy("i").collect()
    assert [(row.from_epoch, row.epoch, row.command) for row in bump_rows] == [
        (3, 4, "timeout"),
        (4, 0, "InitProducerId"),
    ]


def test_brief_tells_how_often_markers_were_sent_and_how_long_answers_took(
    spark: SparkSession, exported_tables: ExportedTables
) -> None:
    def table_of(table_name: str) -> DataFrame:
        return exported_tables.rows(spark, table_name, runs="brief")

    (run_row,) = table_of("runs").collect()
    assert (run_row.scenario, run_row.scenario_run, run_row.take, run_row.mode) == (
        "made",
        "late",
        "armed",
        "V+",
    )
    assert (run_row.level, run_row.brokers, run_row.releases) == ("brief", 2, ["3.9"])
    assert (run_row.rules, run_row.settings) == (
        {"rack_is_told": True},
        {"transaction.version": "1"},
    )
    markers = table_of("markers").orderBy("partition").collect()
    assert [(row.sends, row.sent_us, row.acked_us) for row in markers] == [
        (1, None, 80),
        (3, 90, None),
    ]
    rows = table_of("verifications").orderBy("partition").collect()
    assert [(row.asked_us, row.answered_us, row.waited_us) for row in rows] == [
        (23, 30, 7),
        (31, 40, 9),
    ]
    assert [(row.adds, row.outcome, row.transaction_version) for row in rows] == [
        (False, "allowed", 1),
        (True, "refused", 2),
    ]


def test_what_is_no_event_and_what_nobody_knows_is_told(
    spark: SparkSession,
    odd_traces: Path,
    exported_tables: ExportedTables,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exported_tables.status == 1
    report = json.loads(exported_tables.out)
    assert (report["runs"], report["unknown_kinds"]) == (3, {"txn.dream": 1})
    assert [(Path(unread["file"]).name, unread["text"]) for unread in report["unreadable"]] == [
        ("odd.jsonl", TORN),
        ("stream.sse", '{"lost":17,"next":60}'),
    ]
    assert "17 events were lost" in exported_tables.err
    assert "'txn.dream'" in exported_tables.err
    events = exported_tables.rows(spark, "events", runs="odd stream")
    (dream_row,) = events.where("NOT is_known").select("details").collect()
    assert json.loads(dream_row.details) == {"deep": [1, {"a": 2}]}
    streamed_frame = events.where("run = 'stream' AND kind = 'pid.open'")
    (row,) = streamed_frame.select("broker", "role", "topic").collect()
    assert tuple(row) == (3, "log", "s")
    # Once more to the same place: it is there already.
    assert main(["trace", "export", str(odd_traces), "--to", str(exported_tables.directory)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_files_that_are_none_or_no_traces_are_named(
    spark: SparkSession, traces: Path, tmp_path: Path
) -> None:
    with pytest.raises(TraceError, match=r"nowhere.jsonl: no such file"):
        export_traces(spark, [str(tmp_path / "nowhere.jsonl")], str(tmp_path / "to"))
    other_file = tmp_path / "other.csv"
    other_file.write_text("a,b\n1,2\n")
    with pytest.raises(TraceError, match=r"other.csv: no trace: expected JSON lines"):
        export_traces(spark, [str(traces), str(other_file)], str(tmp_path / "to"))
    with pytest.raises(TraceError, match="expected what `trace export` has written"):
        register_views(spark, str(tmp_path))


# Spark


def test_one_large_file_is_read_by_several_tasks(export: Path) -> None:
    files = list((export / "events/run=level-2").glob("*.parquet"))
    assert len(files) > 1, "a task writes a file of its own"


# Commands and documents


@pytest.mark.nightly  # Spark takes it half a minute and more
def test_the_command_tells_what_the_functions_find(
    views: SparkSession, export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only = ["--only", "marker_delay", "--only", "epoch_bumps"]
    assert main(["trace", "analyse", str(export), *only, "--json", "--ids", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report["analyses"]) == ["marker_delay", "epoch_bumps"]
    rows = report["analyses"]["epoch_bumps"]
    assert [row["grouped_by"] for row in rows] == [
        "all",
        *["transaction_version"] * 3,
        "transactional_id",
    ]
    epoch_rows = (
        ANALYSES["epoch_bumps"].run(views).where("grouped_by != 'transactional_id'").collect()
    )
    assert rows[:4] == [row.asDict() for row in epoch_rows]
    worst_frame = ANALYSES["epoch_bumps"].run(views).where("grouped_by = 'transactional_id'")
    assert rows[4]["bumps"] == max(row.bumps for row in worst_frame.collect())
    assert main(["trace", "analyse", str(export), "--only", "epoch_bumps", "--ids", "0"]) == 0
    printed_lines = capsys.readouterr().out.splitlines()
    assert printed_lines[0] == "Epoch bumps"
    assert printed_lines[2].split()[:2] == ["all", str(rows[0]["bumps"])]


def test_the_page_shows_what_is_found(views: SparkSession) -> None:
    page_text = PAGE.read_text("utf-8")
    page_blocks = blocks(views)
    assert set(names(page_text)) == set(page_blocks)
    assert fill_page(page_text, page_blocks) == page_text, (
        "python -m tests.spark.pipeline.analysis_page --write"
    )


@pytest.mark.parametrize("is_here", [True, False])
def test_a_later_line_that_is_too_long_does_not_reach_the_tables(
    is_here: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hadoop's reader of lines would keep up to 2 GiB of it, or skip it without a word."""
    for module in (_trace_lines, tables):
        monkeypatch.setattr(module, "LINE_BYTES_MAX", 100_000)
    monkeypatch.setattr(_trace_lines, "_PIECE_BYTES", 10_000)
    if not is_here:
        monkeypatch.setattr(tables, "local_path_of", lambda _: None)
    file = tmp_path / "x.jsonl"
    line = f"{brief_lives().partition(chr(10))[0]}\r\n"
    for long_bytes, is_refused in ((100_000, False), (100_010, True), (300_000, True)):
        file.write_text(line + "x" * long_bytes + "\n" + line)
        error_info = pytest.raises(BadInputError, match=f"{file}: .*more than 100000 bytes")
        with error_info if is_refused else contextlib.nullcontext():
            tables._register_lines(spark, [str(file)])
