"""What happens to the corpus between its two stops: some open transactions end, others stay open,
and then programs write until the brokers are killed.
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
"""Transactional id and topic → whether the program uses transactions v2."""
LARGER: Final = {"internal.segment.bytes": "16384"}
ACKNOWLEDGED: Final = 25
"""Number of acknowledged batches that each writer has at least when the brokers are killed."""
TORN: Final = 6
"""Number of partitions whose last files are damaged later; each is on one broker."""


def close(notebook: Notebook, actor: Actor, *, committed: bool) -> None:
    """End a transaction that was noted as open."""
    touched_partitions = set(actor.touched)
    notebook.open = [
        row
        for row in notebook.open
        if (row.transactional_id, row.place in touched_partitions) != (actor.transactional_id, True)
    ]
    actor.finish(committed=committed)


def more(notebook: Notebook, actors: Sequence[Actor]) -> None:
    """End the open transactions of these actors, and begin a few transactions of each kind."""
    for actor in actors:
        close(notebook, actor, committed=True)
    raw = notebook.raw
    raw.create_topic("after", partitions=[BOTH] * 2, configs=TINY)
    producer = Actor(notebook, "after", is_new=True)
    for turn in range(4):
        producer.send(Place("after", 0), *(f"{turn} {'n' * 60} {n}" for n in range(3)), codec="lz4")
        producer.finish(committed=turn % 2 == 0)
    producer.send(Place("after", 0), "open when the kill comes")
    producer.leave_open("open", "begun after the restart")
    raw.configure(4, "", {VERIFICATION: "false"})
    ghost_actor = Actor(notebook, "after-ghost")
    row = notebook.stamp_records("hangs when the kill comes")
    ghost_actor.send_told(Place("after", 1), row, codec="zstd", skips_adding=True)
    ghost_actor.leave_open("hanging", "Produce without AddPartitionsToTxn, after the restart")
    raw.configure(4, "", {VERIFICATION: None})


def to_be_torn(notebook: Notebook) -> dict[Place, int]:
    """Make partitions that end with a batch or a marker whose loss changes what is open.

    Returns:
        Partition → offset of that last batch.
    """
    notebook.raw.create_topic("torn", partitions=[(1,), (2,)] * (TORN // 2), configs=TINY)
    last_offset_by_partition: dict[Place, int] = {}
    for index in range(TORN):
        partition = Place("torn", index)
        producer = Actor(notebook, f"torn-{index}")
        for turn in range(3):
            producer.send(partition, *(f"{turn} {'t' * 50} {n}" for n in range(3)))
            producer.finish(committed=turn % 2 == 0)
        producer.send(partition, "the first of the last transaction")
        sent_batch = producer.send(partition, *(f"{'u' * 50} {n}" for n in range(4)))
        last_offset_by_partition[partition] = sent_batch.base_offset
        if index == TORN - 1:
            finished_transaction = producer.finish()
            last_offset_by_partition[partition] = finished_transaction.spans[0].marker_offset or 0
        else:
            producer.leave_open("open", "open at the torn end")
    return last_offset_by_partition


class Writers:
    """Programs that commit and abort transactions without a pause, until the brokers end."""

    def __init__(self, addresses: Mapping[int, str], *, transaction_version: int) -> None:
        self._addresses = addresses
        self._level = transaction_version
        self._books: dict[str, Notebook] = {}
        self._threads = [
            threading.Thread(target=self._write, args=(writer_name, is_new), daemon=True)
            for writer_name, is_new in WRITERS.items()
        ]
        self._end_is_near = False

    def start(self, raw: RawBrokers) -> None:
        """Start the programs, and wait until each has ``ACKNOWLEDGED`` batches."""
        for writer_name in WRITERS:
            raw.create_topic(writer_name, partitions=[BOTH, (2, 1), BOTH], configs=LARGER)
        for thread in self._threads:
            thread.start()
        wait_for(
            lambda: [len(notebook.sent) for notebook in self._books.values()],
            lambda counts: len(counts) == len(WRITERS) and min(counts) >= ACKNOWLEDGED,
            "writers to be in full swing",
        )

    def expect_the_end(self) -> None:
        """From now on, take the loss of a broker as no failure."""
        self._end_is_near = True

    def join(self) -> list[Notebook]:
        """Wait until the programs have ended with the brokers; returns their notebooks."""
        for thread in self._threads:
            thread.join()
        return list(self._books.values())

    def _write(self, book_name: str, is_new_protocol: bool) -> None:
        with RawBrokers(self._addresses) as raw:
            notebook = self._books[book_name] = Notebook(raw, transaction_version=self._level)
            try:
                self._turns(notebook, book_name, is_new_protocol)
            except (OSError, AssertionError):
                if not self._end_is_near:
                    raise

    def _turns(self, notebook: Notebook, transactional_id: str, is_new_protocol: bool) -> None:
        producer = Actor(notebook, transactional_id, is_new=is_new_protocol)
        turn = 0
        while True:
            for index in range(3):
                producer.send(
                    Place(transactional_id, index), *(f"{turn} {'w' * 200} {n}" for n in range(20))
                )
            producer.end(committed=turn % 3 != 0)
            producer.forget()
            turn += 1


def still_open(notebook: Notebook) -> list[OpenTransaction]:
    """The transactions that are noted as open, sorted by partition and producer."""
    return sorted(notebook.open, key=lambda row: (row.place, row.producer_id))
