"""One ``txnsim`` command as users run it, timed: a process of its own, start included."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

import msgspec

AS_INSTALLED: Final = (
    "import sys; sys.modules['hypothesis'] = sys.modules['coverage'] = None;"
    " from txnsim.cli.main import main; sys.exit(main(sys.argv[1:]))"
)
"""kio loads hypothesis where it finds it, as in a checkout, and numba coverage; users have none."""
_LIMIT_S: Final = 560.0


class TimedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Time and memory of a command that has ended."""

    seconds: float
    cpu_s: float
    """Of it and of the processes that it waited for: Spark's are not among them."""
    stdout: bytes


def time_command(arguments: Sequence[str]) -> TimedCommand:
    """Run a command; 1 and 3 are how it says that something was found."""
    began_cpu_s, began_s = _cpu_s(), time.perf_counter()
    finished_process = subprocess.run(
        [sys.executable, "-c", AS_INSTALLED, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=_LIMIT_S,
    )
    took_s = time.perf_counter() - began_s
    assert finished_process.returncode in (0, 1, 3), finished_process.stderr
    return TimedCommand(
        seconds=took_s, cpu_s=_cpu_s() - began_cpu_s, stdout=finished_process.stdout
    )


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
