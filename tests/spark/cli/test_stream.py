"""``txnsim stream`` as far as it goes without Spark; the rest is
tests/spark/pipeline/test_stream.py.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from txnsim.cli.main import main
from txnsim.errors import ConfigError
from txnsim_spark.cli import _stream as stream
from txnsim_spark.cli._stream import Teller, connector_config, location
from txnsim_spark.streaming._alerts import Alert, AlertEvent
from txnsim_spark.streaming.events import AlertChanged, BatchWritten, NotAsked
from txnsim_spark.streaming.options import StreamOptions

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
    return stream._options(parser.parse_args([*REQUIRED, *arguments]))


def test_times_are_given_as_people_count_them() -> None:
    read = options(
        *("--bootstrap-server", "h:1", "--topic", "u", "--interval", "0.5"),
        *("--probe-interval", "2", "--max-transaction-timeout", "1.5"),
    )
    assert (read.topics, read.sink) == (("t", "u"), "file:///s")
    assert (read.interval_ms, read.probe_interval_ms, read.older_than_ms) == (500, 2_000, 90_000)
    assert read.program == "txnsim txns --bootstrap-server h:1"


def test_a_property_file_reaches_connector_probe_and_the_commands_that_are_told(
    tmp_path: Path,
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=h:1\nssl.protocol=TLSv1.3\n")
    read = options("--command-config", str(file), "--alerts-to", "topic:alerts")
    assert read.client == {"bootstrap.servers": "h:1", "ssl.protocol": "TLSv1.3"}
    assert read.program == f"txnsim txns --bootstrap-server h:1 --command-config {file}"
    assert read.alerts_topic == "alerts"


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
    ("given", "taken"),
    [
        ("/a b/c", "file:///a b/c"),
        ("hdfs://h/x/", "hdfs://h/x"),
        ("file:///a", "file:///a"),
        ("relative", f"file://{Path.cwd()}/relative"),
        ("./odd:name", f"file://{Path.cwd()}/odd:name"),
    ],
)
def test_a_directory_without_scheme_is_of_this_machine(given: str, taken: str) -> None:
    assert location(given) == taken


def test_the_connector_is_a_directory_of_jars_or_packages(tmp_path: Path) -> None:
    assert connector_config(None) == {}
    assert connector_config("a:b:1,c:d:2") == {"spark.jars.packages": "a:b:1,c:d:2"}
    for name in ("b.jar", "a.jar", "notes.txt"):
        (tmp_path / name).touch()
    assert connector_config(str(tmp_path)) == {"spark.jars": f"{tmp_path}/a.jar,{tmp_path}/b.jar"}
    with pytest.raises(ConfigError, match="there are no jars"):
        connector_config(str(tmp_path / "none"))


def test_events_are_lines_of_json_and_alerts_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "alerts.jsonl"
    teller = Teller(as_json=True, alerts_file=file)
    teller.tell(BatchWritten(batch=2, rows=5, offsets={"t": {"0": 5}}))
    teller.tell(AlertChanged(alert=ALERT, connector_lag=0))
    teller.tell(AlertChanged(alert=ALERT, connector_lag=None))
    teller.tell(NotAsked(where="t-1", error="no leader"))
    out, err = capsys.readouterr()
    batch, alert, _ = map(json.loads, out.splitlines())
    assert batch == {"event": "batch", "batch": 2, "rows": 5, "offsets": {"t": {"0": 5}}}
    assert (alert["event"], alert["producer_id"], alert["connector_lag"]) == ("raised", 7, 0)
    assert err == "t-1 could not be asked: no leader\n"
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [ALERT.id] * 2


def test_people_are_told_in_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller(as_json=False, alerts_file=None)
    teller.tell(BatchWritten(batch=2, rows=5, offsets={}))
    teller.tell(AlertChanged(alert=ALERT, connector_lag=0))
    batch, alert = capsys.readouterr().out.splitlines()
    assert batch == "batch 2: 5 records"
    assert alert == f"{ALERT.sentence} (Spark's connector reports a lag of 0)"


class FakeSpark:
    """A session that starts no JVM."""

    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(("standing", "status"), [((), 0), ((ALERT,), 1)])
def test_an_alert_that_stands_at_the_end_is_in_the_exit_status(
    standing: tuple[Alert, ...], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Quick:
        """A stream that is told to stop at once."""

        def __init__(self, session: FakeSpark, read: StreamOptions, told: object) -> None:
            assert (session, read.topics) == (spark, ("t",))
            self.standing = standing

        def start(self) -> None:
            """It runs."""

        def wait(self, stop: threading.Event) -> None:
            handlers[signal.SIGTERM]()
            assert stop.is_set()

    spark = FakeSpark()
    handlers: dict[int, Callable[[], None]] = {}
    monkeypatch.setattr(signal, "signal", lambda one, handler: handlers.update({one: handler}))
    monkeypatch.setattr("txnsim_spark.session.spark_session", lambda *_, **__: spark)
    monkeypatch.setattr("txnsim_spark.streaming.stream.Stream", Quick)
    assert main(["stream", *REQUIRED, "--bootstrap-server", "h:1"]) == status
    assert spark.stopped
    assert set(handlers) == {signal.SIGINT, signal.SIGTERM}
