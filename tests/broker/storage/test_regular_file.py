"""Files that may be anything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from txnsim.storage.regular_file import (
    expect,
    mount,
    open_ranges,
    open_regular,
    read_regular,
    size_of_open,
    why_unreadable,
)


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


class Elsewhere:
    """Bytes that lie in no file, handed over two at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self.is_closed = False

    def read_into(self, view: memoryview, position: int) -> int:
        """Two of them."""
        part = self._data[position : position + min(len(view), 2)]
        view[: len(part)] = part
        return len(part)

    def close(self) -> None:
        """Noted."""
        self.is_closed = True


def test_a_mounted_folder_is_read_from_elsewhere(tmp_path: Path) -> None:
    opened: list[tuple[str, bool, Elsewhere]] = []

    class Store:
        def open(self, place: Path, is_sequential: bool) -> Elsewhere:
            if place.name == "none":
                raise FileNotFoundError(2, "No such file or directory", str(place))
            opened.append((place.name, is_sequential, Elsewhere(b"abcdefg")))
            return opened[-1][2]

        def expect(self, places: Sequence[Path]) -> None:
            expected.extend(places)

    expected: list[Path] = []

    (tmp_path / "mounted-too").write_bytes(b"here")
    mount(tmp_path / "mounted", Store())
    there = tmp_path / "mounted" / "file"
    assert read_regular(there) == b"abcdefg"
    with open_regular(there) as file:
        assert size_of_open(file) == 7
        file.seek(3)
        assert (file.read(2), file.tell(), file.read()) == (b"de", 5, b"fg")
    open_ranges(there, is_sequential=True).close()
    assert [is_sequential for _, is_sequential, _ in opened] == [False, False, True]
    assert all(one.is_closed for _, _, one in opened)
    assert why_unreadable(tmp_path / "mounted" / "none") == "No such file or directory"
    assert read_regular(tmp_path / "mounted-too") == b"here"
    expect([str(there), str(tmp_path / "mounted-too")])
    assert expected == [there]
