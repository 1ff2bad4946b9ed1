"""A session is one per process; what is missing for it is named. Sessions that start are in
tests/spark/pipeline.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from txnsim.errors import MissingExtraError
from txnsim_spark import session
from txnsim_spark.session import (
    NO_JAVA,
    is_running,
    register,
    spark_session,
)

if TYPE_CHECKING:
    from txnsim_spark.source import KafkaLogDataSource


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java, and a process that nobody has submitted."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)


def test_without_java_it_is_named(nowhere: None, no_session: None) -> None:
    with pytest.raises(MissingExtraError, match="needs Java 17") as refused:
        spark_session("local[1]")
    assert str(refused.value) == NO_JAVA


def test_a_java_home_is_believed(monkeypatch: pytest.MonkeyPatch, nowhere: None) -> None:
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    session._require_java()


@pytest.mark.parametrize("missing", ["pyspark.sql", "txnsim_spark.source"])
def test_without_the_extra_the_pip_line_is_told(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """A module that is None in ``sys.modules`` is one that can't be imported."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError) as refused:
        register(None) if missing == "txnsim_spark.source" else spark_session()  # type: ignore[arg-type]
    told = "the extra spark is not installed: "
    assert str(refused.value).startswith(f"{told}pip install '.[spark]'")


def test_whether_a_session_runs_can_be_asked(
    monkeypatch: pytest.MonkeyPatch, no_session: None
) -> None:
    assert not is_running()
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError):
        is_running()


def test_only_a_session_within_this_machine_is_bound_to_it() -> None:
    assert session._local_config("local[2]")["spark.driver.host"] == "127.0.0.1"
    assert session._local_config("spark://host:7077") == {}


class Recorded:
    """Stands for SparkSession's builder and for what it makes."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self.sparkContext = self.conf = self.dataSource = self

    def appName(self, name: str) -> Recorded:  # noqa: N802 - Spark's name
        self.given["name"] = name
        return self

    def master(self, master: str) -> Recorded:
        self.given["master"] = master
        return self

    def config(self, key: str, value: str) -> Recorded:
        self.given[key] = value
        return self

    def getOrCreate(self) -> Recorded:  # noqa: N802 - Spark's name
        return self

    def setLogLevel(self, level: str) -> None:  # noqa: N802 - Spark's name
        self.given["level"] = level

    def get(self, key: str, default: str) -> str:
        return self.given.get(key, default)

    def set(self, key: str, value: str) -> None:
        self.given[key] = value

    def register(self, source: type[KafkaLogDataSource]) -> None:
        self.given["source"] = source.name()


def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no session whose settings of Hadoop could be asked for."""
    monkeypatch.setattr("txnsim_spark.stores.settings.settings_of", lambda _spark: None)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch, no_session: None) -> Recorded:
    from pyspark.sql import SparkSession

    recorded = Recorded()
    monkeypatch.setattr(SparkSession, "builder", recorded)
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    monkeypatch.setenv("PYSPARK_PYTHON", "python-of-somebody")
    without_java(monkeypatch)
    return recorded


def test_a_new_session_has_what_tasks_in_python_need(builder: Recorded) -> None:
    spark_session(config={"spark.driver.memory": "1g"})
    assert builder.given["master"] == session.MASTER
    assert builder.given["name"] == session.APP_NAME
    assert builder.given["spark.driver.memory"] == "1g"
    assert builder.given["source"] == "kafka_log"
    assert {**session.CONFIG, **session.RUNTIME_CONFIG}.items() <= builder.given.items()


def test_what_is_submitted_keeps_its_master_and_settings(
    builder: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    spark_session("local[3]")
    assert "master" not in builder.given
    assert not session.CONFIG.keys() & builder.given.keys()
    assert session.RUNTIME_CONFIG.items() <= builder.given.items()


@pytest.mark.parametrize("is_submitted", [False, True])
def test_workers_run_this_python_unless_another_is_named(
    builder: Recorded, monkeypatch: pytest.MonkeyPatch, *, is_submitted: bool
) -> None:
    if is_submitted:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    spark_session()
    assert os.environ["PYSPARK_PYTHON"] == "python-of-somebody"
    monkeypatch.delenv("PYSPARK_PYTHON")
    spark_session()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


class Context:
    """Of a session that somebody else has started."""

    def __init__(self, master: str) -> None:
        self.master = master
        self.pythonExec = "python3"


@pytest.mark.parametrize(
    ("master", "named", "runs"),
    [
        ("local[2]", None, sys.executable),
        ("local[2]", "python-of-somebody", "python3"),
        ("spark://host:7077", None, "python3"),
    ],
)
def test_a_session_of_somebody_elses_runs_this_python_on_this_machine(
    builder: Recorded, monkeypatch: pytest.MonkeyPatch, master: str, named: str | None, runs: str
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON")
    if named is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", named)
    context = Context(master)
    monkeypatch.setattr(builder, "sparkContext", context)
    register(builder)  # type: ignore[arg-type]
    assert context.pythonExec == runs


@pytest.mark.parametrize("condition", ["JAVA_GATEWAY_EXITED", "APPLICATION_NAME_NOT_SET"])
def test_a_java_that_ends_at_once_is_an_old_one(
    builder: Recorded, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    from pyspark.errors import PySparkRuntimeError

    def ends() -> Recorded:
        raise PySparkRuntimeError(errorClass=condition, messageParameters={})

    monkeypatch.setattr(builder, "getOrCreate", ends)
    expected = MissingExtraError if condition == "JAVA_GATEWAY_EXITED" else PySparkRuntimeError
    with pytest.raises(expected):
        spark_session()
