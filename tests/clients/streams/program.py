"""The Kafka Streams programs under ``java/``: compiled once, named after their sources.

Standard library only, as the roster is read before any environment is made.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import java_classes, java_command, kafka_libs
from tests.support.foreign_clients import ForeignClientError

SOURCE_FOLDER: Final = Path(__file__).with_name("java")

_OPTIONS: Final = (
    # Programs that live for seconds: what starts quickly beats what runs quickly.
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
)


def streams_program(main_class: str, *options: str) -> list[str]:
    """Command line of one of the programs, without its arguments.

    Args:
        main_class: Which one.
        options: Further options of the JVM.

    Raises:
        ForeignClientError: It can't be compiled.
        ApacheKafkaError: Kafka's jars can't be had.
    """
    libs_directory = kafka_libs()
    sources = sorted(SOURCE_FOLDER.glob("*.java"))
    class_directory = java_classes(
        sources, name="streams", libs_directory=libs_directory, error=ForeignClientError
    )
    java, *_ = java_command(libs_directory)
    class_path = f"{class_directory}{os.pathsep}{libs_directory}/*"
    return [java, *_OPTIONS, *options, "-cp", class_path, main_class]
