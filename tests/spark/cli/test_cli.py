"""Commands of Spark, as far as they go without it."""

from __future__ import annotations

import argparse
import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from txnsim.cli.main import main
from txnsim.cli.parsing import CommandParser
from txnsim.errors import ConfigError, MissingExtraError
from txnsim_spark.cli import _stream as stream
from txnsim_spark.cli import trace_actions as trace
from txnsim_spark.cli._stream import EventPrinter, connector_config, directory_uri
from txnsim_spark.streaming._alerts import Alert, AlertEvent
from txnsim_spark.streaming.events import AlertChanged, BatchWritten, NotProbed
from txnsim_spark.streaming.options import StreamOptions

# ``txnsim stream`` as far as it goes without Spark; the rest is
# tests/spark/pipeline/test_stream.py.


REQUIRED = ["--topic", "t", "--sink", "/s", "--checkpoint", "/c"]
ALERT = Alert(
    event=AlertEvent.RAISED,
    id="t-0@3/7:1",
    at_ms=1,
    since_ms=1,
    topic="t",
    partition=0,
    producer_id=7,
    producer_epoch=1,
    transactional_id=None,
    start_offset=3,
    last_timestamp_ms=0,
    last_stable_offset=3,
    high_watermark=5,
    lag=2,
    reason="why",
    command="what",
)


def options(*arguments: str) -> StreamOptions:
    parser = argparse.ArgumentParser()
    stream.add_arguments(parser)
    return stream._stream_options(parser.parse_args([*REQUIRED, *arguments]))


def test_times_are_given_as_people_count_them() -> None:
    stream_options = options(
        *("--bootstrap-server", "h:1", "--topic", "u", "--interval", "0.5"),
        *("--probe-interval", "2", "--max-transaction-timeout", "1.5"),
    )
    assert (stream_options.topics, stream_options.sink) == (("t", "u"), "file:///s")
    assert (
        stream_options.interval_ms,
        stream_options.probe_interval_ms,
        stream_options.older_than_ms,
    ) == (500, 2_000, 90_000)
    assert stream_options.program == "txnsim txns --bootstrap-server h:1"


def test_a_property_file_reaches_connector_probe_and_the_commands_that_are_told(
    tmp_path: Path,
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=h:1\nssl.protocol=TLSv1.3\n")
    stream_options = options("--command-config", str(file), "--alerts-to", "topic:alerts")
    assert stream_options.client == {"bootstrap.servers": "h:1", "ssl.protocol": "TLSv1.3"}
    assert stream_options.program == f"txnsim txns --bootstrap-server h:1 --command-config {file}"
    assert stream_options.alerts_topic == "alerts"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bootstrap-server"], "expected one argument"),
        ([], "--bootstrap-server is missing"),
        (["--bootstrap-server", "h:1", "--connector-jars", "."], "there are no jars"),
    ],
)
def test_what_cannot_be_is_a_misuse(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["stream", *REQUIRED, *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "expected_path"),
    [
        ("/a b/c", "file:///a b/c"),
        ("hdfs://h/x/", "hdfs://h/x"),
        ("file:///a", "file:///a"),
        ("relative", f"file://{Path.cwd()}/relative"),
        ("./odd:name", f"file://{Path.cwd()}/odd:name"),
    ],
)
def test_a_directory_without_scheme_is_of_this_machine(address: str, expected_path: str) -> None:
    assert directory_uri(address) == expected_path


def test_the_connector_is_a_directory_of_jars_or_packages(tmp_path: Path) -> None:
    assert connector_config(None) == {}
    assert connector_config("a:b:1,c:d:2") == {"spark.jars.packages": "a:b:1,c:d:2"}
    for file_name in ("b.jar", "a.jar", "notes.txt"):
        (tmp_path / file_name).touch()
    assert connector_config(str(tmp_path)) == {"spark.jars": f"{tmp_path}/a.jar,{tmp_path}/b.jar"}
    with pytest.raises(ConfigError, match="there are no jars"):
        connector_config(str(tmp_path / "none"))


def test_events_are_lines_of_json_and_alerts_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "alerts.jsonl"
    event_printer = EventPrinter(as_json=True, alerts_file=file)
    event_printer.print_event(BatchWritten(batch_id=2, row_count=5, offsets={"t": {"0": 5}}))
    event_printer.print_event(AlertChanged(alert=ALERT, connector_lag=0))
    event_printer.print_event(AlertChanged(alert=ALERT, connector_lag=None))
    event_printer.print_event(NotProbed(place_text="t-1", error="no leader"))
    output, error_output = capsys.readouterr()
    batch, alert, _ = map(json.loads, output.splitlines())
    assert batch == {"event": "batch", "batch": 2, "rows": 5, "offsets": {"t": {"0": 5}}}
    assert (alert["event"], alert["producer_id"], alert["connector_lag"]) == ("raised", 7, 0)
    assert error_output == "t-1 could not be asked: no leader\n"
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [ALERT.id] * 2


def test_people_are_told_in_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    event_printer = EventPrinter(as_json=False, alerts_file=None)
    event_printer.print_event(BatchWritten(batch_id=2, row_count=5, offsets={}))
    event_printer.print_event(AlertChanged(alert=ALERT, connector_lag=0))
    batch, alert_name = capsys.readouterr().out.splitlines()
    assert batch == "batch 2: 5 records"
    assert alert_name == f"{ALERT.sentence} (Spark's connector reports a lag of 0)"


class FakeSpark:
    """A session that starts no JVM."""

    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(("standing_alerts", "status"), [((), 0), ((ALERT,), 1)])
def test_an_alert_that_stands_at_the_end_is_in_the_exit_status(
    standing_alerts: tuple[Alert, ...], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class QuickStream:
        """A stream that is told to stop at once."""

        def __init__(
            self, session: FakeSpark, stream_options: StreamOptions, on_event: object
        ) -> None:
            assert (session, stream_options.topics) == (spark, ("t",))
            self.standing_alerts = standing_alerts

        def start(self) -> None:
            """Do nothing."""

        def wait(self, stop: threading.Event) -> None:
            handlers[signal.SIGTERM]()
            assert stop.is_set()

    spark = FakeSpark()
    handlers: dict[int, Callable[[], None]] = {}
    monkeypatch.setattr(
        signal, "signal", lambda stop_signal, handler: handlers.update({stop_signal: handler})
    )
    monkeypatch.setattr("txnsim_spark.session.spark_session", lambda *_, **__: spark)
    monkeypatch.setattr("txnsim_spark.streaming.stream.Stream", QuickStream)
    assert main(["stream", *REQUIRED, "--bootstrap-server", "h:1"]) == status
    assert spark.stopped
    assert set(handlers) == {signal.SIGINT, signal.SIGTERM}


# ``txnsim trace export`` and ``analyse`` without Spark; with it:
# tests/spark/pipeline/test_trace.py.


def arguments(*options: str) -> argparse.Namespace:
    parser = CommandParser()
    trace.add_arguments(parser.add_subparsers(dest="action"))
    return parser.parse_args(list(options))


def test_traces_a_place_and_a_master_are_taken() -> None:
    args = arguments("export", "a.jsonl", "b", "--to", "out", "--master", "local[2]", "--json")
    assert (args.action, args.trace, args.to) == ("export", ["a.jsonl", "b"], "out")
    assert (args.master, args.json) == ("local[2]", True)


def test_five_ids_of_every_analysis_are_shown_unless_told_otherwise() -> None:
    args = arguments("analyse", "a")
    assert (args.ids, args.only) == (5, [])
    args = arguments("analyse", "a", "--ids", "0", "--only", "lso_lag")
    assert (args.ids, args.only) == (0, ["lso_lag"])


@pytest.mark.parametrize("count", ["-1", "x", "1.5", "²"])
def test_no_number_of_ids_is_a_misuse(count: str) -> None:
    assert main(["trace", "analyse", "a", "--ids", count]) == 2


def test_an_analysis_that_is_none_is_refused_before_spark_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["trace", "analyse", "a", "--only", "lag"]) == 2
    errors = capsys.readouterr().err
    assert "'lag'" in errors
    assert "lso_lag" in errors


def test_what_is_missing_on_this_machine_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def raise_missing(_master: str | None) -> Iterator[Any]:
        raise MissingExtraError("Apache Spark needs Java 17")
        yield

    monkeypatch.setattr(trace, "session", raise_missing)
    assert main(["trace", "export", "s3a://bucket/a.jsonl", "--to", "out"]) == 2
    assert "Java 17" in capsys.readouterr().err


def summary(**changes: object) -> dict[str, object]:
    return {"runs": 1, "events": 2, "unknown_kinds": {}, "unreadable": [], **changes}


def test_all_is_well_where_every_line_was_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace._warn_of_unread(summary()) == 0
    assert capsys.readouterr().err == ""


def test_kinds_that_nobody_knows_are_named_and_no_fault(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert trace._warn_of_unread(summary(unknown_kinds={"txn.dream": 3})) == 0
    assert "3 events of kind 'txn.dream'" in capsys.readouterr().err


def test_unreadable_lines_are_shown_up_to_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    torn_lines = [
        {"file": f"{number}.jsonl", "reason": "cut off", "lines": 1, "text": "{"}
        for number in range(8)
    ]
    assert trace._warn_of_unread(summary(unreadable=torn_lines)) == 1
    printed_lines = capsys.readouterr().err.splitlines()
    assert printed_lines[0] == "txnsim: 0.jsonl: 1 × cut off: {"
    assert printed_lines[-1] == "txnsim: … and 3 more files like that"
    assert len(printed_lines) == trace.FILES_SHOWN_MAX + 1


def test_a_table_leaves_out_columns_in_which_nothing_is() -> None:
    table = trace._rows_as_table(
        [
            {"grouped_by": "all", "transaction_version": None, "transactional_id": None, "p50": 1.5}
            | {"p99": None},
            {"grouped_by": "transactional_id", "transaction_version": 2, "transactional_id": "app"}
            | {"p50": None, "p99": None},
        ]
    )
    assert [line.split() for line in table.splitlines()] == [
        ["transaction_version", "transactional_id", "p50"],
        ["all", "1.5"],
        ["2", "app"],
    ]


def test_a_trace_without_any_of_it_is_said_to_be_so() -> None:
    assert trace._rows_as_table([]) == "nothing of it in this trace\n"


def test_only_directories_of_this_machine_are_looked_into(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").touch()
    assert trace._names_in_directory(tmp_path) == ["x.jsonl"]
    assert trace._names_in_directory(tmp_path / "x.jsonl") == []
    assert trace._names_in_directory(Path("s3a://bucket/x")) == []


# ``commands``: Commands of Spark in the words of the command line. Each one's examples:
# tests/broker/cli.


def test_a_word_of_two_commands_is_answered_with_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe"]) == 2
    errors = capsys.readouterr().err
    assert "`txnsim txns describe` or " in errors
    assert "`txnsim logs describe`?" in errors
