"""Go's drivers of the exam, built on first use, with the versions of their module or others."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import CACHE, REPOSITORY, digest_of, hold_lock, output_of
from tests.support.foreign_clients import ForeignClientError, toolchain

SOURCE_FOLDER: Final = REPOSITORY / "helpers" / "exam" / "go"


def go_driver(program: str, *, module_name: str = "", version: str = "") -> Path:
    """Path of a driver.

    Args:
        program: Its folder: ``franzgo``, ``sarama``, ``confluent``.
        module: The library's module without the suffix of its major version, where another version
            is wanted.
        version: That version.

    Raises:
        ForeignClientError: It can't be built.
    """
    sources = sorted(
        [*SOURCE_FOLDER.rglob("*.go"), SOURCE_FOLDER / "go.mod", SOURCE_FOLDER / "go.sum"]
    )
    target_path = CACHE / "exam-go" / digest_of(sources) / f"{program}{version}"
    go = toolchain("go", "Go 1.26")
    with hold_lock(CACHE / "exam-go.lock"):
        if not target_path.exists():
            copied_path = target_path.with_name(f"{target_path.name}-sources")
            shutil.copytree(SOURCE_FOLDER, copied_path, dirs_exist_ok=True)
            commands = [[go, "build", "-o", str(target_path), f"./{program}"]]
            if version:
                import_path = _import_path(module_name, version)
                for source_path in (copied_path / program).glob("*.go"):
                    source_text = re.sub(
                        rf'"{re.escape(module_name)}(/v\d+)?\b',
                        f'"{import_path}',
                        source_path.read_text(),
                    )
                    source_path.write_text(source_text)
                commands.insert(0, [go, "get", f"{import_path}@v{version}"])
            for command in commands:
                output_of(command, f"{program} failed", ForeignClientError, directory=copied_path)
    return target_path


def _import_path(module_name: str, version: str) -> str:
    """What a program imports: from 2 on the major version is part of it."""
    major = version.partition(".")[0]
    return module_name if major in ("0", "1") else f"{module_name}/v{major}"
