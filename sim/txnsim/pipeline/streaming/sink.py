"""A table that micro-batches are written to, each of them once.

::

    SINK/run=0/batch=0/part-….parquet     one directory per batch, never touched again
                       _batch.json        what it holds, and which offsets it reaches
         _staging/…                       what is not committed; readers pass over it

A batch is written whole under a name that no reader looks at, with its manifest, and then renamed:
that one step is the commit, of rows and offsets at once. A batch that is given again, because the
stream died between this commit and Spark's own, finds its directory there and writes nothing. So
every batch is there once or not at all, and ``spark.read.parquet(SINK)`` is right at any moment.

A **run** is what one checkpoint has written. Where a checkpoint is lost the next one begins a new
run, from the offsets of the last manifest. One stream writes to a sink; two at a time are a misuse
that is noticed only when they write the same batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.pipeline.streaming.store import Store
from txnsim.runtime.rng import random_hex

MANIFEST: Final = "_batch.json"
STAGING: Final = "_staging"

Fill = Callable[[str], int]
"""Writes a batch's rows to this URL, which is not there yet, and says how many."""


class SinkError(BadInputError):
    """The sink does not go with the checkpoint; nothing was written."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch holds."""

    run: int
    batch: int
    query_id: str
    """Of the checkpoint that wrote it."""
    rows: int
    offsets: Mapping[str, Mapping[str, int]] = {}
    """Topic → partition → the first offset that is not in this batch or one before it."""
    state: msgspec.Raw = msgspec.Raw(b"null")
    """What the next batch has to know."""


class BatchSink:
    """One such table.

    Args:
        store: Where.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[str, int] = {}
        """By query id, as far as they were looked up: there may be very many batches to list."""

    # Queries

    @property
    def url(self) -> str:
        """What readers are given."""
        return self._store.url("")

    def last(self) -> Manifest | None:
        """The manifest of the newest batch of the newest run; None where nothing is written."""
        for run in reversed(self._numbers("", "run")):
            batches = self._numbers(f"run={run}", "batch")
            if batches:
                return self._manifest(run, batches[-1])
        return None

    def run_of(self, query_id: str) -> int:
        """The run that this checkpoint writes: the newest one if it has begun that, else a new one.

        Raises:
            SinkError: Another checkpoint has gone on where this one had stopped.
        """
        if query_id not in self._runs:
            self._runs[query_id] = self._look_up_run(query_id)
        return self._runs[query_id]

    def _look_up_run(self, query_id: str) -> int:
        last = self.last()
        if last is None:
            return 0
        if last.query_id == query_id:
            return last.run
        for run in self._numbers("", "run")[:-1]:
            batches = self._numbers(f"run={run}", "batch")
            if batches and self._manifest(run, batches[0]).query_id == query_id:
                raise SinkError(
                    f"{self.url}: this checkpoint wrote run {run}, and another one has gone on"
                    f" with run {last.run}; remove this checkpoint to go on from there"
                )
        return last.run + 1

    def has(self, run: int, batch: int) -> bool:
        """Whether a batch is committed."""
        return self._store.read(f"run={run}/batch={batch}/{MANIFEST}") is not None

    # Commands

    def sweep(self) -> None:
        """Remove what writers that died have left behind; no writer may be at work."""
        self._store.remove(STAGING)

    def commit(
        self,
        batch: int,
        fill: Fill,
        *,
        query_id: str,
        offsets: Mapping[str, Mapping[str, int]] | None = None,
        state: object = None,
        follows: bool = True,
    ) -> Manifest | None:
        """Write a batch, once.

        Args:
            batch: Its id, as Spark counts them.
            fill: Writes the rows; called at most once, and not at all for a batch that is there.
            query_id: Of the checkpoint.
            offsets: Where the batch ends.
            state: Kept with it for the next one.
            follows: Every batch is written, so the one before must be there.

        Returns:
            What is committed now; None where it had been before.

        Raises:
            SinkError: The sink does not go with the checkpoint.
        """
        run = self.run_of(query_id)
        if self.has(run, batch):
            return None
        if follows and batch > 0 and not self.has(run, batch - 1):
            raise SinkError(
                f"{self.url}: batch {batch} of run {run} is to be written, and batch {batch - 1} is"
                " not there: the checkpoint belongs to another sink, or the sink has been emptied;"
                " give the checkpoint its sink back, or begin anew with neither"
            )
        staged = f"{STAGING}/run={run}-batch={batch}-{random_hex()}"
        manifest = Manifest(
            run=run,
            batch=batch,
            query_id=query_id,
            rows=fill(self._store.url(staged)),
            offsets=offsets or {},
            state=msgspec.Raw(msgspec.json.encode(state)),
        )
        self._store.write(f"{staged}/{MANIFEST}", msgspec.json.encode(manifest))
        if not self._store.publish(staged, f"run={run}/batch={batch}"):
            self._store.remove(staged)
            return None
        return manifest

    # Names

    def _manifest(self, run: int, batch: int) -> Manifest:
        name = f"run={run}/batch={batch}/{MANIFEST}"
        data = self._store.read(name)
        if data is None:
            raise SinkError(f"{self._store.url(name)} is missing: this is no sink of ours")
        return msgspec.json.decode(data, type=Manifest)

    def _numbers(self, path: str, kind: str) -> list[int]:
        """Of what is called ``kind=N`` there, in order."""
        named = (name.partition("=") for name in self._store.names(path))
        return sorted(int(number) for word, _, number in named if word == kind)
