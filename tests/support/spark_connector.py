"""Spark's own Kafka connector: its four jars, copied once by Maven into the ignored ``.cache/``.

Only the standard library. As a command, ``python -m tests.support.spark_connector`` prints the
directory, which is what ``txnsim stream --connector-jars`` takes.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import CACHE, ApacheKafkaError, locked

POM: Final = Path(__file__).with_name("java") / "spark-connector" / "pom.xml"
_JARS: Final = 4


def connector_jars() -> Path:
    """Directory with the jars; one process copies while the others wait for its lock.

    Raises:
        ApacheKafkaError: Maven is missing or failed.
    """
    # The pom is part of the name, so that a changed dependency is never served from an old copy.
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    jars = CACHE / "spark" / f"connector-{digest}"
    with locked(CACHE / "spark" / "connector.lock"):
        if not jars.is_dir():
            _copy(jars)
    return jars


def _copy(jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ApacheKafkaError("mvn not found: the connector's jars are fetched with Maven")
    fresh = jars.with_name("connector.partial")
    shutil.rmtree(fresh, ignore_errors=True)
    done = subprocess.run(
        [
            *(maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"),
            *(f"-DoutputDirectory={fresh}", "-DexcludeTransitive=true"),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ApacheKafkaError(f"Maven could not copy the connector:\n{done.stdout}{done.stderr}")
    found = sorted(one.name for one in fresh.glob("*.jar"))
    if len(found) != _JARS:
        raise ApacheKafkaError(f"expected {_JARS} jars, Maven copied {found}")
    fresh.rename(jars)  # in one move: a half-filled directory is never taken for a whole one


if __name__ == "__main__":
    sys.stdout.write(f"{connector_jars()}\n")
