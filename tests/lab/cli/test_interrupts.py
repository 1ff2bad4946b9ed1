"""Ctrl-C, as processes get it: what is known so far, status 130, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.alone import ROOT
from txnsim_lab.cli._exam import LEVELS

DRIVER: Final = f"{sys.executable} {ROOT / 'helpers/exam/aiokafka_driver.py'}"
COMMANDS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "exam": (
        (
            "exam",
            "run",
            "--driver",
            DRIVER,
            "--only",
            "fenced",
            "--transaction-version",
            f"{LEVELS[-1]}",
        ),
        " passed, ",
    ),
    "matrix": (("scenario", "matrix"), ""),
    "simulate": (("simulate", "--time", "10h", "--jobs", "2"), " seeds in "),
}
"""A command that lasts long, and what its result has at any time."""


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_ends_it_with_what_is_known(name: str, tmp_path: Path) -> None:
    words, part_of_result = COMMANDS[name]
    with subprocess.Popen(
        [sys.executable, "-m", "txnsim.cli.main", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "sim")},
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline()[0].isdigit()  # some of it is done
        os.killpg(process.pid, signal.SIGINT)  # as a terminal: its children, too
        out, err = process.communicate()  # to the end of both: no child of it holds them any more
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("txnsim: stopped after ")
    assert part_of_result in out
