"""Ctrl-C, as processes get it: what is known so far, status 130, no traceback."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.alone import ROOT
from tests.support.txnsim_server import TxnsimServer
from txnsim_lab.cli._exam import TRANSACTION_VERSIONS

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
            f"{TRANSACTION_VERSIONS[-1]}",
        ),
        " passed, ",
    ),
    "matrix": (("scenario", "matrix"), ""),
    "simulate": (("simulate", "--time", "10h", "--jobs", "2"), " seeds in "),
}
"""A command that lasts long, and what its result has at any time."""


@pytest.mark.slow
@pytest.mark.parametrize("command_name", COMMANDS)
def test_ctrl_c_ends_it_with_what_is_known(command_name: str, tmp_path: Path) -> None:
    arguments, part_of_result = COMMANDS[command_name]
    with subprocess.Popen(
        [sys.executable, "-m", "txnsim.cli.main", *arguments],
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
        output, error_output = (
            process.communicate()
        )  # to the end of both: no child of it holds them any more
    assert process.returncode == 130, error_output
    assert "Traceback" not in error_output
    assert error_output.splitlines()[-1].startswith("txnsim: stopped after ")
    assert part_of_result in output


@pytest.mark.parametrize(
    ("command", "signal_number"), [("run", signal.SIGTERM), ("compare", signal.SIGHUP)]
)
def test_a_driver_ends_with_an_exam_that_is_ended(
    command: str, signal_number: signal.Signals, tmp_path: Path
) -> None:
    """Also where SIGINT is ignored, as in a background job of a shell."""
    pid_file = tmp_path / "pid"
    program = f"import os, time; open({str(pid_file)!r}, 'w').write(f'{{os.getpid()}}.'); "
    driver = shlex.join([sys.executable, "-c", f"{program} time.sleep(600)"])
    drivers = ("--driver", driver) if command == "run" else (driver, driver)
    exam = (sys.executable, "-m", "txnsim.cli.main", "exam", command, *drivers)
    # These tests may run below nohup, which ignores SIGHUP.
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN);"
        f" signal.signal({signal_number.value}, signal.SIG_DFL);"
        " os.execv(sys.argv[1], sys.argv[1:])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", ignoring, *exam],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "sim")},
        text=True,
    ) as process:
        while not (pid_file.exists() and pid_file.read_text().endswith(".")):
            assert process.poll() is None
        process.send_signal(signal_number)
        _, error_output = process.communicate(timeout=120)
    assert process.returncode == 130, error_output
    assert "Traceback" not in error_output
    try:
        state_text = Path(f"/proc/{pid_file.read_text().rstrip('.')}/stat").read_text()
    except OSError:  # it is gone
        return
    assert state_text.rpartition(")")[2].split()[0] == "Z"  # ended, and not waited for yet


@pytest.mark.slow
def test_ctrl_c_ends_conformance_and_takes_its_topics_away(tmp_path: Path) -> None:
    with TxnsimServer(arguments=("--http", "0", "--brokers", "1")) as server:
        with subprocess.Popen(
            [sys.executable, "-m", "txnsim.cli.main", "conformance", server.bootstrap, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT / "sim")},
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stderr is not None
            while not process.stderr.readline()[0].isdigit():
                pass  # until some cases are done
            os.killpg(process.pid, signal.SIGINT)
            output, error_output = process.communicate()
        assert process.returncode == 130, error_output
        assert "Traceback" not in error_output
        assert "stopped after " in error_output
        results = json.loads(output)
        assert results["is_stopped"]
        assert results["results"]
        topics = subprocess.run(
            [sys.executable, "-m", "txnsim.cli.main", "topics", "list", "--json"],
            env={**os.environ, "PYTHONPATH": str(ROOT / "sim"), "TXNSIM_HTTP": str(server.http)},
            capture_output=True,
            check=True,
            text=True,
        )
        assert [
            topic["name"] for topic in json.loads(topics.stdout) if topic["name"][0] != "_"
        ] == []


@pytest.mark.slow
def test_ctrl_c_ends_a_command_of_logs_that_reads_its_input(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "txnsim.cli.main", "logs", "dumped", "-", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "sim")},
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        # More than a pipe holds: it is written once the command reads.
        process.stdin.write("Dumping /logs/orders-0/00000000000000000000.log\n" * 10_000)
        process.stdin.flush()
        os.killpg(process.pid, signal.SIGINT)
        output, error_output = process.communicate()
    assert process.returncode == 130, error_output
    assert error_output == "txnsim: stopped\n"
    assert json.loads(output) == {"error": "stopped"}
