"""Source distributions of Python projects, as pip fetches them. Standard library only."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

from tests.peers.suite import PeerError
from tests.support.apache_kafka import output_of


def source_distribution(project: str, version: str, directory: Path) -> Path:
    """Fetch a source distribution, unpack it in an empty directory, and return the new folder.

    Raises:
        PeerError: It can't be had.
    """
    requirement = f"{project}=={version}"
    pip = (sys.executable, "-m", "pip", "download", "--quiet")
    command = [*pip, "--no-deps", "--no-binary=:all:", requirement]
    output_of(command, f"pip could not fetch {requirement}", PeerError, directory=directory)
    (archive_file,) = directory.glob("*.tar.gz")
    with tarfile.open(archive_file) as tar_file:
        tar_file.extractall(directory, filter="data")
    (unpacked_folder,) = (path for path in directory.iterdir() if path.is_dir())
    return unpacked_folder
