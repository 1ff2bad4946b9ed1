"""What parts of CI ask alike: pytest, a program that counts its checks, the client matrix."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import Final

from tests.ci.process import (
    REPOSITORY,
    Deadline,
    PartOutcome,
    judge_checks,
    judge_pytest,
    judge_step,
    run,
)
from tests.support.apache_kafka import hold_lock
from tests.support.debian import APT_LOCK

PYTHON: Final = str(REPOSITORY / ".venv" / "bin" / "python")
"""The Python of the environment that ``make test`` creates."""


def pytest(
    name: str,
    *arguments: str,
    deadline: Deadline,
    environment: Mapping[str, str] | None = None,
) -> PartOutcome:
    """Run pytest with more arguments, such as paths and ``-m`` with a marker."""
    command = [PYTHON, "-m", "pytest", "-q", *arguments]
    return judge_pytest(name, run(command, deadline=deadline, environment=environment))


def checks(
    name: str, *arguments: str, deadline: Deadline, python_program: str = PYTHON
) -> PartOutcome:
    """Run a module of tests that prints a line per check and counts them."""
    program_result = run([python_program, "-m", *arguments], deadline=deadline)
    return judge_checks(name, program_result.code, program_result.output)


def matrix(target_label: str, *options: str, deadline: Deadline) -> PartOutcome:
    """Run the checks of client libraries."""
    module_name = "tests.clients.matrix.run"
    return checks(
        f"clients, {target_label}",
        module_name,
        *options,
        deadline=deadline,
        python_program=sys.executable,
    )


def install_group(group: str, deadline: Deadline) -> PartOutcome:
    """Install a dependency group; no failure is no check."""
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    outcome = judge_step(f"install {group}", run([*pip, "--group", group], deadline=deadline))
    return outcome if outcome.failed else PartOutcome(0, 0)


def install_debian(*packages: str, deadline: Deadline) -> PartOutcome:
    """Install Debian's packages; no failure is no check."""
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    with hold_lock(APT_LOCK):
        for step in (["apt-get", "update", "-q"], install):
            outcome = judge_step(" ".join(step[:2]), run(step, deadline=deadline))
            if outcome.failed:
                return outcome
    return PartOutcome(0, 0)


def in_a_browser(marks: str, deadline: Deadline) -> PartOutcome:
    """Tests with these markers in Debian's Chromium, which is installed where it is missing."""
    missing = PartOutcome(0, 0)
    if shutil.which("chromium") is None:
        missing = install_debian("chromium", "fonts-dejavu-core", deadline=deadline)
    missing += install_group("browser", deadline)
    if missing.failed:
        return missing
    arguments = ("-n", "2", "-m", marks, "tests/lab/browser")
    needed = {"TXNSIM_NEEDS_BROWSER": "1"}
    return pytest("page", *arguments, deadline=deadline, environment=needed)
