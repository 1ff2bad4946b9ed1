"""Files that may be anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from txnsim.storage.regular_file import open_regular, read_regular, why_unreadable


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert read_regular(path) == b"abc"
    assert why_unreadable(path) == ""


def test_what_should_be_small_is_not_read_where_it_is_large(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    with pytest.raises(OSError, match="3 bytes, no more than 2 are read"):
        read_regular(path, 2)


def test_a_named_pipe_does_not_keep_anybody_waiting(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="a named pipe, not a file"):
        open_regular(path)
    assert why_unreadable(path) == "a named pipe, not a file"


def test_a_folder_a_link_to_itself_and_nothing_have_their_reasons(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("link")
    assert why_unreadable(tmp_path) == "a folder, not a file"
    assert why_unreadable(link) == "Too many levels of symbolic links"
    assert why_unreadable(tmp_path / "nothing") == "No such file or directory"


def test_a_device_is_no_file() -> None:
    assert why_unreadable(Path("/dev/null")) == "a device or socket, not a file"
