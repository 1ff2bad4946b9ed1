"""Go's drivers of the exam, built on first use, with the versions of their module or others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import CACHE, REPOSITORY, digest_of, locked, output_of
from tests.support.foreign_clients import ForeignClientError, toolchain

SOURCES: Final = REPOSITORY / "helpers" / "exam" / "go"


def go_driver(program: str, *, module: str = "", version: str = "") -> Path:
    """Path of a driver.

    Args:
        program: Its folder: ``franzgo``, ``sarama``, ``confluent``.
        module: The library's module, where another version is wanted.
        version: That version.

    Raises:
        ForeignClientError: It can't be built.
    """
    sources = sorted([*SOURCES.rglob("*.go"), SOURCES / "go.mod", SOURCES / "go.sum"])
    target = CACHE / "exam-go" / digest_of(sources) / f"{program}{version}"
    go = toolchain("go", "Go 1.26")
    with locked(CACHE / "exam-go.lock"):
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            mod = target.with_suffix(f"{target.suffix}.mod")
            shutil.copy(SOURCES / "go.mod", mod)
            shutil.copy(SOURCES / "go.sum", mod.with_suffix(".sum"))
            commands = [[go, "build", f"-modfile={mod}", "-o", str(target), f"./{program}"]]
            if version:
                commands.insert(0, [go, "get", f"-modfile={mod}", f"{module}@v{version}"])
            for command in commands:
                output_of(command, f"{program} failed", ForeignClientError, directory=SOURCES)
    return target
