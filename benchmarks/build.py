"""What is measured, made: the Go programs, the wheel, and an environment with nothing but its
runtime dependencies.

The environment matters: kio imports hypothesis and structlog imports rich where they are
installed, so that the start-up of a development environment says nothing about that of a user's.
Everything lands in the ignored ``.cache/`` of the repository.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
CACHE: Final = REPOSITORY / ".cache" / "benchmarks"


class BuildError(Exception):
    """A program or environment could not be made; the message carries the tool's output."""


def build_go_program(program_name: str) -> Path:
    """Compile ``benchmarks/<name>``; Go's own cache makes a second time cheap.

    Raises:
        BuildError: Go is missing or the program does not compile.
    """
    if shutil.which("go") is None:
        raise BuildError("go not found: the load generator is a Go program (Go 1.26 or newer)")
    program_file = CACHE / program_name
    _run(["go", "build", "-o", str(program_file), "."], REPOSITORY / "benchmarks" / program_name)
    return program_file


def build_wheel() -> Path:
    """Build the wheel of this tree.

    Raises:
        BuildError: It can't be built.
    """
    wheel_directory = CACHE / "wheel"
    shutil.rmtree(wheel_directory, ignore_errors=True)
    _run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(wheel_directory), "."],
        REPOSITORY,
    )
    (wheel_path,) = wheel_directory.glob("*.whl")
    return wheel_path


def make_txnsim_environment(wheel_path: Path) -> Path:
    """Make an environment with a wheel and its dependencies; return the path of its ``txnsim``.

    Dependencies are installed again only when ``pyproject.toml`` has changed.

    Raises:
        BuildError: pip failed.
    """
    environment_directory = CACHE / "venv"
    digest_file = environment_directory / "pyproject.sha256"
    project_digest = hashlib.sha256((REPOSITORY / "pyproject.toml").read_bytes()).hexdigest()
    pip_command = [
        str(environment_directory / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "-q",
    ]
    if not digest_file.is_file() or digest_file.read_text() != project_digest:
        shutil.rmtree(environment_directory, ignore_errors=True)
        venv.create(environment_directory, with_pip=True)
        _run([*pip_command, str(wheel_path)], REPOSITORY)
        digest_file.write_text(project_digest)
    _run([*pip_command, "--no-deps", "--force-reinstall", str(wheel_path)], REPOSITORY)
    return environment_directory / "bin" / "txnsim"


def _run(command: Sequence[str], working_directory: Path) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    finished_process = subprocess.run(
        command,
        cwd=working_directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished_process.returncode != 0:
        raise BuildError(
            f"{' '.join(command)}:\n{finished_process.stdout}{finished_process.stderr}"
        )
