"""What bash offers once it has loaded the completion script."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from txnsim.cli.main import main


def write_completion(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The script for bash, as ``txnsim completion`` prints it."""
    assert main(["completion", "bash"]) == 0
    file = folder / "txnsim.bash"
    file.write_text(capsys.readouterr().out)
    return file


def completions_of(script_file: Path, *words: str) -> list[str]:
    """The completions that bash offers for the last word."""
    quoted_words = " ".join(f"'{word}'" for word in ("txnsim", *words))
    program = (
        f"source {script_file}; COMP_WORDS=({quoted_words}); COMP_CWORD={len(words)}; "
        "complete -p txnsim > /dev/null || exit 1; _txnsim; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    process = subprocess.run(
        ["bash", "--norc", "-eu", "-c", program], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout.split()
