"""Commands of the lab as the shell knows them. Each one's examples: tests/broker/cli."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bash_completion import completed, written


def test_bash_completes_commands_stories_and_lessons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = written(tmp_path, capsys)
    assert completed(script, "prac") == ["practise"]
    assert {"z01", "late-produce-after-abort"} <= set(completed(script, "scenario", "run", ""))
    assert "L1" in completed(script, "lesson", "")
