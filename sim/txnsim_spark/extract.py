"""``logs extract``: every record that one transactional id wrote, once, with what became of it, as
Parquet. Read in this process: batches of other producers are not unpacked.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from txnsim.errors import BadInputError
from txnsim_spark.targets import refuse_existing


class Extract(msgspec.Struct, frozen=True, kw_only=True):
    """Request of ``logs extract``: source, transactional id, target folder."""

    paths: tuple[Path, ...]
    transactional_id: str
    target: Path
    topics: frozenset[str] = frozenset()
    """The extracted topics; empty for all."""


class Lot(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction wrote to one partition, or what it wrote outside of any."""

    topic: str
    partition: int
    producer_id: int
    outcome: str
    """committed, aborted, open, or none."""
    first_offset: int
    last_offset: int
    records: int
    bytes: int
    """Of keys and values."""
    keys: int
    """Number of distinct keys."""


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an extraction."""

    transactional_id: str
    producer_ids: tuple[int, ...]
    directory: str
    files: int
    records: int
    transactions: tuple[Lot, ...]


def extract(wanted: Extract) -> Extracted:
    """Write the records of a transactional id, of each partition those of the leading replica.

    Args:
        wanted: Whose records, from where and where to.

    Raises:
        BadInputError: A path is no directory, there is nothing of Kafka's in it, no coordinator's
            log knows the id, or the target is there already, or can't be written.
    """
    from txnsim_spark.forensics.timeline_reading import producer_ids_here
    from txnsim_spark.written import Written

    refuse_existing(wanted.target, "folder")
    producer_ids = producer_ids_here(wanted.paths, wanted.transactional_id)
    if not producer_ids:
        raise BadInputError(
            f"{wanted.transactional_id}: no coordinator's log in these directories has it; name the"
            " directories of all brokers"
        )
    written = Written(wanted.paths, producer_ids, wanted.topics)
    lots = tuple(Lot(**one) for one in written.lots(wanted.target))
    return Extracted(
        transactional_id=wanted.transactional_id,
        producer_ids=tuple(producer_ids),
        directory=str(wanted.target),
        files=sum(1 for _ in wanted.target.rglob("*.parquet")),
        records=sum(lot.records for lot in lots),
        transactions=lots,
    )
