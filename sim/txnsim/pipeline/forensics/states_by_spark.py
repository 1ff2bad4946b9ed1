"""How replicas were left (``replica_state``), looked at on Spark's workers: for directories in a
store, where each small file is a request and their latencies add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.pipeline.forensics.replica_state import ReplicaState, notes_of, state_or_none
from txnsim.pipeline.hadoop.mirror import fill
from txnsim.pipeline.scan.segments import Replica
from txnsim.pipeline.tasks import arrow_schema, on_workers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

REPLICAS_PER_TASK: Final = 32
"""About a second's work where a request takes 10 ms."""
COLUMNS: Final = "data binary"


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What one task looks at: replicas of one log directory."""

    replicas: tuple[Replica, ...]
    use_snapshots: bool


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What one task saw."""

    states: tuple[ReplicaState, ...]
    problems: tuple[str, ...]
    written_ms: tuple[tuple[str, int], ...]
    """(file, when it was last written) of the directory's notes."""


def looked_at(
    spark: SparkSession, replicas: Sequence[Replica], *, use_snapshots: bool
) -> list[Looked]:
    """What the small files of replicas say, in the order of the replicas.

    Args:
        spark: The session.
        replicas: Which.
        use_snapshots: Without, every segment is left to read.
    """
    looks = list(_looks(replicas, use_snapshots=use_snapshots))
    read = on_workers(spark, looks, Look, _look, COLUMNS)
    found = [msgspec.msgpack.decode(row.data, type=Looked) for row in read.collect()]
    order = {replica.path: number for number, replica in enumerate(replicas)}
    return sorted(
        found, key=lambda one: min((order[state.replica.path] for state in one.states), default=-1)
    )


def _looks(replicas: Sequence[Replica], *, use_snapshots: bool) -> Iterator[Look]:
    by_log_dir: dict[str, list[Replica]] = {}
    for replica in replicas:
        by_log_dir.setdefault(replica.log_dir, []).append(replica)
    for many in by_log_dir.values():
        for at in range(0, len(many), REPLICAS_PER_TASK):
            yield Look(
                replicas=tuple(many[at : at + REPLICAS_PER_TASK]), use_snapshots=use_snapshots
            )


def _look(look: Look) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    problems: list[str] = []
    log_dir = look.replicas[0].log_dir
    fill([Path(log_dir), *(Path(replica.path) for replica in look.replicas)])
    notes = notes_of(Path(log_dir), problems.append)
    states: list[ReplicaState] = []
    for replica in look.replicas:
        state = state_or_none(replica, notes, problems.append, use_snapshots=look.use_snapshots)
        states += [] if state is None else [state]
    looked = Looked(
        states=tuple(states),
        problems=tuple(problems),
        written_ms=notes.written_ms,
    )
    row = {"data": msgspec.msgpack.encode(looked)}
    yield pa.RecordBatch.from_pylist([row], schema=arrow_schema(COLUMNS))
