"""A command of ``txnsim`` as ``spark-submit`` runs it: with the master and settings that it was
given, and with the command's own exit status.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.support.log_tables import broker_dir, busy_log, logs_of, overwrite, replica
from txnsim.cli import submit

pytestmark = pytest.mark.spark

ROOT = Path(submit.__file__).resolve().parents[2]
SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


def submitted(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(
        [
            *(str(SPARK_SUBMIT), "--master", "local[1]", "--driver-memory", "512m"),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
            *("--conf", "spark.python.daemon.module=txnsim.pipeline.daemon"),
            *(submit.__file__, *arguments),
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_submitted_command_finds_what_it_is_to_find(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    overwrite(logs_of(folder)[1], 79 + 40, b"!")
    done = submitted("logs", "verify", str(tmp_path), "--json")
    assert done.returncode == 1, done.stderr
    assert "crc" in done.stdout, done.stdout
    json.loads(done.stdout)  # and nothing of Spark is in between
