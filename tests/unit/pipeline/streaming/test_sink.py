"""Batches that are written once, whatever dies when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.support.watched_store import WatchedStore
from txnsim.pipeline.streaming.sink import BatchSink, Fill, Manifest, SinkError
from txnsim.pipeline.streaming.store import LocalStore


class Died(Exception):
    """The process, at this point."""


def die() -> None:
    raise Died


def rows(*values: str) -> Fill:
    def fill(url: str) -> int:
        target = Path(url.removeprefix("file://"))
        target.mkdir(parents=True)
        (target / "part-0").write_text(" ".join(values))
        return len(values)

    return fill


def never(_url: str) -> int:
    raise AssertionError("a batch that is there is not filled again")


def read(root: Path) -> list[str]:
    """What a reader finds: everything but what begins with ``_``."""
    parts = sorted(
        part
        for part in root.rglob("part-*")
        if not any(name.startswith("_") for name in part.relative_to(root).parts)
    )
    return [value for part in parts for value in part.read_text().split()]


def test_a_batch_that_is_given_again_is_not_written_twice(tmp_path: Path) -> None:
    sink = BatchSink(LocalStore(tmp_path))
    done = sink.commit(0, rows("a", "b"), query_id="q", offsets={"t": {"0": 2}}, state=[1])
    assert done == Manifest(
        run=0,
        batch=0,
        query_id="q",
        rows=2,
        offsets={"t": {"0": 2}},
        state=msgspec.Raw(b"[1]"),
    )
    assert sink.commit(0, never, query_id="q") is None
    assert BatchSink(LocalStore(tmp_path)).commit(0, never, query_id="q") is None
    assert (read(tmp_path), sink.last()) == (["a", "b"], done)


def test_who_dies_before_the_commit_has_written_nothing(tmp_path: Path) -> None:
    with pytest.raises(Died):
        BatchSink(WatchedStore(tmp_path, at_staged=die)).commit(0, rows("a"), query_id="q")
    assert read(tmp_path) == []
    again = BatchSink(LocalStore(tmp_path))
    assert again.last() is None
    again.sweep()
    again.commit(0, rows("a"), query_id="q")
    assert read(tmp_path) == ["a"]


def test_who_dies_behind_the_commit_has_written_it(tmp_path: Path) -> None:
    with pytest.raises(Died):
        BatchSink(WatchedStore(tmp_path, at_committed=die)).commit(0, rows("a"), query_id="q")
    assert BatchSink(LocalStore(tmp_path)).commit(0, never, query_id="q") is None
    assert read(tmp_path) == ["a"]


def test_of_two_who_write_the_same_batch_one_is_first(tmp_path: Path) -> None:
    slow = BatchSink(WatchedStore(tmp_path, at_staged=lambda: _commit(tmp_path, rows("quick"))))
    assert slow.commit(0, rows("slow"), query_id="q") is None
    assert read(tmp_path) == ["quick"]
    assert list((tmp_path / "_staging").iterdir()) == []


def _commit(root: Path, fill: Fill) -> None:
    assert BatchSink(LocalStore(root)).commit(0, fill, query_id="q") is not None


def test_a_new_checkpoint_begins_a_new_run(tmp_path: Path) -> None:
    sink = BatchSink(LocalStore(tmp_path))
    sink.commit(0, rows("a"), query_id="old")
    sink.commit(1, rows("b"), query_id="old", offsets={"t": {"0": 2}})
    last = sink.last()
    assert last is not None
    assert last.offsets == {"t": {"0": 2}}
    after = BatchSink(LocalStore(tmp_path))
    done = after.commit(0, rows("c"), query_id="new")
    assert done is not None
    assert (done.run, done.batch) == (1, 0)
    assert read(tmp_path) == ["a", "b", "c"]
    with pytest.raises(SinkError, match="this checkpoint wrote run 0, and another one has gone on"):
        BatchSink(LocalStore(tmp_path)).commit(2, never, query_id="old")


def test_a_run_that_died_before_its_first_batch_is_none(tmp_path: Path) -> None:
    (tmp_path / "run=0").mkdir()
    sink = BatchSink(LocalStore(tmp_path))
    assert sink.last() is None
    done = sink.commit(0, rows("a"), query_id="q")
    assert done is not None
    assert done.run == 0


@pytest.mark.parametrize(
    "empty", [lambda _: None, lambda sink: sink.commit(0, rows(), query_id="q")]
)
def test_a_batch_without_the_one_before_it_is_refused(
    empty: Callable[[BatchSink], object], tmp_path: Path
) -> None:
    sink = BatchSink(LocalStore(tmp_path))
    empty(sink)
    with pytest.raises(SinkError, match="batch 4 is not there: the checkpoint belongs to another"):
        sink.commit(5, never, query_id="q")
    assert sink.commit(5, rows("a"), query_id="q", follows=False) is not None


def test_a_directory_that_is_no_batch_is_told(tmp_path: Path) -> None:
    (tmp_path / "run=0" / "batch=3").mkdir(parents=True)
    with pytest.raises(SinkError, match="this is no sink of ours"):
        BatchSink(LocalStore(tmp_path)).last()
