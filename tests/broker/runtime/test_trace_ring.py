"""What is kept of a trace when there is too much of it."""

from __future__ import annotations

import json

import msgspec
import pytest

from txnsim.runtime._trace_forms import Lines, Row
from txnsim.runtime._trace_ring import (
    BATCH_OVERHEAD,
    CARRIED_SHARE,
    CHUNK_BYTES,
    OVERDUE_SHARE,
    Ring,
    lives_of,
)

_FILLER = "x" * 1_000
"""Makes a line of some kilobyte: 64 of them fill a chunk."""


class Writer:
    """Writes lines into a ring, one at a time."""

    def __init__(self, bytes_max: int | None) -> None:
        self.ring = Ring(bytes_max, Lines(None))

    def write(self, kind: str = "note", *, tx: str = "", opening: bool = False, **data: str) -> int:
        index = self.ring.next
        event = {"i": index, "t": 0, "n": 0, "l": 1, "p": [], "k": kind}
        if tx:
            event["tx"] = tx
        event["d"] = {**data, "text": _FILLER}
        told: Row = (0, 0, (), kind, tx, event["d"], None)
        text = msgspec.json.encode(event) + b"\n"
        self.ring.add(text, 1, lives_of([told]), is_opening=opening)
        return index

    def fill(self, events: int) -> None:
        for _ in range(events):
            self.write()

    def kept(self, from_index: int = 0) -> list[int]:
        return [json.loads(line)["i"] for line in self.ring.lines(from_index)]


def test_without_a_bound_everything_is_kept() -> None:
    writer = Writer(None)
    writer.fill(300)
    assert writer.kept() == list(range(300))
    assert writer.kept(299) == [299]
    assert writer.kept(300) == []
    assert b"".join(writer.ring.texts()).count(b"\n") == 300
    assert len(list(writer.ring.texts())) > 1


def test_the_bound_is_of_bytes() -> None:
    writer = Writer(4 * CHUNK_BYTES)
    writer.fill(1_000)
    assert 3 * CHUNK_BYTES < writer.ring.size <= 4 * CHUNK_BYTES
    text = b"".join(writer.ring.texts())
    without_sets = len(text) + text.count(b"\n") * BATCH_OVERHEAD
    assert 0.98 * writer.ring.size < without_sets < writer.ring.size
    assert writer.kept() == list(range(writer.ring.first, 1_000))


def test_events_of_a_transaction_that_has_not_ended_are_carried_along() -> None:
    writer = Writer(4 * CHUNK_BYTES)
    ended = [
        writer.write("verify.ask", tx="done/1:0"),
        writer.write("txn.complete", tx="done/1:0", state="CompleteCommit"),
    ]
    open_ones = [
        writer.write("txn.complete", tx="open/2:0", state="Empty"),
        writer.write("verify.ask", tx="open/2:0"),
        writer.write("txn.complete", tx="open/2:0", state="Ongoing"),
        writer.write("txn.complete", tx="open/2:1", state="PrepareCommit"),
    ][1:]
    writer.fill(1_000)
    assert writer.ring.first > max(open_ones)
    assert set(ended).isdisjoint(writer.kept())
    assert writer.kept() == [*open_ones, *range(writer.ring.first, writer.ring.next)]
    assert writer.kept(open_ones[1])[:2] == open_ones[1:]
    assert next(writer.ring.texts()).count(b"\n") == len(open_ones)
    writer.write("txn.complete", tx="open/2:1", state="CompleteCommit")
    writer.fill(1_000)
    assert writer.kept()[0] == writer.ring.first


def test_names_in_payloads_and_names_with_slashes_differ() -> None:
    writer = Writer(4 * CHUNK_BYTES)
    first = writer.write("verify.ask", tx="a/b/1:0", reason='as "tx":"z/9:9" said')
    second = writer.write("verify.ask", tx="a/c/2:0")
    quoted = writer.write("verify.ask", tx='"quoted"/3:0')
    event = {"i": writer.ring.next, "k": "snapshot", "d": {"transactions": [{"tx": "a/b/1:0"}]}}
    writer.ring.add(msgspec.json.encode(event) + b"\n", 1)
    writer.write("txn.complete", tx="a/c/2:0", state="CompleteAbort")
    writer.fill(1_000)
    assert writer.kept()[:3] == [first, quoted, writer.ring.first]
    assert second < quoted


def test_what_is_carried_along_is_bounded_too_and_the_oldest_goes() -> None:
    writer = Writer(4 * CHUNK_BYTES)
    for number in range(200):
        writer.write("log.append", tx=f"app-{number}/1:0")
    writer.fill(1_000)
    carried = writer.kept()[: -len(writer.kept(writer.ring.first))]
    assert carried[-1] == 199
    assert carried == list(range(carried[0], 200)), "the newest of them"
    assert len(next(writer.ring.texts())) * CARRIED_SHARE <= 4 * CHUNK_BYTES < writer.ring.size * 2


def test_what_is_left_begins_with_a_snapshot() -> None:
    writer = Writer(4 * CHUNK_BYTES)
    snapshots = []
    for _ in range(20):
        snapshots.append(writer.write("snapshot", opening=True))
        writer.fill(50)
    assert writer.ring.first in snapshots[1:]
    assert writer.ring.size <= 4 * CHUNK_BYTES


@pytest.mark.parametrize("first", [True, False])
def test_a_snapshot_that_does_not_come_is_not_waited_for_without_end(first: bool) -> None:
    writer = Writer(4 * CHUNK_BYTES)
    most = 0
    writer.write("snapshot", opening=first)
    for _ in range(1_000):
        writer.write()
        most = max(most, writer.ring.size)
    overdue = 4 * CHUNK_BYTES + 4 * CHUNK_BYTES // OVERDUE_SHARE
    assert most < overdue + 2_000
    assert (most > 4 * CHUNK_BYTES + 2_000) == first
