"""Jars that Spark is given: its own Kafka connector, and Delta Lake. Maven copies them once into
the ignored ``.cache/``.

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

_POMS: Final = Path(__file__).with_name("java")
_JARS: Final = {"connector": 4, "delta": 2}
"""How many each of them is."""


def connector_jars() -> Path:
    """Directory with the connector's jars.

    Raises:
        ApacheKafkaError: Maven is missing or failed.
    """
    return _jars("connector")


def delta_jars() -> Path:
    """Directory with Delta Lake's.

    Raises:
        ApacheKafkaError: Maven is missing or failed.
    """
    return _jars("delta")


def _jars(name: str) -> Path:
    """One process copies while the others wait for its lock."""
    pom = _POMS / f"spark-{name}" / "pom.xml"
    # The pom is part of the name, so that a changed dependency is never served from an old copy.
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    jars = CACHE / "spark" / f"{name}-{digest}"
    with locked(CACHE / "spark" / f"{name}.lock"):
        if not jars.is_dir():
            _copy(name, pom, jars)
    return jars


def _copy(name: str, pom: Path, jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ApacheKafkaError("mvn not found: Spark's jars are fetched with Maven")
    fresh = jars.with_name(f"{name}.partial")
    shutil.rmtree(fresh, ignore_errors=True)
    done = subprocess.run(
        [
            *(maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"),
            *(f"-DoutputDirectory={fresh}", "-DexcludeTransitive=true"),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ApacheKafkaError(f"Maven could not copy {name}:\n{done.stdout}{done.stderr}")
    found = sorted(one.name for one in fresh.glob("*.jar"))
    if len(found) != _JARS[name]:
        raise ApacheKafkaError(f"expected {_JARS[name]} jars, Maven copied {found}")
    fresh.rename(jars)  # in one move: a half-filled directory is never taken for a whole one


if __name__ == "__main__":
    sys.stdout.write(f"{connector_jars()}\n")
