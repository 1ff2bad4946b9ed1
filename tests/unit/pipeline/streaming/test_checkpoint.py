from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.errors import BadInputError
from txnsim.pipeline.streaming.checkpoint import Checkpoint, read_offsets
from txnsim.pipeline.streaming.store import LocalStore

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"t":{"0":4,"1":2}}\n'


def test_what_has_not_begun_tells_nothing(tmp_path: Path) -> None:
    fresh = Checkpoint(LocalStore(tmp_path / "none"))
    assert (fresh.query_id(), fresh.has_committed()) == (None, False)
    with pytest.raises(BadInputError, match="offsets/0 is missing"):
        fresh.offsets(0)


def test_whose_it_is_and_where_a_batch_ends(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write("metadata", b'{"id":"q"}')
    store.write("offsets/0", OFFSETS.encode())
    checkpoint = Checkpoint(store)
    assert (checkpoint.query_id(), checkpoint.has_committed()) == ("q", False)
    assert checkpoint.offsets(0) == {"t": {"0": 4, "1": 2}}
    store.write("commits/.0.crc", b"")
    assert not checkpoint.has_committed()
    store.write("commits/0", b"")
    assert checkpoint.has_committed()


@pytest.mark.parametrize("name", ["offsets", "commits"])
def test_what_is_left_of_a_first_batch_is_swept_away_and_no_batch_is(
    tmp_path: Path, name: str
) -> None:
    store = LocalStore(tmp_path)
    checkpoint = Checkpoint(store)
    checkpoint.sweep()
    store.write(f"{name}/.0.1f6b.tmp", b"v1")
    checkpoint.sweep()
    assert store.names(name) == []
    store.write(f"{name}/0", b"v1")
    store.write(f"{name}/.1.1f6b.tmp", b"v1")
    checkpoint.sweep()
    assert store.names(name) == [".1.1f6b.tmp", "0"]


@pytest.mark.parametrize("text", [OFFSETS.replace("v1", "v2"), OFFSETS + '{"t2":{}}\n', "v1\n{}\n"])
def test_what_is_written_in_a_way_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match=r"expected v1 with 2$"):
        read_offsets(text.encode(), name="offsets/0")
