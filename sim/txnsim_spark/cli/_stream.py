"""``txnsim stream``: streams committed records to a table, and raises an alert when a transaction
hangs. It runs Spark's Structured Streaming (extra ``spark``, Java 17) until SIGINT or SIGTERM, or
once. Events go to standard output as they happen, all else to standard error. ``streaming.stream``
does the work.
"""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.cli.client_properties import client_of
from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import MISUSE_STATUS, new_folder_or_address
from txnsim.environment_variables import BOOTSTRAP
from txnsim.errors import ConfigError, TxnsimError
from txnsim.files import append
from txnsim.txn.open_txn_verdict import program_at

if TYPE_CHECKING:
    from txnsim_spark.streaming.events import StreamEvent
    from txnsim_spark.streaming.options import StreamOptions

HANGING_STATUS: Final = 1
"""Exit status if a transaction still hangs when the stream ends."""
SETTINGS_OF_FORMAT: Final = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
}
"""Sink format -> Spark settings of the session."""
TOPIC_PREFIX: Final = "topic:"
"""Prefix of a destination of alerts that is a topic."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Stream committed records of topics into a table, each micro-batch exactly once, and probe"
        " what Spark's Kafka connector can't see: how far read_committed readers are held back,"
        " and by which hanging transaction. Exit status: 0, 1 if an alert stands at the end, 2 if"
        " it could not run or failed."
    )
    parser.add_argument(
        "--bootstrap-server",
        metavar="host:port",
        help=f"broker to connect to; several separated by commas (default: {BOOTSTRAP})",
    )
    parser.add_argument(
        "--topic", action="append", required=True, help="what is read; may be repeated"
    )
    parser.add_argument(
        "--sink",
        type=new_folder_or_address,
        required=True,
        metavar="DIR",
        help="where DIR/records and DIR/alerts are written",
    )
    parser.add_argument(
        "--sink-format",
        choices=("parquet", "delta"),
        default="parquet",
        help="what Spark writes there (default %(default)s); delta takes the jars of Delta Lake",
    )
    parser.add_argument(
        "--checkpoint",
        type=new_folder_or_address,
        required=True,
        metavar="DIR",
        help="where the stream remembers how far it is",
    )
    spark_group = parser.add_argument_group("Spark")
    spark_group.add_argument(
        "--connector-jars",
        metavar="DIR|PACKAGES",
        help="Spark's Kafka connector and what else is needed: a directory with the jars, or Maven"
        " coordinates for Spark to fetch; unless given, the session is expected to have them",
    )
    spark_group.add_argument("--master", help="Spark's master (default: local[*])")
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        type=Path,
        help="property file with client configuration, for connector and probe alike",
    )
    parser.add_argument(
        "--alerts-to",
        metavar=f"FILE|{TOPIC_PREFIX}NAME",
        help="write alerts there too: lines of JSON in a file, or a topic of this cluster",
    )
    parser.add_argument("--once", action="store_true", help="take what is there, probe once, end")
    parser.add_argument("--json", action="store_true", help="print events as lines of JSON")
    _add_interval_arguments(parser.add_argument_group("pace"))


def _add_interval_arguments(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--starting-offsets",
        choices=("earliest", "latest"),
        default="earliest",
        help="where a stream without checkpoint and sink begins (default %(default)s)",
    )
    parser.add_argument(
        "--max-offsets-per-trigger", type=int, metavar="N", help="at most so many in one batch"
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="between two batches of records (default %(default)s)",
    )
    parser.add_argument(
        "--probe-interval",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="between two probes (default %(default)s)",
    )
    parser.add_argument(
        "--max-transaction-timeout",
        type=float,
        default=15.0,
        metavar="MIN",
        help="only transactions without a write for longer than this can raise an alert: the"
        " brokers' transaction.max.timeout.ms (default %(default)s minutes)",
    )


def run(args: argparse.Namespace) -> int:
    """Stream until asked to stop; returns the exit status."""
    try:
        return _run_stream(args, _stream_options(args))
    except TxnsimError as error:
        TERMINAL.complain(error)
        return MISUSE_STATUS


def _stream_options(args: argparse.Namespace) -> StreamOptions:
    from txnsim_spark.streaming.options import StreamOptions

    client_properties = client_of(args.bootstrap_server, args.command_config)
    bootstrap = client_properties["bootstrap.servers"]
    command_config = args.command_config
    command_options = () if command_config is None else ("--command-config", str(command_config))
    alerts_go_to_topic = args.alerts_to is not None and args.alerts_to.startswith(TOPIC_PREFIX)
    return StreamOptions(
        client=client_properties,
        topics=tuple(args.topic),
        sink=directory_uri(args.sink),
        checkpoint=directory_uri(args.checkpoint),
        sink_format=args.sink_format,
        starting=args.starting_offsets,
        max_offsets=args.max_offsets_per_trigger,
        interval_ms=int(args.interval * 1_000),
        probe_interval_ms=int(args.probe_interval * 1_000),
        older_than_ms=int(args.max_transaction_timeout * 60_000),
        once=args.once,
        alerts_topic=args.alerts_to.removeprefix(TOPIC_PREFIX) if alerts_go_to_topic else None,
        program=program_at(bootstrap, *command_options),
    )


def directory_uri(directory: str) -> str:
    """A directory in the form that Spark takes. Without a scheme it lies on this machine, whatever
    Hadoop's default file system is.
    """
    scheme, colon_text, _ = directory.partition(":")
    if colon_text and "/" not in scheme:
        return directory.rstrip("/")
    return f"file://{Path(directory).absolute()}"


def connector_config(jars: str | None) -> dict[str, str]:
    """Settings of a new session that bring the connector.

    Raises:
        ConfigError: The directory has no jars.
    """
    if jars is None:
        return {}
    if ":" in jars and not Path(jars).exists():
        return {"spark.jars.packages": jars}
    jar_paths = sorted(str(path.absolute()) for path in Path(jars).glob("*.jar"))
    if not jar_paths:
        raise ConfigError(f"--connector-jars {jars}: there are no jars")
    return {"spark.jars": ",".join(jar_paths)}


def _run_stream(args: argparse.Namespace, options: StreamOptions) -> int:
    from txnsim_spark.session import spark_session

    spark_config = connector_config(args.connector_jars) | SETTINGS_OF_FORMAT.get(
        options.sink_format, {}
    )
    spark = spark_session(args.master, app_name="txnsim stream", config=spark_config)
    from txnsim_spark.streaming.stream import Stream, end_session

    stop_event = threading.Event()
    # After the session, whose start replaces the handler of SIGINT.
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, lambda *_: stop_event.set())
    alerts_go_to_topic = options.alerts_topic is not None
    alerts_file = None if alerts_go_to_topic or args.alerts_to is None else Path(args.alerts_to)
    event_printer = EventPrinter(as_json=args.json, alerts_file=alerts_file)
    try:
        stream = Stream(spark, options, event_printer.print_event)
        stream.start()
        TERMINAL.warn(f"streaming {', '.join(options.topics)} to {options.sink}")
        stream.wait(stop_event)
        return HANGING_STATUS if stream.standing_alerts else 0
    finally:
        end_session(spark)


class EventPrinter:
    """Prints events as whole lines, from any thread, and keeps alerts in a file."""

    def __init__(self, *, as_json: bool, alerts_file: Path | None) -> None:
        self._as_json = as_json
        self._alerts_file = alerts_file
        self._lock = threading.Lock()

    def print_event(self, event: StreamEvent) -> None:
        from txnsim_spark.streaming.events import AlertChanged, BatchWritten, NotProbed

        with self._lock:
            match event:
                case BatchWritten(batch_id=batch, row_count=rows, offsets=offsets):
                    batch_report = {
                        "event": "batch",
                        "batch": batch,
                        "rows": rows,
                        "offsets": offsets,
                    }
                    self._print_line(batch_report, f"batch {batch}: {rows} records")
                case AlertChanged(alert=alert, connector_lag=connector_lag):
                    alert_with_lag = {**msgspec.to_builtins(alert), "connector_lag": connector_lag}
                    lag_text = (
                        ""
                        if connector_lag is None
                        else f" (Spark's connector reports a lag of {connector_lag})"
                    )
                    self._print_line(alert_with_lag, f"{alert.sentence}{lag_text}")
                    if self._alerts_file is not None:
                        with self._alerts_file.open("ab", buffering=0) as file:
                            append(file, msgspec.json.encode(alert) + b"\n")
                case NotProbed(place_text=place_text, error=error):
                    TERMINAL.warn(f"{place_text} could not be asked: {error}")

    def _print_line(self, json_value: object, sentence: str) -> None:
        if self._as_json:
            TERMINAL.json_line(json_value)
        else:
            TERMINAL.line(sentence)
