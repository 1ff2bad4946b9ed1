"""Files read in pieces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from txnsim_spark.scan.pieces import PIECE_BYTES_MIN, ShorterFileError, pieces_of

DATA = bytes(range(256)) * 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(DATA)
    return file


def test_a_piece_is_as_large_as_was_asked_for_or_as_what_is_left(path: Path) -> None:
    with pieces_of(path, 256) as file:
        assert file.size == len(DATA)
        assert bytes(file.read(10)) == DATA[10:266]
        assert bytes(file.read(1_000)) == DATA[1_000:]
        assert bytes(file.read(len(DATA))) == b""
        assert bytes(file.read(len(DATA) + 5)) == b""


def test_the_memory_of_a_piece_is_used_again(path: Path) -> None:
    with pieces_of(path, 256) as file:
        first_piece, second_piece = file.read(0), file.read(256)
        assert first_piece.ctypes.data == second_piece.ctypes.data


def test_no_more_memory_is_taken_than_the_file_has_bytes(path: Path) -> None:
    with pieces_of(path, 1 << 40) as file:
        assert bytes(file.read(0)) == DATA


def test_an_empty_file_has_an_empty_piece(tmp_path: Path) -> None:
    path = tmp_path / "empty.log"
    path.touch()
    with pieces_of(path) as file:
        assert file.size == 0
        assert len(file.read(0)) == 0


def test_a_piece_holds_at_least_a_header_and_a_marker(path: Path) -> None:
    with (
        pytest.raises(ValueError, match="expected 256 or more"),
        pieces_of(path, PIECE_BYTES_MIN - 1),
    ):
        pass


def test_a_file_that_grows_ends_where_it_ended(path: Path) -> None:
    with pieces_of(path, 4_096) as file:
        with path.open("ab") as appended_file:
            appended_file.write(b"more")
        assert bytes(file.read(0)) == DATA


def test_a_file_that_somebody_shortens_is_an_error(path: Path) -> None:
    def read_while_it_is_cut() -> None:
        with pieces_of(path, 512) as file:
            os.truncate(path, 300)
            file.read(0)

    with pytest.raises(ShorterFileError, match=f"300 bytes, {len(DATA) - 300} fewer") as error_info:
        read_while_it_is_cut()
    assert error_info.value.filename == str(path)
    with pytest.raises(ShorterFileError), pieces_of(path, 512, end_position=301):
        pass
    with pieces_of(path, 512, end_position=300) as file:
        os.truncate(path, 200)
        with pytest.raises(ShorterFileError):
            file.read_whole(100, 200)


def test_what_a_broker_has_renamed_is_read_until_it_is_deleted(path: Path) -> None:
    renamed_path = path.rename(f"{path}.deleted")
    with pieces_of(path, 512, end_position=400) as file:
        assert bytes(file.read(0)) == DATA[:400]
    path.write_bytes(b"the cleaner's")
    with pieces_of(path, 512, end_position=400) as file:
        assert bytes(file.read(0)) == DATA[:400]
    renamed_path.write_bytes(b"short")
    with pytest.raises(ShorterFileError), pieces_of(path, 512, end_position=400):
        pass


def test_a_system_without_advice_is_read_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fadvise")
    with pieces_of(path, 512) as file:
        assert bytes(file.read(0)) == DATA[:512]


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), pieces_of(tmp_path / "none.log"):
        pass
