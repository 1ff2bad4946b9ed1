"""What the actions of ``txnsim logs`` that run on Spark have in common: arguments, the session, how
far a job is.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from txnsim.cli.output import TERMINAL
from txnsim.errors import BadInputError
from txnsim_spark.stores.uris import is_elsewhere

if TYPE_CHECKING:
    from txnsim_spark.session import SparkSession

POLL_SECONDS: Final = 0.5
GIVEN: ContextVar[Mapping[str, str]] = ContextVar("GIVEN", default={})  # noqa: B039 - never changed
"""Settings of ``--spark-conf``, for a session that is started later."""


def add_directories(parser: argparse.ArgumentParser, *, of_topics: bool = True) -> None:
    parser.add_argument(
        "directory",
        type=place,
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
    if of_topics:
        parser.add_argument(
            "--topic", action="append", default=[], help="only this topic; may be repeated"
        )


def place(text: str) -> Path | str:
    """A directory of this machine; text where it lies in a store."""
    try:
        if is_elsewhere(text):
            return text
    except BadInputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return Path(unquote(text.removeprefix("file://"))) if text.startswith("file:/") else Path(text)


def setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE")
    return name.strip(), value


def add_master(parser: argparse.ArgumentParser) -> None:
    """Where Spark runs."""
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
        is_short: A few queries, whose work is done in Python.

    Raises:
        MissingExtraError: PySpark or Java is missing.
    """
    from txnsim_spark.session import SHORT_LIVED, is_running, spark_session

    TERMINAL.progress("starting Spark")
    is_anothers = is_running()
    spark = spark_session(master, config={**(SHORT_LIVED if is_short else {}), **GIVEN.get()})
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, done), daemon=True)
    if TERMINAL.may_move_cursor():
        watcher.start()
    try:
        yield spark
    finally:
        done.set()
        if watcher.ident is not None:
            watcher.join()
            TERMINAL.progress("")
        if not is_anothers:
            spark.stop()


def _watch(spark: SparkSession, done: threading.Event) -> None:
    """Show how many tasks of the running stage are done."""
    tracker = spark.sparkContext.statusTracker()
    while not done.wait(POLL_SECONDS):
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None and info.numTasks:
                TERMINAL.progress(f"{info.name}: {info.numCompletedTasks} of {info.numTasks} tasks")
