"""Drivers of programs around the Java client, built on first use, each with a version of choice."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import REPOSITORY, ApacheKafkaError, cached_jars, java_classes
from tests.support.foreign_clients import ForeignClientError

SOURCE_FOLDER: Final = REPOSITORY / "helpers" / "exam"
PROGRAMS: Final = {
    "spring-kafka": "SpringDriver",
    "iceberg": "org.apache.iceberg.connect.channel.IcebergDriver",
    "flink": "org.apache.flink.connector.kafka.sink.FlinkDriver",
}
"""Name of its pom to its main class, which stands in the package of the library where it has to."""
JAVA: Final = ("java", "-XX:TieredStopAtLevel=1", "-Xmx256m")


def java_program(program_name: str, version: str, *arguments: str) -> str:
    """The command of a driver.

    Args:
        program_name: Of its pom.
        version: Of the library.
        arguments: Of the driver.

    Raises:
        ApacheKafkaError: Maven is missing or failed.
        ForeignClientError: There is no JDK, or it failed.
    """
    main = PROGRAMS[program_name]

    def check(jar_directory: Path) -> None:
        if not any(jar_directory.glob(f"*{version}.jar")):
            raise ApacheKafkaError(f"Maven copied no {program_name} {version}")

    pom_file, version_option = (
        SOURCE_FOLDER / "poms" / f"{program_name}.xml",
        f"-Dlibrary.version={version}",
    )
    versioned_name = f"{program_name}-{version}"
    jar_directory = cached_jars(
        pom_file,
        "exam-java",
        versioned_name,
        version_option,
        description=f"{program_name}'s jars",
        check=check,
    )
    sources = [SOURCE_FOLDER / "Contract.java", SOURCE_FOLDER / f"{main.rpartition('.')[2]}.java"]
    class_directory = java_classes(
        sources,
        name=f"exam-{versioned_name}",
        libs_directory=jar_directory,
        error=ForeignClientError,
    )
    return shlex.join(
        [*JAVA, "-cp", f"{class_directory}{os.pathsep}{jar_directory}/*", main, *arguments]
    )
