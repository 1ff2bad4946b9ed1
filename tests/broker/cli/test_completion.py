"""Completion as people have it: each shell is asked for real where the machine has it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.bash_completion import completed, written
from txnsim.cli._completion import levels
from txnsim.cli.commands import commands
from txnsim.cli.main import main
from txnsim.faults.points import FaultPoint


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    return written(tmp_path, capsys)


def test_bash_completes_commands_options_and_choices(script: Path) -> None:
    assert set(commands()) <= set(completed(script, ""))
    assert completed(script, "compl") == ["completion"]
    assert completed(script, "faults", "ar") == ["arm"]
    assert completed(script, "faults", "arm", "late", "--poi") == ["--point"]
    assert completed(script, "faults", "arm", "late", "--point", "peer") == [
        "peer.request", "peer.response",
    ]  # fmt: skip
    assert completed(script, "serve", "--trace", "b") == ["brief"]
    assert completed(script, "completion", "")[:3] == ["bash", "zsh", "fish"]
    assert completed(script, "txns", "find-h") == ["find-hanging"]


def test_a_value_that_anything_can_be_is_left_to_files(script: Path) -> None:
    assert completed(script, "serve", "--config", "") == []


def test_every_command_is_a_level() -> None:
    tree = levels()
    assert set(commands()) <= set(tree)
    assert tree["faults arm"].choices["--point"] == tuple(map(str, FaultPoint))
    assert "--json" not in tree["faults list"].takes_value
    assert "--http" in tree["faults list"].takes_value


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_their_script(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    file = tmp_path / shell
    file.write_text(capsys.readouterr().out)
    assert "find-hanging" in file.read_text()
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} on this machine: its script is made and not run")
    done = subprocess.run([program, "-n", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes_actions_and_apis(script: Path) -> None:
    assert "hold" in completed(script, "faults", "arm", "late", "--do", "h")
    assert completed(script, "faults", "arm", "late", "--api", "EndT") == ["EndTxn"]
