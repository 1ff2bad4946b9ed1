"""A real Kafka's directory in an S3 store says what it says on this machine, by the source and by
the commands: field by field, but for the names of places.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.spark.pipeline.damaged.make import unpacked
from tests.spark.pipeline.following import follow
from tests.support.growing_dirs import GrowingDir
from tests.support.store_servers import S3Store
from txnsim.cli.main import main
from txnsim.cli.parsing import MISUSE_STATUS
from txnsim_spark import find_hanging, register
from txnsim_spark.streaming._checkpoint import Folder
from txnsim_spark.streaming._sink import DONE, TableSink

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


class Filled:
    """A store that holds what a directory of this machine holds.

    Args:
        store: It runs.
        local: The directory.
    """

    def __init__(self, store: S3Store, local: Path) -> None:
        self.store = store
        self.local = local
        store.put(local, "kafka")

    @property
    def uri(self) -> str:
        """Of the directory."""
        return f"{self.store.uri}/kafka"

    def renamed(self, text: str) -> str:
        """What is told of the store, as it is told of this machine."""
        return text.replace(self.uri, str(self.local))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directories of one broker's two lives, with five hanging transactions. As new as what is
    put into a store: verify goes by a snapshot's time.
    """
    directory = unpacked(tmp_path_factory.mktemp("local"))
    for path in directory.rglob("*"):
        path.touch()
    return directory


@pytest.fixture(scope="module")
def filled(
    tmp_path_factory: pytest.TempPathFactory,
    local: Path,
    spark: SparkSession,
) -> Iterator[Filled]:
    """The store, and Spark told of it."""
    with S3Store(tmp_path_factory.mktemp("store")) as store:
        for name, value in store.config.items():
            if name.startswith("spark.hadoop."):
                spark.conf.set(name.removeprefix("spark.hadoop."), value)
        register(spark)
        yield Filled(store, local)


def played(
    capsys: pytest.CaptureFixture[str], command: str, directory: str, settings: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Exit status and JSON of a command."""
    capsys.readouterr()
    arguments = [directory if word == "DIR" else word for word in COMMANDS[command]]
    status = main(["logs", *arguments, *settings, "--json"])
    output = capsys.readouterr()
    assert status != MISUSE_STATUS, output.err
    return status, output.out


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_of_a_store_what_it_says_of_a_directory(
    filled: Filled, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_of_store = played(capsys, command, f"{filled.uri}/clea[n]", filled.store.settings)
    rows_of_directory = played(capsys, command, str(filled.local / "clean"))
    assert rows_of_store[0] == rows_of_directory[0]
    assert told(filled.renamed(rows_of_store[1])) == told(rows_of_directory[1])
    assert (filled.uri in rows_of_store[1]) == (str(filled.local) in rows_of_directory[1])


def told(text: str) -> Any:
    """What a command found; how it read that is another matter."""
    document = json.loads(text)
    if isinstance(document, dict) and "source" in document:
        del document["source"]["with_spark"]
    return document


@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_a_store_is_that_of_a_directory(
    filled: Filled, table: str, spark: SparkSession
) -> None:
    there = rows(spark, table, f"{filled.uri}/clean")
    here = rows(spark, table, str(filled.local / "clean"))
    assert sorted(map(filled.renamed, there)) == sorted(here)
    assert here or table == "errors"


def rows(spark: SparkSession, table: str, directory: str) -> list[str]:
    """As text, to be compared in any order."""
    frame = spark.read.format("kafka_log").option("table", table).load(directory)
    return [repr(row) for row in frame.collect()]


def test_one_call_gives_the_findings_of_a_store(filled: Filled, spark: SparkSession) -> None:
    findings_of_store = find_hanging(spark, f"{filled.uri}/clean", as_of=AS_OF)
    findings_of_directory = find_hanging(spark, filled.local / "clean", as_of=AS_OF)
    finding_rows = sorted(map(repr, findings_of_directory.collect()))
    assert sorted(filled.renamed(repr(row)) for row in findings_of_store.collect()) == finding_rows
    assert len(finding_rows) >= 5


def test_a_condition_on_the_directory_names_it_as_the_store_does(
    filled: Filled, spark: SparkSession
) -> None:
    frame = spark.read.format("kafka_log").load(f"{filled.uri}/*")
    wanted = frame.where(frame.log_dir == f"{filled.uri}/clean")
    assert {row.log_dir for row in frame.select("log_dir").distinct().collect()} == {
        f"{filled.uri}/clean",
        f"{filled.uri}/killed",
    }
    assert wanted.count() == len(rows(spark, "batches", str(filled.local / "clean")))


def test_what_is_not_there_is_a_misuse(filled: Filled, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "verify", f"{filled.uri}/none*"]) == 2
    assert f"{filled.uri}/none*" in capsys.readouterr().err


def test_a_stream_follows_a_store(filled: Filled, spark: SparkSession, tmp_path: Path) -> None:
    growing = GrowingDir(tmp_path / "broker-1")
    directory = f"{filled.store.uri}/growing-{tmp_path.name}"
    for _ in range(2):  # the second one goes on from the checkpoint
        growing.grow()
        filled.store.put(growing.path, directory.rpartition("/")[2])
        writer = follow(spark, directory, "records", str(tmp_path / "out"), maxFilesPerTrigger=2)
        writer.trigger(availableNow=True).start().awaitTermination()
        parquet = spark.read.parquet(str(tmp_path / "out" / "records"))
        rows_of_directory = (
            spark.read.format("kafka_log").option("table", "records").load(str(growing.path))
        )
        rows_of_store = [repr(row) for row in parquet.select(*rows_of_directory.columns).collect()]
        expected = sorted(map(repr, rows_of_directory.collect()))
        renamed = [word.replace(directory, str(growing.path)) for word in rows_of_store]
        assert sorted(renamed) == expected
        assert not any(str(growing.path) in word for word in rows_of_store)


def test_a_table_in_a_store_has_each_batch_of_a_stream_once(
    filled: Filled, spark: SparkSession
) -> None:
    directory = f"{filled.store.uri}/sink"
    sink = TableSink(spark, directory, columns="value bigint")
    assert (sink.rows(), sink.knows("q")) == (None, False)
    batches = [spark.createDataFrame([(word,)], "value bigint") for word in range(3)]
    for number, rows in enumerate(batches):
        assert sink.write(rows, number, query_id="q") == 1
        assert sink.write(rows, number, query_id="q") is None
    folder = Folder(directory, spark)
    folder.remove(f"query=q/batch=2/{DONE}")  # as if Spark had ended within its commit
    sink.sweep()
    assert folder.names("query=q") == ["batch=0", "batch=1"]
    assert sink.write(batches[2], 2, query_id="q") == 1
    assert sink.write(batches[0], 0, query_id="r") == 1
    rows = sink.rows(but="r")
    assert rows is not None
    assert sorted((row.value, row.batch) for row in rows.collect()) == [(0, 0), (1, 1), (2, 2)]
    assert sink.rows(but="q") is not None
    assert sink.knows("r")
