"""Directories of a real Kafka in an S3 store: the source and the commands give the same results as
on this machine, field by field, except for paths.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.spark.pipeline.damaged.make import unpack_stages
from tests.spark.pipeline.following import follow
from tests.support.growing_dirs import GrowingDir
from tests.support.store_servers import S3Store
from txnsim.cli.main import main
from txnsim.cli.parsing import MISUSE_STATUS
from txnsim_spark import find_hanging, register
from txnsim_spark.streaming._checkpoint import Folder
from txnsim_spark.streaming._sink import DONE_NAME, TableSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
pytestmark = [pytest.mark.spark, pytest.mark.real]

AS_OF: Final = "2026-12-01T00:00:00Z"
COMMANDS: Final = {
    "find-hanging": ("find-hanging", "DIR", "--as-of", AS_OF),
    "find-hanging --read-all": ("find-hanging", "DIR", "--as-of", AS_OF, "--read-all"),
    "describe": ("describe", "DIR"),
    "verify": ("verify", "DIR"),
    "timeline": ("timeline", "alive", "DIR"),
    "sql": (
        "sql",
        "SELECT * FROM kafka_outcomes WHERE producer_id IN ("
        "SELECT producer_id FROM kafka_transactions WHERE transactional_id = 'alive')"
        " ORDER BY topic, partition, `offset`",
        "DIR",
    ),
}
TABLES: Final = ("batches", "records", "producer_state", "aborted", "errors", "leader_epochs")


class FilledStore:
    """A store with a copy of a local directory.

    Args:
        store: The running store.
        local: The local directory.
    """

    def __init__(self, store: S3Store, local_path: Path) -> None:
        self.store = store
        self.local = local_path
        store.upload(local_path, "kafka")

    @property
    def uri(self) -> str:
        """URI of the copied directory."""
        return f"{self.store.uri}/kafka"

    def as_local(self, text: str) -> str:
        """The output about the store, with this machine's paths instead of the store's URIs."""
        return text.replace(self.uri, str(self.local))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directories of one broker's two lives, with five hanging transactions. Files are as new
    as those in the store: verify depends on a snapshot's time.
    """
    directory = unpack_stages(tmp_path_factory.mktemp("local"))
    for path in directory.rglob("*"):
        path.touch()
    return directory


@pytest.fixture(scope="module")
def filled_store(
    tmp_path_factory: pytest.TempPathFactory,
    local: Path,
    spark: SparkSession,
) -> Iterator[FilledStore]:
    """The store with the directory; the session knows its settings."""
    with S3Store(tmp_path_factory.mktemp("store")) as store:
        for name, setting_value in store.config.items():
            if name.startswith("spark.hadoop."):
                spark.conf.set(name.removeprefix("spark.hadoop."), setting_value)
        register(spark)
        yield FilledStore(store, local)


def play_command(
    capsys: pytest.CaptureFixture[str], command: str, directory: str, settings: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Run a command; returns its exit status and JSON."""
    capsys.readouterr()
    arguments = [directory if argument == "DIR" else argument for argument in COMMANDS[command]]
    status = main(["logs", *arguments, *settings, "--json"])
    output = capsys.readouterr()
    assert status != MISUSE_STATUS, output.err
    return status, output.out


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_of_a_store_what_it_says_of_a_directory(
    filled_store: FilledStore, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_of_store = play_command(
        capsys, command, f"{filled_store.uri}/clea[n]", filled_store.store.settings
    )
    rows_of_directory = play_command(capsys, command, str(filled_store.local / "clean"))
    assert rows_of_store[0] == rows_of_directory[0]
    assert without_source(filled_store.as_local(rows_of_store[1])) == without_source(
        rows_of_directory[1]
    )
    assert (filled_store.uri in rows_of_store[1]) == (
        str(filled_store.local) in rows_of_directory[1]
    )


def without_source(text: str) -> Any:
    """The findings of a command, without the note whether Spark read the files."""
    report = json.loads(text)
    if isinstance(report, dict) and "source" in report:
        del report["source"]["with_spark"]
    return report


@pytest.mark.parametrize("table_name", TABLES)
def test_a_table_of_a_store_is_that_of_a_directory(
    filled_store: FilledStore, table_name: str, spark: SparkSession
) -> None:
    store_rows = rows(spark, table_name, f"{filled_store.uri}/clean")
    local_rows = rows(spark, table_name, str(filled_store.local / "clean"))
    assert sorted(map(filled_store.as_local, store_rows)) == sorted(local_rows)
    assert local_rows or table_name == "errors"


def rows(spark: SparkSession, table_name: str, directory: str) -> list[str]:
    """Rows of a table as text, to be compared in any order."""
    frame = spark.read.format("kafka_log").option("table", table_name).load(directory)
    return [repr(row) for row in frame.collect()]


def test_one_call_gives_the_findings_of_a_store(
    filled_store: FilledStore, spark: SparkSession
) -> None:
    store_findings_frame = find_hanging(spark, f"{filled_store.uri}/clean", as_of=AS_OF)
    directory_findings_frame = find_hanging(spark, filled_store.local / "clean", as_of=AS_OF)
    finding_rows = sorted(map(repr, directory_findings_frame.collect()))
    assert (
        sorted(filled_store.as_local(repr(row)) for row in store_findings_frame.collect())
        == finding_rows
    )
    assert len(finding_rows) >= 5


def test_a_condition_on_the_directory_names_it_as_the_store_does(
    filled_store: FilledStore, spark: SparkSession
) -> None:
    frame = spark.read.format("kafka_log").load(f"{filled_store.uri}/*")
    chosen_frame = frame.where(frame.log_dir == f"{filled_store.uri}/clean")
    assert {row.log_dir for row in frame.select("log_dir").distinct().collect()} == {
        f"{filled_store.uri}/clean",
        f"{filled_store.uri}/killed",
    }
    assert chosen_frame.count() == len(rows(spark, "batches", str(filled_store.local / "clean")))


def test_what_is_not_there_is_a_misuse(
    filled_store: FilledStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "verify", f"{filled_store.uri}/none*"]) == 2
    assert f"{filled_store.uri}/none*" in capsys.readouterr().err


def test_a_stream_follows_a_store(
    filled_store: FilledStore, spark: SparkSession, tmp_path: Path
) -> None:
    growing_dir = GrowingDir(tmp_path / "broker-1")
    directory = f"{filled_store.store.uri}/growing-{tmp_path.name}"
    for _ in range(2):  # the second one goes on from the checkpoint
        growing_dir.grow()
        filled_store.store.upload(growing_dir.path, directory.rpartition("/")[2])
        writer = follow(spark, directory, "records", str(tmp_path / "out"), maxFilesPerTrigger=2)
        writer.trigger(availableNow=True).start().awaitTermination()
        parquet_frame = spark.read.parquet(str(tmp_path / "out" / "records"))
        directory_rows_frame = (
            spark.read.format("kafka_log").option("table", "records").load(str(growing_dir.path))
        )
        rows_of_store = [
            repr(row) for row in parquet_frame.select(*directory_rows_frame.columns).collect()
        ]
        expected = sorted(map(repr, directory_rows_frame.collect()))
        renamed = [argument.replace(directory, str(growing_dir.path)) for argument in rows_of_store]
        assert sorted(renamed) == expected
        assert not any(str(growing_dir.path) in argument for argument in rows_of_store)


def test_a_table_in_a_store_has_each_batch_of_a_stream_once(
    filled_store: FilledStore, spark: SparkSession
) -> None:
    directory = f"{filled_store.store.uri}/sink"
    sink = TableSink(spark, directory, columns="value bigint")
    assert (sink.rows(), sink.knows("q")) == (None, False)
    batches = [spark.createDataFrame([(number,)], "value bigint") for number in range(3)]
    for batch_number, rows in enumerate(batches):
        assert sink.write(rows, batch_number, query_id="q") == 1
        assert sink.write(rows, batch_number, query_id="q") is None
    folder = Folder(directory, spark)
    folder.remove(f"query=q/batch=2/{DONE_NAME}")  # as if Spark had ended within its commit
    sink.sweep()
    assert folder.names("query=q") == ["batch=0", "batch=1"]
    assert sink.write(batches[2], 2, query_id="q") == 1
    assert sink.write(batches[0], 0, query_id="r") == 1
    rows = sink.rows(query_left_out="r")
    assert rows is not None
    assert sorted((row.value, row.batch) for row in rows.collect()) == [(0, 0), (1, 1), (2, 2)]
    assert sink.rows(query_left_out="q") is not None
    assert sink.knows("r")
