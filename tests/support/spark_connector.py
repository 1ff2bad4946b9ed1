"""Jars that Spark is given: its own Kafka connector, and Delta Lake. Maven copies them once into
the ignored ``.cache/``.

Only the standard library. As a command, ``python -m tests.support.spark_connector`` prints the
directory, which is what ``txnsim stream --connector-jars`` takes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import ApacheKafkaError, cached_jars

_POMS: Final = Path(__file__).with_name("java")
_JARS: Final = {"connector": 4, "delta": 2}


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


def _jars(jar_name: str) -> Path:
    def check(jar_directory: Path) -> None:
        jar_names = sorted(jar_file.name for jar_file in jar_directory.glob("*.jar"))
        if len(jar_names) != _JARS[jar_name]:
            raise ApacheKafkaError(f"expected {_JARS[jar_name]} jars, Maven copied {jar_names}")

    pom_file = _POMS / f"spark-{jar_name}" / "pom.xml"
    transitive_option = "-DexcludeTransitive=true"
    return cached_jars(
        pom_file,
        "spark",
        jar_name,
        transitive_option,
        description=f"Spark's jars ({jar_name})",
        check=check,
    )


if __name__ == "__main__":
    sys.stdout.write(f"{connector_jars()}\n")
