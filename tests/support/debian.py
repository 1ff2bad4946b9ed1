"""Debian's packages, unpacked below ``.cache/``: nobody has to be root, and nothing is installed.

They come by apt, which checks their signatures. Lists of packages are fetched into ``.cache/`` too
where the machine has none. Standard library only.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import CACHE, hold_lock

FETCHERS: Final = ("apt-get", "dpkg-deb")
APT_LOCK: Final = CACHE / "apt.lock"
"""Held by who installs packages: apt-get does not wait for another one that fetches lists."""
_TIMEOUT_S: Final = 300.0


class DebianError(Exception):
    """A package could not be fetched; the message says why."""


def unpack_packages(*packages: str, has: Path) -> Path:
    """A folder with the files of packages. They are fetched on first use.

    Args:
        packages: Names; the first one names the folder, and its version a folder within.
        has: A file that is in them.

    Raises:
        DebianError: apt or dpkg is missing or failed.
    """
    family_folder = CACHE / packages[0]
    with hold_lock(family_folder.with_suffix(".lock")):
        versions = sorted(folder for folder in family_folder.glob("*") if (folder / has).is_file())
        return versions[-1] if versions else _fetch(family_folder, packages, has)


def _fetch(family_folder: Path, packages: Sequence[str], has: Path) -> Path:
    family_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=family_folder) as name:
        directory = Path(name)
        _download(family_folder, packages, directory)
        unpacked_dir = directory / "unpacked"
        for file in directory.glob("*.deb"):
            _run(["dpkg-deb", "-x", str(file), str(unpacked_dir)], directory)
        if not (unpacked_dir / has).is_file():
            raise DebianError(f"{' '.join(packages)}: no {has} in them")
        (first_archive_file,) = directory.glob(f"{packages[0]}_*.deb")
        # NAME_VERSION_ARCHITECTURE.deb. In one move: nobody takes half a package for a whole one.
        target_path = family_folder / first_archive_file.name.split("_")[1].replace("%3a", "-")
        unpacked_dir.rename(target_path)
    return target_path


def _download(family_folder: Path, packages: Sequence[str], directory: Path) -> None:
    """Download packages. If the machine has no current package lists, fetch lists of our
    own first.
    """
    try:
        _run(["apt-get", "download", *packages], directory)
    except DebianError:
        lists, cache_folder = family_folder / "lists", family_folder / "cache"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        (cache_folder / "archives" / "partial").mkdir(parents=True, exist_ok=True)
        own_options = ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={cache_folder}"]
        _run(["apt-get", *own_options, "update"], directory)
        _run(["apt-get", *own_options, "download", *packages], directory)


def _run(command: Sequence[str], directory: Path) -> None:
    if shutil.which(command[0]) is None:
        raise DebianError(f"{command[0]} not found: it fetches packages of Debian")
    try:
        process = subprocess.run(
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
        raise DebianError(f"{' '.join(command)}: no end in {_TIMEOUT_S:.0f} s") from expired
    if process.returncode != 0:
        raise DebianError(f"{' '.join(command)} failed:\n{process.stdout}")
