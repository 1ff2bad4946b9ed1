"""``logs extract``: every record that one transactional id wrote, once, with what became of it, as
Parquet. Read in this process: batches of other producers are not unpacked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.files import whole
from txnsim_spark.export import write_topics
from txnsim_spark.targets import refuse_existing

if TYPE_CHECKING:
    import pyarrow as pa

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OPEN: Final = "open"
OUTSIDE: Final = "none"
Place = tuple[str, int]
Owner = tuple[str, str, int, int]
"""Log directory, topic, partition, producer id."""


class Extract(msgspec.Struct, frozen=True, kw_only=True):
    """What to extract, and where."""

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
    """Write the records of a transactional id.

    Of each partition the replica is taken on which the id comes farthest.

    Args:
        wanted: Whose records, from where and where to.

    Raises:
        BadInputError: A path is no directory, there is nothing of Kafka's in it, no coordinator's
            log knows the id, or the target is there already, or can't be written.
    """
    from txnsim_spark.forensics.timeline_reading import producer_ids_here, stay_rows

    refuse_existing(wanted.target, "folder")
    producer_ids = producer_ids_here(wanted.paths, wanted.transactional_id)
    if not producer_ids:
        raise BadInputError(
            f"{wanted.transactional_id}: no coordinator's log in these directories has it; name the"
            " directories of all brokers"
        )
    stays = list(stay_rows(wanted.paths, producer_ids, wanted.topics))
    lots = Lots()
    files = written_to(
        wanted.target, records_of(wanted.paths, wanted.topics, producer_ids, stays), lots
    )
    return Extracted(
        transactional_id=wanted.transactional_id,
        producer_ids=tuple(producer_ids),
        directory=str(wanted.target),
        files=files,
        records=sum(lot.records for lot in lots.taken()),
        transactions=lots.taken(),
    )


def written_to(target: Path, batches: Iterable[pa.RecordBatch], lots: Lots) -> int:
    """Write records (``records_of``) to a folder, which is there when it is whole, and count them;
    how many files it has.
    """
    with whole(target) as part:
        part.mkdir(parents=True)
        write_topics(lots.counted(batches), part)
    return sum(1 for _ in target.rglob("*.parquet"))


def records_of(
    paths: Sequence[Path],
    topics: frozenset[str],
    producer_ids: Sequence[int],
    stays: Sequence[dict[str, Any]],
    *,
    only: Set[str] = frozenset(),
) -> Iterator[pa.RecordBatch]:
    """The records of data, each with its transaction's first offset and outcome.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        topics: Only these; all where empty.
        producer_ids: Whose.
        stays: Their transactions (``timeline_reading.stay_rows``).
        only: Outcomes; all where empty.
    """
    if not producer_ids:
        return
    import pyarrow as pa
    import pyarrow.compute as pc

    from txnsim_spark.log_query import Wanted
    from txnsim_spark.tables.read_here import read_here

    best = farthest(stays)
    by_owner: defaultdict[Owner, list[dict[str, Any]]] = defaultdict(list)
    for stay in stays:
        if stay["first_offset"] is not None:
            by_owner[_owner(stay)].append(stay)
    asked = Wanted(producer_ids=frozenset(producer_ids))
    for batch in read_here("records", paths, topics=topics, wanted=asked):
        data = batch.filter(pc.invert(batch["is_control"]))
        if not data.num_rows:
            continue
        first = data.slice(0, 1).to_pylist()[0]
        place = (first["topic"], first["partition"])
        if best.get(place, first["log_dir"]) != first["log_dir"]:
            continue
        rows = [
            _stay_of(by_owner, first["log_dir"], place, producer_id, offset)
            for producer_id, offset in zip(
                data["producer_id"].to_pylist(), data["offset"].to_pylist(), strict=True
            )
        ]
        starts = [None if one is None else one["first_offset"] for one in rows]
        outcomes = pa.array([_outcome(one) for one in rows], pa.string())
        data = data.append_column("transaction_offset", pa.array(starts, pa.int64()))
        data = data.append_column("outcome", outcomes)
        if only:
            data = data.filter(pc.is_in(outcomes, value_set=pa.array(sorted(only))))
        if data.num_rows:
            yield data


def farthest(stays: Iterable[Mapping[str, Any]]) -> dict[Place, str]:
    """Of each partition the log directory in which these transactions come farthest."""
    best: dict[Place, tuple[int, int, str]] = {}
    for stay in stays:
        place = (stay["topic"], stay["partition"])
        reach = max(stay["last_offset"] or -1, stay["marker_offset"] or -1)
        rank = (reach, -stay["broker"], stay["log_dir"])
        best[place] = max(best.get(place, rank), rank)
    return {place: log_dir for place, (_, _, log_dir) in best.items()}


def _owner(stay: dict[str, Any]) -> Owner:
    return (stay["log_dir"], stay["topic"], stay["partition"], stay["producer_id"])


def _stay_of(
    by_owner: dict[Owner, list[dict[str, Any]]],
    log_dir: str,
    place: Place,
    producer_id: int,
    offset: int,
) -> dict[str, Any] | None:
    """The transaction of a record; None for a record outside transactions."""
    stays = by_owner.get((log_dir, *place, producer_id), [])
    at = bisect_right(stays, offset, key=lambda stay: int(stay["first_offset"])) - 1
    return stays[at] if at >= 0 and offset <= stays[at]["last_offset"] else None


def _outcome(stay: dict[str, Any] | None) -> str:
    if stay is None:
        return OUTSIDE
    return {True: COMMITTED, False: ABORTED, None: OPEN}[stay["committed"]]


class Lots:
    """Records counted by transaction."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[Any, ...], list[int]] = {}
        self._bytes: Counter[tuple[Any, ...]] = Counter()
        self._keys: defaultdict[tuple[Any, ...], set[bytes]] = defaultdict(set)

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, each counted."""
        for batch in batches:
            self.take(batch)
            yield batch

    def take(self, batch: pa.RecordBatch) -> None:
        names = ("topic", "partition", "producer_id", "outcome", "transaction_offset")
        columns = [batch[name].to_pylist() for name in (*names, "offset", "key", "value")]
        for *which, offset, key, value in zip(*columns, strict=True):
            lot = tuple(which)
            known = self._offsets.setdefault(lot, [offset, offset, 0])
            known[0], known[1] = min(known[0], offset), max(known[1], offset)
            known[2] += 1
            self._bytes[lot] += len(key or b"") + len(value or b"")
            if key is not None:
                self._keys[lot].add(key)

    def taken(self) -> tuple[Lot, ...]:
        """By topic, partition and offset."""
        lots = [
            Lot(
                topic=lot[0],
                partition=lot[1],
                producer_id=lot[2],
                outcome=lot[3],
                first_offset=first,
                last_offset=last,
                records=count,
                bytes=self._bytes[lot],
                keys=len(self._keys[lot]),
            )
            for lot, (first, last, count) in self._offsets.items()
        ]
        return tuple(sorted(lots, key=lambda lot: (lot.topic, lot.partition, lot.first_offset)))
