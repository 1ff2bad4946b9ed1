"""docs/kafka-log.md: its notebook and programs run, with txnsim in an environment that is not
activated, in processes that have only the PATH of the system and Java.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pyspark
import pytest

from tests.support.apache_kafka import REPOSITORY
from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import LogDriver
from tests.support.quick_spark import quick_java
from tests.support.spark_connector import delta_jars
from tests.support.standalone_spark import HOST, WORKER_MEMORY, StandaloneSpark
from txnsim_spark.schemas import TABLES, TIMESTAMP_TYPE


def installed_package(environment_folder: Path) -> Path:
    """Make an environment with txnsim installed.

    Args:
        environment: Its folder; the caller removes it.

    Returns:
        The environment's Python.
    """
    venv.create(environment_folder, with_pip=False, symlinks=True)
    python_program = environment_folder / "bin" / "python"
    own_folder = Path(
        sysconfig.get_path(
            "purelib", vars={"base": str(environment_folder), "platbase": str(environment_folder)}
        )
    )
    # A line of a .pth file names a folder; files of its kind in that folder are not followed, so a
    # txnsim that is installed there in edit mode stays out.
    (own_folder / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python_program),
        "--disable-pip-version-check",
    ]
    command = [*pip, "install", "--quiet", "--no-deps", str(REPOSITORY)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return python_program


def bare_environment(home: Path) -> dict[str, str]:
    """Environment variables of a program that is called by its path in a new shell: no activated
    environment, no variables of Python or Spark.
    """
    java = shutil.which("java")
    assert java is not None
    path = [os.path.dirname(java), "/usr/local/bin", "/usr/bin", "/bin"]
    kept_variables = {
        variable_name: os.environ[variable_name]
        for variable_name in ("JAVA_HOME",)
        if variable_name in os.environ
    }
    return {"PATH": os.pathsep.join(dict.fromkeys(path)), "HOME": str(home), **kept_variables}


pytestmark = [pytest.mark.spark, pytest.mark.nightly]

DOCS: Final = REPOSITORY / "docs"
NOTEBOOK: Final = DOCS / "notebooks" / "find-hanging.ipynb"
JOB, DELTA = (
    code
    for code in re.findall(
        r"^```python\n(.*?)^```$", (DOCS / "kafka-log.md").read_text(), re.M | re.S
    )
    if "sys.argv" in code
)
SUBMIT: Final = Path(pyspark.__path__[0]) / "bin" / "spark-submit"
"""Spark's own spark-submit; the one that pip installs next to Python looks for it first."""
BATCHES: Final = 6
"""Number of batches in ``brokers``, with those of the coordinator's log."""


FEW_TASKS: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""Settings for two rows; the defaults are 200 and 50."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with txnsim."""
    return installed_package(tmp_path_factory.mktemp("installed") / "environment")


@pytest.fixture
def page_folder(tmp_path: Path) -> Path:
    """With ``brokers``, the transaction that hangs on ``orders`` also hangs on ``payments``."""
    hanging_log_driver = LogDriver()
    hanging_log_driver.txn(0)
    for broker in (1, 2):
        broker_dir = BrokerDir(tmp_path / "brokers" / f"broker-{broker}", broker)
        broker_dir.coordinator(move("Empty"))
        broker_dir.replica(hanging_log_driver, "payments")
        broker_dir.replica(hanging_log_driver)
        broker_dir.stop()
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "delta.py").write_text(DELTA)
    return tmp_path


def run(
    path: Path, command: Sequence[object], **more_variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        cwd=path,
        env={**bare_environment(path), **quick_java(), **more_variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def hanging(output: str) -> int:
    """Number of hanging transactions in a table that Spark has printed."""
    return len(re.findall(r"\|\s*(?:orders|payments)\|.*\|\s*hanging\|", output))


def check_parquet(output_file: Path) -> None:
    """Check that the files have the columns of the table: times as timestamps, and null only where
    allowed.
    """
    read = pq.ParquetDataset(output_file)
    assert sorted(read.read(["topic"]).column("topic").to_pylist()) == ["orders", "payments"]
    columns = TABLES["findings"].columns
    fields = next(pq.read_schema(path) for path in output_file.glob("*.parquet"))
    assert [(field.name, field.nullable) for field in fields] == [
        (column.name, column.is_nullable) for column in columns
    ]
    times = {column.name for column in columns if column.type == TIMESTAMP_TYPE}
    assert times == {field.name for field in fields if str(field.type).startswith("timestamp")}
    assert len(times) == 3


def test_the_notebook_runs_from_its_first_cell_to_its_last(page_folder: Path, python: Path) -> None:
    shutil.copy(NOTEBOOK, page_folder)
    # What the script jupyter-execute does.
    execute = "from nbclient.cli import main; main()"
    output = run(page_folder, [python, "-c", execute, "--inplace", "--timeout=600", NOTEBOOK.name])
    assert output.returncode == 0, output.stderr
    notebook = json.loads((page_folder / NOTEBOOK.name).read_text())
    texts = [_text(cell) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert hanging("\n".join(texts)) == 2
    assert any("as_of: timestamp (nullable = false)" in text for text in texts)
    # A batch on each of two partitions of two brokers.
    assert sum(len(re.findall(r"\|\s*1\|\n", text)) for text in texts) == 4
    check_parquet(page_folder / "findings")


def _text(cell: dict[str, Any]) -> str:
    texts = [
        output.get("text") or output.get("data", {}).get("text/plain", [])
        for output in cell["outputs"]
    ]
    return "".join("".join(lines) for lines in texts)


def test_a_program_needs_no_spark_submit(page_folder: Path, python: Path) -> None:
    output = run(page_folder, [python, "job.py", "brokers", "findings"])
    assert output.returncode == 0, output.stderr
    assert hanging(output.stdout) == 2
    assert f"batches: {BATCHES}\n" in output.stdout
    check_parquet(page_folder / "findings")


@pytest.mark.real
def test_what_is_submitted_writes_delta_and_reads_it_again(page_folder: Path, python: Path) -> None:
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        **FEW_TASKS,
    }
    jar_list = ",".join(map(str, sorted(delta_jars().glob("*.jar"))))
    conf_arguments = [
        f"--conf={setting_name}={setting_value}" for setting_name, setting_value in settings.items()
    ]
    folders = ("brokers", page_folder / "findings")
    command = (
        SUBMIT,
        "--master",
        "local[2]",
        "--jars",
        jar_list,
        *conf_arguments,
        "delta.py",
        *folders,
    )
    output = run(page_folder, command, PYSPARK_PYTHON=str(python))
    assert output.returncode == 0, output.stderr
    assert "same columns: True\nsame rows: True\n" in output.stdout
    (log,) = (page_folder / "findings" / "_delta_log").glob("*1.json")
    log_actions = [json.loads(line) for line in log.read_text().splitlines()]
    assert (
        sum(
            json.loads(action["add"]["stats"])["numRecords"]
            for action in log_actions
            if "add" in action
        )
        == 2
    )


@pytest.mark.real
def test_workers_of_a_cluster_run_the_python_that_is_named_once(
    cluster: StandaloneSpark, page_folder: Path, python: Path
) -> None:
    settings = (
        *("--executor-memory", WORKER_MEMORY, "--conf", f"spark.driver.host={HOST}"),
        *("--conf", f"spark.pyspark.python={python}"),
    )
    folders = (page_folder / "brokers", page_folder / "findings")
    output = run(page_folder, (SUBMIT, "--master", cluster.url, *settings, "job.py", *folders))
    assert output.returncode == 0, output.stderr
    assert hanging(output.stdout) == 2
    assert f"batches: {BATCHES}\n" in output.stdout
    check_parquet(page_folder / "findings")


def test_who_names_no_python_is_told_to(page_folder: Path, python: Path) -> None:
    submit_file = Path(sys.executable).with_name("spark-submit")
    output = run(
        page_folder, [submit_file, "--master", "local[1]", "job.py", "brokers", "findings"]
    )
    assert output.returncode != 0
    assert "Could not find valid SPARK_HOME" in output.stderr
    assert "PYSPARK_PYTHON" in output.stderr
    (script_file,) = python.parents[1].glob("lib/*/site-packages/txnsim_spark/cli/submit.py")
    output = run(
        page_folder, [SUBMIT, "--master", "local[1]", script_file, "logs", "verify", "brokers"]
    )
    assert output.returncode != 0
    assert f"--conf spark.pyspark.python={python}," in output.stdout + output.stderr
