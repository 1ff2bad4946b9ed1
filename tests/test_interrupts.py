"""Tests that were started in the background of a shell send and take Ctrl-C all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TEST = """
    import signal, subprocess, sys
    def test_it():
        program = "import signal; print(signal.getsignal(signal.SIGINT).__name__)"
        shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert shown.stdout == "default_int_handler\\n", shown
"""
IGNORING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.slow
def test_programs_of_tests_take_ctrl_c_where_the_shell_ignores_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    pytester.makeconftest("""
        from tests.support.interrupts import take_interrupts
        def pytest_configure():
            take_interrupts()
    """)
    pytester.makepyfile(TEST)
    command = [sys.executable, "-c", IGNORING, sys.executable, "-m", "pytest", "-q"]
    run = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
