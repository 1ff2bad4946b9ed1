"""Prometheus' ``promtool``, which judges alert rules: the machine's own, or that of Debian's
package, unpacked below ``.cache/``, for which nobody has to be root.

The package comes by apt, which checks its signature, and is named by its version. Lists of packages
are fetched into ``.cache/`` too where the machine has none. Standard library only. As a command it
prints where the program is::

    python -m tests.support.promtool
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import CACHE, locked

PACKAGE: Final = "prometheus"
FOLDER: Final = CACHE / PACKAGE
PROGRAM: Final = Path("usr", "bin", "promtool")
FETCHERS: Final = ("apt-get", "dpkg-deb")
_TIMEOUT_S: Final = 300.0


class PromtoolError(Exception):
    """There is no promtool here, and it could not be had; the message says why."""


def is_to_be_had() -> bool:
    """Whether this machine has the program, or what it takes to fetch it."""
    return shutil.which("promtool") is not None or all(map(shutil.which, FETCHERS))


def promtool() -> Path:
    """Path of the program, fetched on first use.

    Raises:
        PromtoolError: This machine has none, and apt or dpkg is missing or failed.
    """
    installed = shutil.which("promtool")
    if installed is not None:
        return Path(installed)
    with locked(CACHE / f"{PACKAGE}.lock"):
        kept = sorted(FOLDER.glob(f"*/{PROGRAM}"))
        return kept[-1] if kept else _fetch()


def _fetch() -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        directory = Path(name)
        package = _download(directory)
        unpacked = directory / "unpacked"
        _run(["dpkg-deb", "-x", str(package), str(unpacked)], directory)
        if not (unpacked / PROGRAM).is_file():
            raise PromtoolError(f"{package.name} has no {PROGRAM}")
        # NAME_VERSION_ARCHITECTURE.deb. In one move: nobody takes half a package for a whole one.
        target = FOLDER / package.name.split("_")[1].replace("%3a", "-")
        unpacked.rename(target)
    return target / PROGRAM


def _download(directory: Path) -> Path:
    """The package's file; with lists of our own where the machine has none or only old ones."""
    try:
        _run(["apt-get", "download", PACKAGE], directory)
    except PromtoolError:
        lists, cache = FOLDER / "lists", FOLDER / "cache"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        (cache / "archives" / "partial").mkdir(parents=True, exist_ok=True)
        own = ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={cache}"]
        _run(["apt-get", *own, "update"], directory)
        _run(["apt-get", *own, "download", PACKAGE], directory)
    (package,) = directory.glob("*.deb")
    return package


def _run(command: Sequence[str], directory: Path) -> None:
    if shutil.which(command[0]) is None:
        raise PromtoolError(f"{command[0]} not found: install Debian's package {PACKAGE}")
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as expired:
        raise PromtoolError(f"{' '.join(command)}: no end in {_TIMEOUT_S:.0f} s") from expired
    if done.returncode != 0:
        raise PromtoolError(f"{' '.join(command)} failed:\n{done.stdout}")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{promtool()}\n")
    except PromtoolError as failure:
        sys.exit(str(failure))
