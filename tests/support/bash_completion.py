"""What bash offers where the completion of this command line is loaded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from txnsim.cli.main import main


def written(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The script for bash, as ``txnsim completion`` prints it."""
    assert main(["completion", "bash"]) == 0
    file = folder / "txnsim.bash"
    file.write_text(capsys.readouterr().out)
    return file


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    listed = " ".join(f"'{word}'" for word in ("txnsim", *words))
    ask = (
        f"source {script}; COMP_WORDS=({listed}); COMP_CWORD={len(words)}; "
        "complete -p txnsim > /dev/null || exit 1; _txnsim; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        ["bash", "--norc", "-eu", "-c", ask], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()
