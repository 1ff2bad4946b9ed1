"""Source distributions of Python projects, as pip fetches them. Standard library only."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

from tests.peers.suite import PeerError


def source_distribution(project: str, version: str, directory: Path) -> Path:
    """Fetch one and unpack it in an empty directory; the folder that it makes there.

    Raises:
        PeerError: It can't be had.
    """
    wanted = f"{project}=={version}"
    pip = (sys.executable, "-m", "pip", "download", "--quiet")
    done = subprocess.run(
        [*pip, "--no-deps", "--no-binary=:all:", wanted],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise PeerError(f"pip could not fetch {wanted}:\n{done.stdout}{done.stderr}")
    (archive,) = directory.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        members.extractall(directory, filter="data")
    (unpacked,) = (path for path in directory.iterdir() if path.is_dir())
    return unpacked
