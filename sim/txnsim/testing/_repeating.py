"""How to repeat the virtual run of a failed test: its seed, a command, and the limits of this
process.

The command starts pytest again in a process where hashes are reproducible
(``runtime.virtual.reproducible_process``), because a client library may depend on them.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Final

import pytest

from txnsim.environment_variables import ARRANGED
from txnsim.runtime.virtual.reproducible_process import arrange_process, limits_of_process
from txnsim.testing._report import Section

REPEATABLE_OPTION: Final = "--txnsim-repeatable"
SEED_OPTION: Final = "--txnsim-seed"
_ORDER_SEED_OPTION: Final = "randomly_seed"
"""The option of pytest-randomly that also seeds the random numbers that a test draws itself."""


def restart_reproducibly(config: pytest.Config) -> None:
    """Restart pytest in a process where virtual runs are reproducible, unless this is one.

    Raises:
        pytest.UsageError: Another program has called pytest; that program would be restarted.
    """
    if not limits_of_process() or ARRANGED in os.environ:
        return
    if tuple(config.invocation_params.args) != tuple(sys.argv[1:]):
        raise pytest.UsageError(
            f"{REPEATABLE_OPTION}: pytest was called by another program and can't start itself "
            "again; call txnsim.testing.arrange_process() first of all in that program"
        )
    arrange_process()


def report_header(process_limits: Sequence[str]) -> str:
    if not process_limits:
        return "txnsim: virtual runs repeat in every process"
    return f"txnsim: virtual runs may not repeat in another process: {'; '.join(process_limits)}"


def repeat_section(item: pytest.Item, seed: int) -> Section:
    """The section of a failing test's report about its virtual run."""
    report_lines = [f"virtual time, seed {seed}", repeat_command(item, seed)]
    report_lines += [
        f"this process was not arranged: {limit_text}" for limit_text in limits_of_process()
    ]
    return "txnsim: see it again", "\n".join(report_lines)


def repeat_command(item: pytest.Item, seed: int) -> str:
    """The command that repeats the run, from the directory in which pytest was called."""
    _, separator, test_name = item.nodeid.partition("::")
    test_file = os.path.relpath(item.path, item.config.invocation_params.dir)
    arguments = ["python", "-m", "pytest", f"{test_file}{separator}{test_name}"]
    marker_expression: str = item.config.getoption("markexpr", "")
    if marker_expression:
        arguments += ["-m", marker_expression]
    order_seed = item.config.getoption(_ORDER_SEED_OPTION, None)
    if isinstance(order_seed, int):
        arguments.append(f"--randomly-seed={order_seed}")
    return shlex.join([*arguments, f"{SEED_OPTION}={seed}", REPEATABLE_OPTION])
