"""The action for GitHub and the template for GitLab: their scripts, run as a runner runs them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.helpers.run import HELPERS
from tests.support.apache_kafka import REPOSITORY

FOLDER: Final = HELPERS / "ci" / "exam"
DRIVER: Final = shlex.join([sys.executable, str(HELPERS / "exam" / "aiokafka_driver.py")])
OPTIONS: Final = "--only commit-lost --transaction-version 2"
FILES: Final = {"results.json", "report.html", "badge.svg", "badge.json"}


def install_for_test(bin_folder: Path) -> None:
    """Put a ``txnsim`` where the scripts have installed one: this checkout, by this interpreter."""
    bin_folder.mkdir(parents=True)
    program_file = bin_folder / "txnsim"
    interpreter = shlex.quote(sys.executable)
    program_file.write_text(f'#!/bin/sh\nexec {interpreter} -m txnsim "$@"\n')
    program_file.chmod(0o755)


def run_script(script: str, folder: Path, variables: Mapping[str, str], *, shell_name: str) -> int:
    """Run one script as a runner does, which stops at the first command that fails."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    if shell_name == "sh":
        command = ["sh", "-e", "-c", script]
    imports = [str(REPOSITORY / "sim"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(imports), **variables}
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


def action() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((FOLDER / "action.yml").read_text("utf-8"))
    return document


def run_action(runner_folder: Path, **inputs: str) -> tuple[list[int], str]:
    """The status of each step behind the installation, and what the last one has put out."""
    document = action()
    given_inputs = {
        name: field.get("default", "") for name, field in document["inputs"].items()
    } | inputs
    install_for_test(runner_folder / "temp" / "txnsim" / "bin")
    variables = {
        "RUNNER_TEMP": str(runner_folder / "temp"),
        "GITHUB_ACTION_PATH": str(FOLDER),
        "GITHUB_OUTPUT": str(runner_folder / "output"),
        "GITHUB_STEP_SUMMARY": str(runner_folder / "summary"),
    }
    statuses = []
    for step in document["runs"]["steps"][1:]:
        step_variables = {
            name: given_inputs[value.removeprefix("${{ inputs.").removesuffix(" }}")]
            for name, value in step["env"].items()
        }
        statuses.append(
            run_script(
                step["run"], runner_folder, variables | step_variables, shell_name=step["shell"]
            )
        )
    return statuses, (runner_folder / "output").read_text() if (
        runner_folder / "output"
    ).exists() else ""


@pytest.mark.clients
def test_the_action_plays_the_exam_and_writes_both_badges(tmp_path: Path) -> None:
    statuses, output = run_action(tmp_path, driver=DRIVER, options=OPTIONS, folder="the exam")
    assert statuses == [0, 0]
    assert output == "badge=txnsim exam: 1 of 1\n"
    assert (tmp_path / "summary").read_text() == "txnsim exam: 1 of 1\n"
    assert {path.name for path in (tmp_path / "the exam").iterdir()} >= FILES
    badge = json.loads((tmp_path / "the exam" / "badge.json").read_text())
    assert badge["message"] == "1 of 1"


def test_an_input_runs_no_command_of_its_own(tmp_path: Path) -> None:
    """Options are split at spaces, with quotes, and never expanded."""
    options = '--only "$(touch PWNED)" --only `touch PWNED`;touch PWNED'
    statuses, output = run_action(tmp_path, driver="true", options=options)
    assert statuses == [2, 2]
    assert output == ""
    assert not list(tmp_path.rglob("PWNED"))


@pytest.mark.clients
def test_the_template_plays_the_exam_and_ends_with_its_status(tmp_path: Path) -> None:
    job = yaml.safe_load((FOLDER / "gitlab.yml").read_text("utf-8"))[".txnsim-exam"]
    install_for_test(tmp_path / ".txnsim" / "bin")
    *_, make_folder, play = job["script"]
    variables = job["variables"] | {"TXNSIM_DRIVER": DRIVER, "TXNSIM_OPTIONS": OPTIONS}
    assert run_script(f"{make_folder}\n{play}", tmp_path, variables, shell_name="sh") == 0
    assert {path.name for path in (tmp_path / "txnsim-exam").iterdir()} >= FILES
    hangs = {**variables, "TXNSIM_DRIVER": "true"}
    assert run_script(play, tmp_path, hangs, shell_name="sh") == 2


@pytest.mark.nightly
def test_the_action_installs_txnsim_beside_the_tools_of_a_job(tmp_path: Path) -> None:
    (install_step, *_) = action()["runs"]["steps"]
    variables = {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ACTION_PATH": str(FOLDER),
        "PYTHON": sys.executable,
    }
    assert run_script(install_step["run"], tmp_path, variables, shell_name="bash") == 0
    program_file = tmp_path / "txnsim" / "bin" / "txnsim"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    finished_process = subprocess.run(
        [program_file, "badge", "--help"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--shields FILE" in finished_process.stdout
