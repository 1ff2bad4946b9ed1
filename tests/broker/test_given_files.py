"""Files that people name: so much of one is read, and no more."""

from __future__ import annotations

import errno
import io
from pathlib import Path

import pytest

from txnsim import given_files
from txnsim.given_files import lines_of, read_given, read_whole


def test_a_file_within_the_bound_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_given(file, at_most=5) == b"12345"
    with pytest.raises(OSError, match="too large") as caught:
        read_given(file, at_most=4)
    assert caught.value.errno == errno.EFBIG


def test_a_device_has_no_end_and_is_not_read_to_it() -> None:
    for read in (lambda file: read_whole(file), lambda file: list(lines_of(file))):
        with open("/dev/zero", "rb") as endless, pytest.raises(OSError, match="too large"):
            read(endless)


def test_lines_are_bounded_each_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_files, "LINE_BYTES_MAX", 4)
    monkeypatch.setattr(given_files, "LINES_BYTES_MAX", 8)
    assert list(lines_of(io.BytesIO(b"abc\n\nde"))) == [b"abc\n", b"\n", b"de"]
    for data in (b"abcd\n", b"abc\nabc\nd"):
        with pytest.raises(OSError, match="too large"):
            list(lines_of(io.BytesIO(data)))
