"""Where a recipe is played: a simulator, programs beside it, and a judge."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.recipes.judge import Judge, RecipeError
from tests.support.apache_kafka import REPOSITORY
from tests.support.txnsim_server import installed_txnsim

CLUSTER: Final = REPOSITORY / "tests" / "recipes" / "cluster.yaml"
"""What every recipe starts its brokers with."""

_TOLD_LINES: Final = 80


class Lab:
    """A cluster as a recipe sees it.

    Args:
        bootstrap: Its brokers.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.judge = Judge(bootstrap)

    # Programs

    def environment(self) -> dict[str, str]:
        """The environment of a program that uses this cluster; ``txnsim`` is on its PATH."""
        return {**outside(), "TXNSIM_BOOTSTRAP": self._bootstrap}

    def run(
        self,
        command: Sequence[str],
        *,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
    ) -> str:
        """Run a program to its end, and answer with what it printed.

        Args:
            command: The program and its arguments.
            directory: Where.
            environment: The whole of it; ``environment()`` unless given.
            timeout_s: Then it is ended, with everything that it started.

        Raises:
            RecipeError: It failed or did not end; with the end of what it printed.
        """
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=self.environment() if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise RecipeError(
                f"{command[0]}: no end in {timeout_s:.0f} s\n{tail(output)}"
            ) from None
        if process.returncode != 0:
            raise RecipeError(f"{command[0]} ended with {process.returncode}\n{tail(output)}")
        return output


def outside() -> dict[str, str]:
    """The environment of a program that has to start ``txnsim`` by itself."""
    path = f"{installed_txnsim().parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        name: text for name, text in os.environ.items() if not name.startswith("TXNSIM_")
    }
    return {**environment, "PATH": path}


def tail(output: str) -> str:
    """The last lines of a program's output, which contain the reason of a failure."""
    return "\n".join(output.splitlines()[-_TOLD_LINES:])
