"""Jars of Hadoop, copied once by Maven into the ignored ``.cache/``: those that read ``s3a://``,
and those of a local HDFS.

Only the standard library. As a command, ``python -m tests.support.hadoop_jars`` prints the
directory of the former, whose jars ``spark.jars`` takes.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import CACHE, ApacheKafkaError, locked

_JAVA: Final = Path(__file__).with_name("java")
_HADOOP: Final = "3.5.0"


def s3a_jars() -> Path:
    """Directory with the jars that ``s3a://`` takes beside Spark's own.

    Raises:
        ApacheKafkaError: Maven is missing or failed.
    """
    return _copied("hadoop-aws", f"hadoop-aws-{_HADOOP}.jar")


def minicluster_jars() -> Path:
    """Directory with the jars of a local HDFS.

    Raises:
        ApacheKafkaError: Maven is missing or failed.
    """
    return _copied("hadoop-minicluster", f"hadoop-client-minicluster-{_HADOOP}.jar")


def _copied(name: str, main_jar: str) -> Path:
    """One process copies while the others wait for its lock."""
    pom = _JAVA / name / "pom.xml"
    # The pom is part of the name, so that a changed dependency is never served from an old copy.
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    jars = CACHE / "hadoop" / f"{name}-{digest}"
    with locked(CACHE / "hadoop" / f"{name}.lock"):
        if not jars.is_dir():
            _copy(pom, jars, main_jar)
    return jars


def _copy(pom: Path, jars: Path, main_jar: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ApacheKafkaError("mvn not found: Hadoop's jars are fetched with Maven")
    fresh = jars.with_name(f"{jars.name}.partial")
    shutil.rmtree(fresh, ignore_errors=True)
    done = subprocess.run(
        [
            *(maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"),
            f"-DoutputDirectory={fresh}",
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not (fresh / main_jar).is_file():
        raise ApacheKafkaError(f"Maven could not copy {main_jar}:\n{done.stdout}{done.stderr}")
    fresh.rename(jars)  # in one move: a half-filled directory is never taken for a whole one


if __name__ == "__main__":
    sys.stdout.write(f"{s3a_jars()}\n")
