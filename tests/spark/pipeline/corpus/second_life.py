"""What happens to the corpus between its two stops: some of what was open ends, some does not, and
then programs write until the brokers are killed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

from tests.spark.pipeline.corpus.actors import Actor, Notebook
from tests.spark.pipeline.corpus.raw_brokers import RawBrokers, wait_for
from tests.spark.pipeline.corpus.stories import BOTH, TINY, VERIFICATION
from tests.spark.pipeline.corpus.truth import OpenTransaction, Place

WRITERS: Final = {"writer-old": False, "writer-new": True}
"""Transactional id and topic → whether in transactions v2."""
LARGER: Final = {"internal.segment.bytes": "16384"}
ACKNOWLEDGED: Final = 25
"""Batches that each writer has behind it when the brokers are killed."""
TORN: Final = 6
"""Partitions whose last files are damaged later; each on one broker."""


def close(book: Notebook, actor: Actor, *, committed: bool) -> None:
    """End a transaction that was noted as open."""
    places = set(actor.touched)
    book.open = [
        row
        for row in book.open
        if (row.transactional_id, row.place in places) != (actor.transactional_id, True)
    ]
    actor.finish(committed=committed)


def more(book: Notebook, actors: Sequence[Actor]) -> None:
    """What was open until now ends, of those who are named; and a few transactions of each kind
    begin.
    """
    for actor in actors:
        close(book, actor, committed=True)
    raw = book.raw
    raw.create_topic("after", partitions=[BOTH] * 2, configs=TINY)
    producer = Actor(book, "after", new=True)
    for turn in range(4):
        producer.send(Place("after", 0), *(f"{turn} {'n' * 60} {n}" for n in range(3)), codec="lz4")
        producer.finish(committed=turn % 2 == 0)
    producer.send(Place("after", 0), "open when the kill comes")
    producer.leave_open("open", "begun after the restart")
    raw.configure(4, "", {VERIFICATION: "false"})
    ghost = Actor(book, "after-ghost")
    row = book.stamp_records("hangs when the kill comes")
    ghost.send_told(Place("after", 1), row, codec="zstd", unasked=True)
    ghost.leave_open("hanging", "Produce without AddPartitionsToTxn, after the restart")
    raw.configure(4, "", {VERIFICATION: None})


def to_be_torn(book: Notebook) -> dict[Place, int]:
    """Partitions that end with a batch or a marker whose loss changes what is open: partition →
    offset of that last batch.
    """
    book.raw.create_topic("torn", partitions=[(1,), (2,)] * (TORN // 2), configs=TINY)
    last_offsets: dict[Place, int] = {}
    for index in range(TORN):
        partition = Place("torn", index)
        producer = Actor(book, f"torn-{index}")
        for turn in range(3):
            producer.send(partition, *(f"{turn} {'t' * 50} {n}" for n in range(3)))
            producer.finish(committed=turn % 2 == 0)
        producer.send(partition, "the first of the last transaction")
        sent = producer.send(partition, *(f"{'u' * 50} {n}" for n in range(4)))
        last_offsets[partition] = sent.base_offset
        if index == TORN - 1:
            finished = producer.finish()
            last_offsets[partition] = finished.spans[0].marker_offset or 0
        else:
            producer.leave_open("open", "open at the torn end")
    return last_offsets


class Writers:
    """Programs that commit and abort one transaction after the other, until they are cut off."""

    def __init__(self, addresses: Mapping[int, str], *, level: int) -> None:
        self._addresses = addresses
        self._level = level
        self._books: dict[str, Notebook] = {}
        self._threads = [
            threading.Thread(target=self._write, args=(name, new), daemon=True)
            for name, new in WRITERS.items()
        ]
        self._end_is_near = False

    def start(self, raw: RawBrokers) -> None:
        """Begin, and wait until each has written enough to be in full swing."""
        for name in WRITERS:
            raw.create_topic(name, partitions=[BOTH, (2, 1), BOTH], configs=LARGER)
        for thread in self._threads:
            thread.start()
        wait_for(
            lambda: [len(book.sent) for book in self._books.values()],
            lambda counts: len(counts) == len(WRITERS) and min(counts) >= ACKNOWLEDGED,
            "writers to be in full swing",
        )

    def expect_the_end(self) -> None:
        """From now on it is no failure that a broker is gone."""
        self._end_is_near = True

    def join(self) -> list[Notebook]:
        """Wait for their ends, which the brokers' brings; what was acknowledged to them."""
        for thread in self._threads:
            thread.join()
        return list(self._books.values())

    def _write(self, name: str, new: bool) -> None:
        with RawBrokers(self._addresses) as raw:
            book = self._books[name] = Notebook(raw, level=self._level)
            try:
                self._turns(book, name, new)
            except (OSError, AssertionError):
                if not self._end_is_near:
                    raise

    def _turns(self, book: Notebook, name: str, new: bool) -> None:
        producer = Actor(book, name, new=new)
        turn = 0
        while True:
            for index in range(3):
                producer.send(Place(name, index), *(f"{turn} {'w' * 200} {n}" for n in range(20)))
            producer.end(committed=turn % 3 != 0)
            producer.forget()
            turn += 1


def still_open(book: Notebook) -> list[OpenTransaction]:
    """By partition and producer."""
    return sorted(book.open, key=lambda row: (row.place, row.producer_id))
