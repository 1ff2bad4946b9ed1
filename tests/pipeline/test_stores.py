"""A real Kafka's directory in an S3 store and in an HDFS says what it says on this machine, by the
source and by the commands: field by field, but for the names of places.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.pipeline.damaged.make import unpacked
from tests.pipeline.following import follow
from tests.support.growing_dirs import GrowingDir
from txnsim.cli.main import main
from txnsim.pipeline import find_hanging, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
import subprocess
import sys
import time  # noqa: TID251 - processes on the real machine
from abc import abstractmethod

from tests.support.apache_kafka import accepts, free_ports
from tests.support.hadoop_jars import minicluster_jars, s3a_jars
from tests.support.lived import Lived

HOST: Final = "127.0.0.1"
_START_TIMEOUT_S: Final = 300.0
_STOP_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.2
BUCKET: Final = "logs"
_REGION: Final = "us-east-1"
_KEY: Final = "any"
"""moto lets everybody in."""


class Store(Lived):
    """A server as a context manager; its process is ended by its id.

    Args:
        directory: For its files and its log; its owner removes it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._port, self._other_port = free_ports(2)

    def __enter__(self) -> Store:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._await()
        except BaseException:
            self._stop()
            raise
        return self

    def _left(self, error: BaseException | None) -> None:
        self._stop()

    @property
    @abstractmethod
    def uri(self) -> str:
        """Of the folder that directories are put into."""

    @property
    @abstractmethod
    def config(self) -> dict[str, str]:
        """What Spark has to be told."""

    @abstractmethod
    def put(self, directory: Path, name: str) -> None:
        """Copy a directory of this machine into the store."""

    @abstractmethod
    def _command(self) -> list[str]:
        """What is run."""

    @abstractmethod
    def _is_up(self) -> bool:
        """Whether it answers."""

    @property
    def _log(self) -> Path:
        return self._directory / "server.log"

    def _await(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._is_up():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{self._command()[0]}:\n{self._log.read_text()[-4_000:]}")
            time.sleep(_POLL_S)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class S3Store(Store):
    """moto's server."""

    uri = f"s3a://{BUCKET}"

    @property
    def config(self) -> dict[str, str]:
        """Its address, any key, and the connector's jars."""
        return {
            "spark.jars": ",".join(sorted(map(str, s3a_jars().glob("*.jar")))),
            "spark.hadoop.fs.s3a.endpoint": self._url,
            "spark.hadoop.fs.s3a.endpoint.region": _REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": _KEY,
            "spark.hadoop.fs.s3a.secret.key": _KEY,
        }

    def put(self, directory: Path, name: str) -> None:
        """Each file an object."""
        client = self._client()
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                key = f"{name}/{path.relative_to(directory)}"
                client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())

    @property
    def _url(self) -> str:
        return f"http://{HOST}:{self._port}"

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(self._port)]

    def _is_up(self) -> bool:
        if not accepts(self._port):
            return False
        self._client().create_bucket(Bucket=BUCKET)
        return True

    def _client(self) -> Any:
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self._url,
            region_name=_REGION,
            aws_access_key_id=_KEY,
            aws_secret_access_key=_KEY,
        )


class HdfsStore(Store):
    """A name node and a data node in one process."""

    @property
    def uri(self) -> str:
        """Of a folder in it."""
        return f"hdfs://{HOST}:{self._port}/logs"

    @property
    def config(self) -> dict[str, str]:
        """Spark's own jars read it."""
        return {}

    def put(self, directory: Path, name: str) -> None:
        """By Hadoop's own command."""
        self._shell("-mkdir", "-p", self.uri)
        self._shell("-put", "-p", str(directory), f"{self.uri}/{name}")

    def _command(self) -> list[str]:
        return [
            *self._java("-Xmx256m"),
            *("org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", "1"),
            *("-nnport", str(self._port), "-httpport", str(self._other_port)),
            *("-writeDetails", str(self._details)),
        ]

    def _is_up(self) -> bool:
        return self._details.is_file() and self._details.stat().st_size > 0

    @property
    def _details(self) -> Path:
        return self._directory / "details.json"

    def _shell(self, *args: str) -> None:
        # The shell does not start without one.
        (self._directory / "core-site.xml").write_text("<configuration/>\n")
        done = subprocess.run(
            [*self._java(), "org.apache.hadoop.fs.FsShell", *args],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_START_TIMEOUT_S,
        )
        assert not done.returncode, done.stderr[-4_000:]

    def _java(self, *options: str) -> list[str]:
        quick = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return ["java", *quick, *options, "-cp", f"{self._directory}:{minicluster_jars()}/*"]


pytestmark = [pytest.mark.spark, pytest.mark.real]

AS_OF: Final = "2026-12-01T00:00:00Z"
COMMANDS: Final = {
    "find-hanging": ("find-hanging", "DIR", "--as-of", AS_OF),
    "find-hanging --read-all": ("find-hanging", "DIR", "--as-of", AS_OF, "--read-all"),
    "describe": ("describe", "DIR"),
    "verify": ("verify", "DIR"),
    "timeline": ("timeline", "alive", "DIR"),
}
TABLES: Final = ("batches", "records", "producer_state", "aborted", "errors", "leader_epochs")


class Filled:
    """A store that holds what a directory of this machine holds.

    Args:
        store: It runs.
        local: The directory.
    """

    def __init__(self, store: Store, local: Path) -> None:
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


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(S3Store, id="s3a"),
        pytest.param(HdfsStore, id="hdfs", marks=pytest.mark.slow),  # minutes to start and fill it
    ],
)
def filled(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    local: Path,
    spark: SparkSession,
) -> Iterator[Filled]:
    """The store, and Spark told of it."""
    with request.param(tmp_path_factory.mktemp("store")) as store:
        for name, value in store.config.items():
            if name.startswith("spark.hadoop."):
                spark.conf.set(name.removeprefix("spark.hadoop."), value)
        register(spark)
        yield Filled(store, local)


def played(capsys: pytest.CaptureFixture[str], command: str, place: str) -> tuple[int, str]:
    """Exit status and JSON of a command."""
    capsys.readouterr()
    arguments = [place if one == "DIR" else one for one in COMMANDS[command]]
    status = main(["logs", *arguments, "--json"])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_of_a_store_what_it_says_of_a_directory(
    filled: Filled, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    there = played(capsys, command, f"{filled.uri}/clea[n]")
    here = played(capsys, command, str(filled.local / "clean"))
    assert there[0] == here[0]
    assert told(filled.renamed(there[1])) == told(here[1])
    assert (filled.uri in there[1]) == (str(filled.local) in here[1])


def told(text: str) -> Any:
    """What a command found; how it read that is another matter."""
    found = json.loads(text)
    if isinstance(found, dict) and "source" in found:
        del found["source"]["with_spark"]
    return found


@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_a_store_is_that_of_a_directory(
    filled: Filled, table: str, spark: SparkSession
) -> None:
    there = rows(spark, table, f"{filled.uri}/clean")
    here = rows(spark, table, str(filled.local / "clean"))
    assert sorted(map(filled.renamed, there)) == sorted(here)
    assert here or table == "errors"


def rows(spark: SparkSession, table: str, place: str) -> list[str]:
    """As text, to be compared in any order."""
    frame = spark.read.format("kafka_log").option("table", table).load(place)
    return [repr(row) for row in frame.collect()]


def test_one_call_gives_the_findings_of_a_store(filled: Filled, spark: SparkSession) -> None:
    there = find_hanging(spark, f"{filled.uri}/clean", as_of=AS_OF)
    here = find_hanging(spark, filled.local / "clean", as_of=AS_OF)
    found = sorted(map(repr, here.collect()))
    assert sorted(filled.renamed(repr(row)) for row in there.collect()) == found
    assert len(found) >= 5


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
    place = f"{filled.store.uri}/growing-{tmp_path.name}"
    for _ in range(2):  # the second one goes on from the checkpoint
        growing.grow()
        filled.store.put(growing.path, place.rpartition("/")[2])
        writer = follow(spark, place, "records", str(tmp_path / "out"), maxFilesPerTrigger=2)
        writer.trigger(availableNow=True).start().awaitTermination()
        found = spark.read.parquet(str(tmp_path / "out" / "records"))
        here = spark.read.format("kafka_log").option("table", "records").load(str(growing.path))
        there = [repr(row) for row in found.select(*here.columns).collect()]
        expected = sorted(map(repr, here.collect()))
        renamed = [one.replace(place, str(growing.path)) for one in there]
        assert sorted(renamed) == expected
        assert not any(str(growing.path) in one for one in there)
