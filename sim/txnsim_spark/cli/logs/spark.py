"""Shared by the actions of ``txnsim logs`` that run on Spark: arguments, the session, progress of a
job.
"""

from __future__ import annotations

import argparse
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from traceback import walk_tb
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from txnsim.cli.output import TERMINAL
from txnsim.errors import BadInputError
from txnsim_spark.stores.uris import is_in_object_store

if TYPE_CHECKING:
    from txnsim_spark.session import SparkSession

POLL_SECONDS: Final = 0.5
JAVA_ENDS_SECONDS: Final = 1.2
"""How long Java may take after Ctrl-C to delete its folders, in seconds; then it is killed."""
PY4J_MESSAGES: Final = (
    "Exception while sending command.",
    "KeyboardInterrupt while sending command.",
)
"""Messages that py4j logs with a traceback, and raises as well."""
SESSION_SETTINGS: ContextVar[Mapping[str, str]] = ContextVar("SESSION_SETTINGS", default={})  # noqa: B039 - never changed
"""Settings given by ``--spark-conf``, for a session that is started later."""


def add_directory_arguments(
    parser: argparse.ArgumentParser, *, has_topic_option: bool = True
) -> None:
    parser.add_argument(
        "directory",
        type=directory_or_uri,
        nargs="+",
        metavar="DIR",
        help="a broker's log directory, a folder of several, or a replica's folder; s3a:// and"
        " gs://, with patterns, are object stores",
    )
    parser.add_argument(
        "--spark-conf",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help="a setting of Spark, such as spark.jars.packages or spark.hadoop.fs.s3a.endpoint;"
        " may be repeated",
    )
    if has_topic_option:
        parser.add_argument(
            "--topic", action="append", default=[], help="only this topic; may be repeated"
        )


def directory_or_uri(text: str) -> Path | str:
    """A path of this machine, or the text of a URI if it lies in a store."""
    try:
        if is_in_object_store(text):
            return text
    except BadInputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return Path(unquote(text.removeprefix("file://"))) if text.startswith("file:/") else Path(text)


def setting(setting_text: str) -> tuple[str, str]:
    setting_name, equals_sign, setting_value = setting_text.partition("=")
    if not equals_sign:
        raise argparse.ArgumentTypeError(f"{setting_text!r}: expected NAME=VALUE")
    return setting_name.strip(), setting_value


def add_master_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the option that says where Spark runs."""
    parser.add_argument(
        "--master",
        metavar="URL",
        help="where Spark runs: local[N], spark://HOST:PORT … (default: the master of spark-submit,"
        " else all cores of this machine)",
    )


@contextmanager
def session(master: str | None, *, is_short: bool = False) -> Iterator[SparkSession]:
    """The session of this process; one that was started here is stopped at the end.

    Args:
        master: Where Spark runs; None for the default.
        is_short: Whether there are only a few queries, whose work is done in Python.

    Raises:
        MissingExtraError: PySpark or Java is missing.
    """
    from txnsim_spark.session import SHORT_SESSION_CONFIG, has_running_session, spark_session

    TERMINAL.progress("starting Spark")
    is_foreign_session = has_running_session()
    if not is_foreign_session:
        keep_py4j_silent()
    settings = {**(SHORT_SESSION_CONFIG if is_short else {}), **SESSION_SETTINGS.get()}
    try:
        spark = spark_session(master, config=settings)
    except KeyboardInterrupt as interrupt:
        kill_starting_java(interrupt)
        raise
    has_ended_event = threading.Event()
    watching_thread = threading.Thread(
        target=_show_stage_progress, args=(spark, has_ended_event), daemon=True
    )
    if TERMINAL.may_move_cursor():
        watching_thread.start()
    is_ended = is_foreign_session
    try:
        yield spark
    except KeyboardInterrupt:
        if not is_foreign_session:
            is_ended = end_java(spark)
        raise
    finally:
        has_ended_event.set()
        if watching_thread.ident is not None:
            watching_thread.join()
            TERMINAL.progress("")
        if not is_ended:
            spark.stop()


def kill_starting_java(interrupt: KeyboardInterrupt) -> None:
    """Kill the Java process that PySpark waits for. Java ends by itself only after it has told its
    port; if PySpark has removed the folder for that, it never ends. Only PySpark's own frame knows
    the process.
    """
    for stack_frame, _ in walk_tb(interrupt.__traceback__):
        java_process = stack_frame.f_locals.get("proc")
        if stack_frame.f_code.co_name == "launch_gateway" and isinstance(java_process, Popen):
            java_process.kill()
            java_process.wait()


def end_java(spark: SparkSession) -> bool:
    """End the Java process of a session at once, without waiting for its jobs and without output.
    It may delete its folders, and is killed if that takes long. Return False where another process
    started it.
    """
    java_process = getattr(spark.sparkContext._gateway, "proc", None)
    if not isinstance(java_process, Popen):
        return False
    spark.sparkContext.setLogLevel("OFF")
    java_process.terminate()
    try:
        java_process.wait(JAVA_ENDS_SECONDS)
    except TimeoutExpired:
        java_process.kill()
        java_process.wait()
    return True


def keep_py4j_silent() -> None:
    """Keep py4j from printing a traceback when Ctrl-C breaks off a request: PySpark's signal
    handler calls the JVM in the middle of it. py4j raises what it prints, so nothing is lost.
    """
    root_logger = logging.getLogger()
    if _is_not_of_py4j not in root_logger.filters:
        root_logger.addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.msg not in PY4J_MESSAGES


def _show_stage_progress(spark: SparkSession, has_ended_event: threading.Event) -> None:
    """Show how many tasks of the running stage are done."""
    status_tracker = spark.sparkContext.statusTracker()
    while not has_ended_event.wait(POLL_SECONDS):
        for stage_id in status_tracker.getActiveStageIds():
            stage_info = status_tracker.getStageInfo(stage_id)
            if stage_info is not None and stage_info.numTasks:
                TERMINAL.progress(
                    f"{stage_info.name}: {stage_info.numCompletedTasks} of {stage_info.numTasks}"
                    " tasks"
                )
