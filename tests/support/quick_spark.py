"""Settings that make Spark's processes start quickly in tests."""

from __future__ import annotations

import os
from typing import Final

from tests.support.apache_kafka import CACHE
from tests.support.spark_classes import reading, shared_classes

_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVM options: no second, optimising compilation, and the serial garbage collector."""


def quick_environment() -> dict[str, str]:
    """The environment for a program that starts Spark, with settings for a quick start."""
    return {**os.environ, **quick_java(), "PYTHONPATH": _make_spark_pythonpath()}


def quick_java() -> dict[str, str]:
    return {"JAVA_TOOL_OPTIONS": f"{_JVM} {reading(shared_classes())}"}


_INSTALLED: Final = """import sys

sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]
"""
"""``sitecustomize``, which Python imports as it starts: PySpark is imported where it is installed,
compiled. Spark has it imported out of an archive of sources. Each process compiles them again then:
1.3 s of CPU, and Spark gives the one that plans a stream 10 s, on a busy machine too.
"""


def _make_spark_pythonpath() -> str:
    """With it Python finds no Hypothesis, which kio imports where it is installed, and no coverage,
    which numba does. That is up to half a second of CPU in each process, and each read of a table
    starts two. PySpark is imported as ``_INSTALLED`` says.
    """
    directory = CACHE / "spark" / "left-out"
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("hypothesis", "coverage"):
        (directory / f"{name}.py").write_text('raise ImportError("left out in Spark")\n')
    (directory / "sitecustomize.py").write_text(_INSTALLED)
    return os.pathsep.join(filter(None, (str(directory), os.environ.get("PYTHONPATH"))))
