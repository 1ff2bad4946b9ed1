"""Jars of Hadoop, copied once by Maven into the ignored ``.cache/``: those that read ``s3a://``.

Only the standard library. As a command, ``python -m tests.support.hadoop_jars`` prints the
directory, whose jars ``spark.jars`` takes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import ApacheKafkaError, cached_jars

_JAVA: Final = Path(__file__).with_name("java")
_HADOOP: Final = "3.5.0"


def s3a_jars() -> Path:
    """Directory with the jars that ``s3a://`` takes beside Spark's own.

    Raises:
        ApacheKafkaError: Maven is missing or failed.
    """
    return _copy_jars("hadoop-aws", f"hadoop-aws-{_HADOOP}.jar")


def _copy_jars(file_name: str, main_jar: str) -> Path:
    def check(jar_directory: Path) -> None:
        if not (jar_directory / main_jar).is_file():
            raise ApacheKafkaError(f"Maven copied no {main_jar}")

    return cached_jars(
        _JAVA / file_name / "pom.xml", "hadoop", file_name, description="Hadoop's jars", check=check
    )


if __name__ == "__main__":
    sys.stdout.write(f"{s3a_jars()}\n")
