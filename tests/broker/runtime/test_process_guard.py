"""A program that ignores what it can ends with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Final

import pytest

from txnsim.runtime.process_guard import ProcessGuard

PROGRAM: Final = """
import signal, sys
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
sys.stdout.write("up\\n")
sys.stdout.flush()
signal.pause()
"""
PARENT: Final = """
import subprocess, sys
from txnsim.runtime.process_guard import ProcessGuard
program = subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True)
guard = ProcessGuard(program.pid)
sys.stdin.read()
"""


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_hangs_ends_with_a_parent_that_is_killed(signal_number: int) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent.stdin, parent.stdout:
        assert parent.stdout.readline() == b"up\n"
        os.kill(parent.pid, signal_number)
        assert parent.stdout.read() == b"", "ends once the program has ended, which has it, too"
    assert parent.wait() == -signal_number


def test_a_guard_that_is_dismissed_kills_nothing() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, start_new_session=True
    )
    assert program.stdout is not None
    with program.stdout:
        assert program.stdout.readline() == b"up\n"
        guard = ProcessGuard(program.pid)
        guard.dismiss()
        assert program.poll() is None
        program.kill()
        assert program.wait() == -signal.SIGKILL
    guard.dismiss()
