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

REPEATABLE: Final = "--txnsim-repeatable"
SEED: Final = "--txnsim-seed"
_ORDER: Final = "randomly_seed"
"""The option of pytest-randomly that also seeds the random numbers that a test draws itself."""


def arrange(config: pytest.Config) -> None:
    """Restart pytest in a process where virtual runs are reproducible, unless this is one.

    Raises:
        pytest.UsageError: Another program has called pytest; that program would be restarted.
    """
    if not limits_of_process() or ARRANGED in os.environ:
        return
    if tuple(config.invocation_params.args) != tuple(sys.argv[1:]):
        raise pytest.UsageError(
            f"{REPEATABLE}: pytest was called by another program and can't start itself again; "
            "call txnsim.testing.arrange_process() first of all in that program"
        )
    arrange_process()


def header(limits: Sequence[str]) -> str:
    if not limits:
        return "txnsim: virtual runs repeat in every process"
    return f"txnsim: virtual runs may not repeat in another process: {'; '.join(limits)}"


def section(item: pytest.Item, seed: int) -> Section:
    """The section of a failing test's report about its virtual run."""
    lines = [f"virtual time, seed {seed}", command(item, seed)]
    lines += [f"this process was not arranged: {limit}" for limit in limits_of_process()]
    return "txnsim: see it again", "\n".join(lines)


def command(item: pytest.Item, seed: int) -> str:
    """The command that repeats the run, from the directory in which pytest was called."""
    _, parts, name = item.nodeid.partition("::")
    path = os.path.relpath(item.path, item.config.invocation_params.dir)
    words = ["python", "-m", "pytest", f"{path}{parts}{name}"]
    expression: str = item.config.getoption("markexpr", "")
    if expression:
        words += ["-m", expression]
    order = item.config.getoption(_ORDER, None)
    if isinstance(order, int):
        words.append(f"--randomly-seed={order}")
    return shlex.join([*words, f"{SEED}={seed}", REPEATABLE])
