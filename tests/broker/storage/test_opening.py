"""Files that others have left are opened in one place, and only where they are files."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from txnsim.errors import ConfigError
from txnsim.storage.disks import find_disks
from txnsim.storage.lock import LOCK_NAME, is_in_use
from txnsim.storage.regular_file import SMALL_BYTES_MAX

ROOT = Path(__file__).resolve().parents[3] / "sim"
READERS = [
    *sorted((ROOT / "txnsim/storage").glob("*.py")),
    *(
        ROOT / "txnsim/server" / file_name
        for file_name in ("disk_loading.py", "log_dirs.py", "snapshot.py")
    ),
    ROOT / "txnsim/cli/_serve_load.py",
    *(
        path
        for package in ("forensics", "questions", "scan", "soundness", "tables")
        for path in sorted((ROOT / "txnsim_spark" / package).glob("*.py"))
    ),
]
USERS_OWN = {ROOT / "txnsim_spark/forensics/_search_memory.py"}
"""Open a file that the user names, which is in no log directory."""
THE_PLACE = ROOT / "txnsim/storage/regular_file.py"


OPENING_CALLS = frozenset(
    ("open", "read_text", "read_bytes", "fdopen", "FileIO", "copyfile", "fromfile", "memmap")
)


def openings(source: str) -> Iterator[str]:
    """Calls that open a file to read it, by line."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        name = function.id if isinstance(function, ast.Name) else name
        if name not in OPENING_CALLS:
            continue
        receiver = function.value if isinstance(function, ast.Attribute) else None
        if isinstance(receiver, ast.Call) and ast.unparse(receiver.func) == "RegularFile":
            continue
        modes = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
        if name == "open" and any("w" in str(mode) for mode in modes):
            continue
        yield f"{node.lineno}: {ast.unparse(node)}"


def test_files_of_others_are_opened_in_one_place() -> None:
    openings_found = [
        f"{path.relative_to(ROOT)}:{opening_line}"
        for path in READERS
        if path != THE_PLACE and path not in USERS_OWN
        for opening_line in openings(path.read_text())
    ]
    assert not openings_found, "open it by RegularFile"
    assert list(openings(THE_PLACE.read_text()))


@pytest.mark.parametrize(
    "source",
    [
        *("open(p)", "p.open()", "p.open('rb')", "os.open(p, 0)", "p.read_text()"),
        *("p.read_bytes()", "numpy.memmap(p)", "numpy.fromfile(p)"),
    ],
)
def test_each_way_to_open_one_is_seen(source: str) -> None:
    assert list(openings(source))
    assert not list(openings("RegularFile(p).open(); p.open('wb')"))


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, SMALL_BYTES_MAX + 1)


META = "version=1\nbroker.id=1\nnode.id=1\ncluster.id=c\n"


@pytest.mark.parametrize("hostile", [pipe, device, sparse])
@pytest.mark.parametrize(
    "file_name", ["recovery-point-offset-checkpoint", "t-0/partition.metadata", "meta.properties"]
)
def test_a_log_directory_with_something_else_is_refused_at_once(
    tmp_path: Path, file_name: str, hostile: Callable[[Path], None]
) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0/00000000000000000000.log").touch()
    if file_name != "meta.properties":
        (tmp_path / "meta.properties").write_text(META)
    hostile(tmp_path / file_name)
    with pytest.raises((OSError, ConfigError)):
        find_disks([tmp_path])


def test_a_lock_that_is_no_file_is_an_error_and_no_wait(tmp_path: Path) -> None:
    pipe(tmp_path / LOCK_NAME)
    with pytest.raises(OSError, match="a named pipe, not a file"):
        is_in_use(tmp_path)
