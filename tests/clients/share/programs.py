"""The Java programs of share consumers: they need clients of 4.4, so they are compiled alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import java_classes, java_command, kafka_libs
from tests.support.foreign_clients import ForeignClientError

SOURCE_FOLDER: Final = Path(__file__).parent / "java"


def share_program(main_class: str) -> list[str]:
    """Command line of a program of this folder, without the program's own arguments."""
    libs_directory = kafka_libs()
    sources = sorted(SOURCE_FOLDER.glob("*.java"))
    class_directory = java_classes(
        sources, name="share", libs_directory=libs_directory, error=ForeignClientError
    )
    options = [
        "-XX:TieredStopAtLevel=1",
        "-Xmx512m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
    ]
    java, *_ = java_command(libs_directory)
    return [java, *options, "-cp", f"{class_directory}{os.pathsep}{libs_directory}/*", main_class]
