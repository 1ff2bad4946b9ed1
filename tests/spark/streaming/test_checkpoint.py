from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.local_folder import LocalFolder
from txnsim.errors import BadInputError
from txnsim_spark.streaming._checkpoint import Checkpoint, read_offsets

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"t":{"0":4,"1":2}}\n'


def test_what_has_not_begun_tells_nothing(tmp_path: Path) -> None:
    fresh = Checkpoint(LocalFolder(tmp_path / "none"))
    assert (fresh.query_id(), fresh.has_committed(), fresh.newest()) == (None, False, None)
    with pytest.raises(BadInputError, match="offsets/0 is missing"):
        fresh.offsets(0)


def test_whose_it_is_and_where_a_batch_ends(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    folder.write("metadata", b'{"id":"q"}')
    folder.write("offsets/0", OFFSETS.encode())
    checkpoint = Checkpoint(folder)
    assert (checkpoint.query_id(), checkpoint.has_committed()) == ("q", False)
    assert checkpoint.offsets(0) == {"t": {"0": 4, "1": 2}}
    for batch in (9, 10):  # by number, not by name
        folder.write(f"offsets/{batch}", OFFSETS.replace("4", str(batch)).encode())
    assert checkpoint.newest() == {"t": {"0": 10, "1": 2}}
    folder.write("commits/.0.crc", b"")
    assert not checkpoint.has_committed()
    folder.write("commits/0", b"")
    assert checkpoint.has_committed()


@pytest.mark.parametrize("name", ["offsets", "commits"])
def test_what_is_left_of_a_first_batch_is_swept_away_and_no_batch_is(
    tmp_path: Path, name: str
) -> None:
    folder = LocalFolder(tmp_path)
    checkpoint = Checkpoint(folder)
    checkpoint.sweep()
    folder.write(f"{name}/.0.1f6b.tmp", b"v1")
    checkpoint.sweep()
    assert folder.names(name) == []
    folder.write(f"{name}/0", b"v1")
    folder.write(f"{name}/.1.1f6b.tmp", b"v1")
    checkpoint.sweep()
    assert folder.names(name) == [".1.1f6b.tmp", "0"]


@pytest.mark.parametrize("text", [OFFSETS.replace("v1", "v2"), OFFSETS + '{"t2":{}}\n', "v1\n{}\n"])
def test_what_is_written_in_a_way_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match=r"expected v1 with 2$"):
        read_offsets(text.encode(), name="offsets/0")
