"""Sessions, workers and where jobs are done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import MagicMock

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.support.fragment_model import Act, segment_of
from txnsim import on_demand_imports
from txnsim.errors import MissingExtraError
from txnsim_spark import daemon, libraries, session
from txnsim_spark.active_session import active_session
from txnsim_spark.scan import kernel, kernel_crc, kernel_fragments
from txnsim_spark.scan.crcs import crcs_are_right
from txnsim_spark.scan.walk import ScanLimits, batch_rows, ending_rows, fragment_rows
from txnsim_spark.session import NO_JAVA, has_running_session, register, spark_session
from txnsim_spark.tasks import group_in_tasks

if TYPE_CHECKING:
    from txnsim_spark.source import KafkaLogDataSource

# A session is one per process; what is missing for it is named. Sessions that start are in
# tests/spark/pipeline.


def test_without_java_it_is_named(without_java: None, without_session: None) -> None:
    with pytest.raises(MissingExtraError, match="needs Java 17") as error_info:
        spark_session("local[1]")
    assert str(error_info.value) == NO_JAVA


def test_a_java_home_is_believed(monkeypatch: pytest.MonkeyPatch, without_java: None) -> None:
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    session._require_java()


@pytest.mark.parametrize("missing", ["pyspark.sql", "txnsim_spark.source"])
def test_without_the_extra_the_pip_line_is_told(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """A module that is None in ``sys.modules`` is one that can't be imported."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError) as error_info:
        register(None) if missing == "txnsim_spark.source" else spark_session()  # type: ignore[arg-type]
    message = "the extra spark is not installed: "
    assert str(error_info.value).startswith(f"{message}pip install '.[spark]'")


def test_whether_a_session_runs_can_be_asked(
    monkeypatch: pytest.MonkeyPatch, without_session: None
) -> None:
    assert not has_running_session()
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError):
        has_running_session()


def test_only_a_session_within_this_machine_is_bound_to_it() -> None:
    assert session._local_config("local[2]")["spark.driver.host"] == "127.0.0.1"
    assert session._local_config("spark://host:7077") == {}


class RecordedBuilder:
    """Stands for SparkSession's builder and for the session, and notes all settings."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self.sparkContext = self.conf = self.dataSource = self

    def appName(self, name: str) -> RecordedBuilder:  # noqa: N802 - Spark's name
        self.given["name"] = name
        return self

    def master(self, master: str) -> RecordedBuilder:
        self.given["master"] = master
        return self

    def config(self, key: str, setting_value: str) -> RecordedBuilder:
        self.given[key] = setting_value
        return self

    def getOrCreate(self) -> RecordedBuilder:  # noqa: N802 - Spark's name
        return self

    def setLogLevel(self, log_level: str) -> None:  # noqa: N802 - Spark's name
        self.given["level"] = log_level

    def get(self, key: str, default_text: str) -> str:
        return self.given.get(key, default_text)

    def set(self, key: str, setting_value: str) -> None:
        self.given[key] = setting_value

    def register(self, source: type[KafkaLogDataSource]) -> None:
        self.given["source"] = source.name()


def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Java there is no session that has Hadoop's settings."""
    monkeypatch.setattr("txnsim_spark.stores.settings.settings_of", lambda _spark: None)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch, without_session: None) -> RecordedBuilder:
    from pyspark.sql import SparkSession

    recorded_builder = RecordedBuilder()
    monkeypatch.setattr(SparkSession, "builder", recorded_builder)
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    monkeypatch.setenv("PYSPARK_PYTHON", "python-of-somebody")
    without_java(monkeypatch)
    return recorded_builder


def test_a_new_session_has_what_tasks_in_python_need(builder: RecordedBuilder) -> None:
    spark_session(config={"spark.driver.memory": "1g"})
    assert builder.given["master"] == session.DEFAULT_MASTER
    assert builder.given["name"] == session.APP_NAME
    assert builder.given["spark.driver.memory"] == "1g"
    assert builder.given["source"] == "kafka_log"
    assert session.DEFAULT_CONFIG.items() <= builder.given.items()
    assert "spark.ui.enabled" not in builder.given


def test_what_is_submitted_keeps_its_master_and_settings(
    builder: RecordedBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    spark_session("local[3]")
    assert "master" not in builder.given
    assert not session.DEFAULT_CONFIG.keys() & builder.given.keys()


@pytest.mark.parametrize("is_submitted", [False, True])
def test_workers_run_this_python_unless_another_is_named(
    builder: RecordedBuilder, monkeypatch: pytest.MonkeyPatch, *, is_submitted: bool
) -> None:
    if is_submitted:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    spark_session()
    assert os.environ["PYSPARK_PYTHON"] == "python-of-somebody"
    monkeypatch.delenv("PYSPARK_PYTHON")
    spark_session()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_session_of_another_program_stays_as_it_is(builder: RecordedBuilder) -> None:
    register(builder)  # type: ignore[arg-type]
    assert builder.given == {"source": "kafka_log"}
    assert not hasattr(builder, "pythonExec")


@pytest.mark.parametrize("condition", ["JAVA_GATEWAY_EXITED", "APPLICATION_NAME_NOT_SET"])
def test_a_java_that_ends_at_once_is_an_old_one(
    builder: RecordedBuilder, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    from pyspark.errors import PySparkRuntimeError

    def ends() -> RecordedBuilder:
        raise PySparkRuntimeError(errorClass=condition, messageParameters={})

    monkeypatch.setattr(builder, "getOrCreate", ends)
    make_expected = MissingExtraError if condition == "JAVA_GATEWAY_EXITED" else PySparkRuntimeError
    with pytest.raises(make_expected):
        spark_session()


# What workers are forked from, without Spark; tests/spark/pipeline runs real ones.


THREADS: Final = """
import os, sys
from txnsim_spark.daemon import load_kernels
os.environ["OPENBLAS_NUM_THREADS"] = "1"
load_kernels()
print(len(os.listdir("/proc/self/task")), *sorted({"pyarrow", "pandas"} & set(sys.modules)))
"""


def signatures() -> dict[str, int]:
    compiled: dict[str, Any] = {
        "batches": kernel.scan_batches,
        "fragments": kernel_fragments.scan_fragments,
        "enter": kernel_fragments.enter_fragments,
        "crc by instruction": kernel_crc.check_by_instruction,
        "crc by tables": kernel_crc.check_by_tables,
    }
    return {name: len(function.signatures) for name, function in compiled.items()}


def test_workers_find_everything_compiled_for_what_they_call_it_with(tmp_path: Path) -> None:
    daemon.load_kernels()
    signatures_before = signatures()
    acts = [
        Act(
            kind=kind,
            producer=act_index,
            epoch=0,
            sequence=0,
            records=1,
            value_bytes=9,
            timestamp_ms=1,
        )
        for act_index in range(9)
        for kind in ("data", "commit")
    ]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(segment_of(acts))
    scan_limits = ScanLimits(fragments_max=4096)
    (table,) = batch_rows(path, on_damage=print, limits=scan_limits)
    list(fragment_rows(path, on_damage=print, limits=scan_limits))
    list(ending_rows(path, on_damage=print, limits=scan_limits))
    assert crcs_are_right(path, table).all()
    assert signatures() == signatures_before


@pytest.mark.slow
def test_nothing_is_loaded_that_starts_a_thread() -> None:
    """A fork keeps one thread; locks of the other threads would stay locked."""
    process = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["1"]


def test_it_ends_as_pysparks_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(daemon, "load_kernels", lambda: calls.append("load"))
    monkeypatch.setattr("pyspark.daemon.worker", lambda sock, authenticated: 0)
    monkeypatch.setattr("pyspark.daemon.manager", lambda: calls.append("manage"))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    daemon.main()
    assert calls == ["load", "manage"]


# ``active_session``; beside a real stream's session: ``tests/spark/pipeline/test_active.py``.


@pytest.fixture
def jvm_keeps(monkeypatch: pytest.MonkeyPatch) -> object:
    """Set the session that the JVM keeps for this thread."""
    jvm_value = object()
    session_mock = MagicMock()
    session_mock.getActiveSession.return_value.get.return_value = jvm_value
    monkeypatch.setattr(SparkContext, "_active_spark_context", SimpleNamespace(_jvm=None))
    monkeypatch.setattr(SparkSession, "_get_j_spark_session_class", lambda _jvm: session_mock)
    return jvm_value


def named_session(monkeypatch: pytest.MonkeyPatch, *, is_that_of_the_jvm: bool) -> SparkSession:
    """A stand-in for the session that PySpark calls the active session."""
    session = MagicMock(spec=SparkSession)
    session._jsparkSession = MagicMock()
    session._jsparkSession.equals.return_value = is_that_of_the_jvm
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: session)
    return session


def test_where_pyspark_names_that_of_the_jvm_it_is_taken(
    monkeypatch: pytest.MonkeyPatch, jvm_keeps: object
) -> None:
    session = named_session(monkeypatch, is_that_of_the_jvm=True)
    assert active_session() is session


def test_else_that_of_the_jvm_is_taken(monkeypatch: pytest.MonkeyPatch, jvm_keeps: object) -> None:
    named_session(monkeypatch, is_that_of_the_jvm=False)
    sessions: list[object] = []
    monkeypatch.setattr(
        SparkSession,
        "__init__",
        lambda _self, _context, java_session: sessions.append(java_session),
    )
    assert isinstance(active_session(), SparkSession)
    assert sessions == [jvm_keeps]


def test_a_session_without_a_jvm_is_as_pyspark_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    session = named_session(monkeypatch, is_that_of_the_jvm=False)
    assert active_session() is session
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    assert active_session() is None


# Works shared out to tasks; workers are tried with Spark.


@pytest.mark.parametrize(
    ("sizes", "tasks"),
    [
        ([], []),
        ([60], [(60,)]),
        ([10, 20, 30, 1], [(10, 20, 30), (1,)]),
        ([1, 200, 1], [(1,), (200,), (1,)]),
    ],
)
def test_tasks_are_filled_in_order(sizes: list[int], tasks: list[tuple[int, ...]]) -> None:
    assert group_in_tasks(sizes, 60, size_of=int) == tasks


def test_neighbours_that_go_together_are_not_parted() -> None:
    texts = ["aa", "ab", "ba", "bb"]
    tasks = group_in_tasks(
        texts, 3, size_of=len, stay_together=lambda text, next_word: text[0] == next_word[0]
    )
    assert tasks == [("aa", "ab"), ("ba", "bb")]


# What is said where the extra is missing.


def test_libraries_that_are_there_are_enough() -> None:
    libraries.require_libraries()


@pytest.mark.parametrize("missing", ["numba", "pyarrow", "jinja2"])
def test_one_that_is_missing_is_named_with_the_way_to_get_it(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        on_demand_imports, "find_spec", lambda name: None if name == missing else name
    )
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[spark\]'"):
        libraries.require_libraries("jinja2")
