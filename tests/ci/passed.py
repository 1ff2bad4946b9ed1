"""Which parts have passed at which commit: ``--missing`` goes on with a run that was broken off.

One line of JSON per part in ``.cache/ci/passed.jsonl``. A part that is asked while files differ
from the commit is not kept. Standard library only, as the rest of CI.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

from tests.ci.process import REPOSITORY

FILE: Final = REPOSITORY / ".cache" / "ci" / "passed.jsonl"
DIRTY: Final = "-dirty"


def commit() -> str:
    """The commit that is checked, with a mark if files differ from it."""
    command_line = (
        "git",
        "describe",
        "--always",
        f"--dirty={DIRTY}",
        "--abbrev=8",
        "--exclude",
        "*",
    )
    return subprocess.run(
        command_line, cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.strip()


def keep(part: str, commit_name: str, *, minutes: float, file: Path = FILE) -> None:
    """Note that a part has passed."""
    if commit_name.endswith(DIRTY):
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        lines.write(
            f"{json.dumps({'commit': commit_name, 'part': part, 'minutes': round(minutes, 1)})}\n"
        )


def passed_parts(commit_name: str, *, file: Path = FILE) -> frozenset[str]:
    """Parts that have passed at a commit."""
    if commit_name.endswith(DIRTY) or not file.exists():
        return frozenset()
    rows = map(json.loads, file.read_text().splitlines())
    return frozenset(row["part"] for row in rows if row["commit"] == commit_name)
