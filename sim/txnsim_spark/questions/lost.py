"""What did it lose? Every record of a transaction that was aborted or has no end, as Parquet, and
counts of them per transaction and partition. Read in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.compute as pc

from txnsim_spark.engine import NewSession, Progress
from txnsim_spark.forensics.find_hanging import Search, find_hanging
from txnsim_spark.questions.application import ROLES, moves_in
from txnsim_spark.tables.read_here import read_here
from txnsim_spark.targets import refuse_existing
from txnsim_spark.written import Written

OPEN: Final = "open"
LOST: Final = ("aborted", OPEN)


class LostLot(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction wrote to one partition, and no ``read_committed`` consumer gets."""

    topic: str
    partition: int
    transactional_id: str | None
    """None: no coordinator's log tells it."""
    producer_id: int
    outcome: str
    """aborted, or open."""
    verdict: str | None
    """Of an open one: what becomes of it. Null for a transaction that was aborted."""
    first_offset: int
    last_offset: int
    records: int
    bytes: int
    """Of keys and values."""
    keys: int
    """Number of distinct keys."""


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search for lost records."""

    directory: str | None
    """Null if nothing was to be written."""
    files: int
    records: int
    bytes: int
    transactions: tuple[LostLot, ...]


def lost(
    search: Search, target: Path | None, *, new_session: NewSession, progress: Progress
) -> Losses:
    """Count and write what was lost.

    Of each partition the leading replica is taken.

    Args:
        search: What to look at.
        target: Folder to make; None: only count.
        new_session: Called where there is much to search for open transactions.
        progress: Called with what is done now.

    Raises:
        BadInputError: A path is no directory, there is nothing of Kafka's in it, or the target is
            there already, or can't be written.
        MissingExtraError: Spark is needed and not installed.
    """
    if target is not None:
        refuse_existing(target, "folder")
    report = find_hanging(search, new_session=new_session, progress=progress)
    progress("looking for aborted transactions")
    producer_ids = sorted(
        {one.producer_id for one in report.findings} | set(_aborting(search.paths, search.topics))
    )
    progress(f"reading the records of {len(producer_ids)} producers")
    lots = Written(search.paths, producer_ids, search.topics).lots(target, outcomes=LOST)
    moves, _ = moves_in(search.paths)
    ids = {row[role]: name for name, rows in moves.items() for row in rows for role in ROLES}
    verdicts = {
        (one.topic, one.partition, one.producer_id): one.verdict.value for one in report.findings
    }
    found = tuple(
        LostLot(
            **lot,
            transactional_id=ids.get(lot["producer_id"]),
            verdict=verdicts.get((lot["topic"], lot["partition"], lot["producer_id"]))
            if lot["outcome"] == OPEN
            else None,
        )
        for lot in lots
    )
    return Losses(
        directory=None if target is None else str(target),
        files=0 if target is None else sum(1 for _ in target.rglob("*.parquet")),
        records=sum(one.records for one in found),
        bytes=sum(one.bytes for one in found),
        transactions=found,
    )


def _aborting(paths: Sequence[Path], topics: frozenset[str]) -> Iterator[int]:
    """Producers with an aborted transaction."""
    columns = ("producer_id", "is_commit")
    for batch in read_here("endings", paths, columns=columns, topics=topics):
        yield from pc.unique(batch.filter(pc.invert(batch["is_commit"]))["producer_id"]).to_pylist()
