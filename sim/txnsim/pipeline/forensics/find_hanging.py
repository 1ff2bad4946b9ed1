"""``logs find-hanging``: from the directories of stopped brokers to a report.

1. The driver looks at every replica's small files (``replica_state``). Where brokers stopped in
   order that is all: snapshots name the open transactions, and no Spark is started.
2. What is left to read, and the coordinators' logs, is read here where it is little, by Spark
   where it is much.
3. Open transactions are laid side by side over the replicas of a partition, and judged
   (``verdicts``).

Kafka's counterpart: TransactionsCommand.FindHangingTransactionsCommand, which asks living brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS
from txnsim.pipeline.forensics.coordinator_entries import Coordinators
from txnsim.pipeline.forensics.coordinator_log import logs_of, read_coordinators
from txnsim.pipeline.forensics.findings import (
    BOOTSTRAP,
    Finding,
    PartitionFigures,
    Question,
    Report,
    Source,
    figures_of,
    finding_of,
    owed_by,
)
from txnsim.pipeline.forensics.open_transactions import Fragment, folded, open_after
from txnsim.pipeline.forensics.replica_state import ReplicaState, notes_of, state_of
from txnsim.pipeline.forensics.verdicts import OpenTxn, ReplicaEnds, leading, spread_of
from txnsim.pipeline.scan.log_seek import batch_at, marked_producers
from txnsim.pipeline.scan.segments import Replica, replicas_in
from txnsim.storage.log_file import TornTail, read_log_file
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_BYTES_MAX: Final = 16 << 20
"""So much of segments is read here; more is Spark's, which takes longer to start than that."""
COORDINATOR_BYTES_MAX: Final = 64 << 20
"""So much of coordinators' logs: half a million records. Records have to be decoded one by one,
here or there, and on a few cores Spark gains nothing by that.
"""


NOT_JUDGED: Final = frozenset({TRANSACTION_STATE_TOPIC, "__cluster_metadata"})
"""Logs that no producer writes to: the coordinators' and the controllers'."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at, and how."""

    paths: tuple[Path, ...]
    """Log directories of brokers, folders of such directories, or replicas' own folders."""
    topics: frozenset[str] = frozenset()
    """Only these; all where empty. The coordinators' logs are read in any case."""
    as_of_ms: int | None = None
    """When it was; None: the newest time that the directories tell."""
    max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS
    bootstrap: str = BOOTSTRAP
    use_snapshots: bool = True
    """Without, everything is read, whatever brokers had noted."""
    with_spark: bool = False
    """Also what is little."""


NewSession = Callable[[], "SparkSession"]
"""Starts Spark, where it is needed."""
Progress = Callable[[str], object]
CoordinatorLogs = Mapping[int, Sequence[ReplicaState]]
"""Partition of ``__transaction_state`` -> its replicas, the one whose word counts first."""


def find_hanging(search: Search, *, new_session: NewSession, progress: Progress) -> Report:
    """Look, and judge.

    Args:
        search: What to look at.
        new_session: Called at most once, and only where there is much to read.
        progress: Told what is done now.

    Raises:
        BadInputError: A path is no directory, or there is nothing of Kafka's in it.
        MissingExtraError: Spark is needed and not installed.
        OSError: A file can't be read.
    """
    reading = _Reading(search, new_session, progress)
    states = reading.states()
    logs = logs_of(states)
    with ThreadPoolExecutor(1) as beside:  # Spark's workers are processes of their own
        here = beside.submit(reading.coordinators_here, logs)
        opened = reading.opened([one for one in states if one.replica.topic not in NOT_JUDGED])
        coordinators = here.result()
    if coordinators is None:
        producer_ids = {producer_id for found in opened.values() for producer_id in found}
        coordinators = reading.coordinators_by_spark(logs, producer_ids)
    question = Question(
        as_of_ms=reading.as_of_ms(states, coordinators),
        max_transaction_timeout_ms=search.max_transaction_timeout_ms,
        bootstrap=search.bootstrap,
    )
    progress("comparing replicas")
    findings, figures = _judged(states, opened, coordinators, question, reading.damaged)
    return Report(
        as_of_ms=question.as_of_ms,
        max_transaction_timeout_ms=question.max_transaction_timeout_ms,
        findings=findings,
        partitions=figures,
        owed=owed_by(coordinators, findings),
        source=reading.source(states, coordinators),
    )


Opened = Mapping[str, Mapping[int, OpenTxn]]
"""Path of a replica -> producer id -> what it has open."""


class _Reading:
    """What is read of the directories, here or by Spark."""

    def __init__(self, search: Search, new_session: NewSession, progress: Progress) -> None:
        self._search = search
        self._new_session = new_session
        self._progress = progress
        self._session: SparkSession | None = None
        self._problems: dict[str, None] = {}
        """Told by two threads, so in no order."""
        self._cut_off: list[str] = []
        self.damaged: dict[str, str] = {}
        """Path of a replica that could not be read to its end -> why."""
        self._newest_ms = -1

    def states(self) -> tuple[ReplicaState, ...]:
        """Every replica, as far as its small files tell."""
        topics = self._search.topics
        wanted = topics | {TRANSACTION_STATE_TOPIC} if topics else topics
        # Absolute, as the data source tells them: its workers have folders of their own.
        replicas = replicas_in([path.absolute() for path in self._search.paths], wanted)
        notes = {log_dir: notes_of(Path(log_dir), self._problem) for log_dir in _log_dirs(replicas)}
        self._newest_ms = max((one.newest_ms for one in notes.values()), default=-1)
        found = []
        for number, replica in enumerate(replicas, 1):
            if not number % _TOLD_EVERY:
                self._progress(f"looked at {number} of {len(replicas)} replicas")
            found.append(
                state_of(
                    replica,
                    notes[replica.log_dir],
                    self._problem,
                    use_snapshots=self._search.use_snapshots,
                )
            )
        return tuple(found)

    def opened(self, states: Sequence[ReplicaState]) -> Opened:
        """What each replica has open at its end; those without anything are left out."""
        unread = [state for state in states if state.unread]
        found = {
            state.replica.path: open_after(state.seeds, ()) for state in states if not state.unread
        }
        size = sum(state.unread_bytes for state in unread)
        if self._is_much(size, DRIVER_BYTES_MAX):
            session = self._spark()  # first: it says what is missing, where the extra is
            from txnsim.pipeline.forensics.open_transactions_sql import Damage, open_transactions

            self._progress(f"Spark reads {len(unread)} replicas")
            for row in open_transactions(session, unread):
                match row:
                    case Damage():
                        self._damage(row.replica, row.told, is_cut=row.is_cut)
                    case replica, txn:
                        found.setdefault(replica.path, {})[txn.producer_id] = txn
        else:
            for number, state in enumerate(unread, 1):
                self._progress(f"reading replica {number} of {len(unread)}: {state.replica.path}")
                found[state.replica.path] = self._opened_here(state)
        return {path: txns for path, txns in found.items() if txns}

    def coordinators_here(self, logs: CoordinatorLogs) -> Coordinators | None:
        """What coordinators had written down; None where that is too much to be read here."""
        size = _size_of(logs)
        if self._is_much(size, COORDINATOR_BYTES_MAX):
            return None
        self._progress(f"reading __transaction_state, {size} bytes")
        return read_coordinators(logs, self._problem)

    def coordinators_by_spark(self, logs: CoordinatorLogs, producer_ids: Set[int]) -> Coordinators:
        """What they had written down of some producers."""
        session = self._spark()
        from txnsim.pipeline.forensics import coordinator_log_sql

        self._progress(f"Spark reads __transaction_state, {_size_of(logs)} bytes")
        return coordinator_log_sql.read_coordinators(session, logs, producer_ids, self._problem)

    def as_of_ms(self, states: Sequence[ReplicaState], coordinators: Coordinators) -> int:
        """The time that ages are counted to: what was asked for, or the newest that the files tell.
        Records' own times are no part of it: producers make them up.
        """
        if self._search.as_of_ms is not None:
            return self._search.as_of_ms
        written_ms = max((state.newest_ms for state in states), default=-1)
        return max(self._newest_ms, written_ms, coordinators.newest_timestamp_ms)

    def source(self, states: Sequence[ReplicaState], coordinators: Coordinators) -> Source:
        """What was read, and how."""
        data = [one for one in states if one.replica.topic not in NOT_JUDGED]
        unread = [one for one in data if one.unread]
        return Source(
            directories=tuple(_log_dirs(state.replica for state in states)),
            replicas=len(data),
            from_snapshots=len(data) - len(unread),
            scanned=len(unread),
            scanned_bytes=sum(one.unread_bytes for one in unread),
            with_spark=self._session is not None,
            transaction_log_partitions=coordinators.partitions,
            transaction_log_gap=coordinators.gap,
            cut_off=tuple(self._cut_off),
            problems=tuple(sorted(self._problems)),
        )

    def _opened_here(self, state: ReplicaState) -> dict[int, OpenTxn]:
        pieces: list[Mapping[int, Fragment]] = []
        for segment in state.unread:
            torn: list[TornTail] = []
            read = read_log_file(
                Path(segment.path), on_torn=torn.append, check_crc=segment.is_recovered
            )
            pieces.append(folded(read))
            if torn:
                told = f"{segment.path}, byte {torn[0].position}: {torn[0].reason}"
                self._damage(state.replica, told, is_cut=segment.is_recovered)
                if segment.is_recovered:
                    break
        return open_after(state.seeds, pieces)

    def _damage(self, replica: Replica, told: str, *, is_cut: bool) -> None:
        if is_cut:
            self._cut_off.append(told)
        else:
            self._problem(told)
            self.damaged.setdefault(replica.path, told)

    def _is_much(self, size: int, most: int) -> bool:
        return size > 0 and (self._search.with_spark or size > most)

    def _spark(self) -> SparkSession:
        if self._session is None:
            self._progress("starting Spark")
            self._session = self._new_session()
        return self._session

    def _problem(self, told: str) -> None:
        self._problems.setdefault(told)


_TOLD_EVERY: Final = 100
"""Replicas between two lines of progress."""


def _size_of(logs: CoordinatorLogs) -> int:
    return sum(segment.size for ranked in logs.values() for segment in ranked[0].segments)


def _log_dirs(replicas: Iterable[Replica]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(replica.log_dir for replica in replicas))


# Judging


def _judged(
    states: Sequence[ReplicaState],
    opened: Opened,
    coordinators: Coordinators,
    question: Question,
    damaged: Mapping[str, str],
) -> tuple[tuple[Finding, ...], tuple[PartitionFigures, ...]]:
    """Every open transaction, and how its partition stood."""
    by_partition: dict[TopicPartition, list[ReplicaState]] = {}
    for state in states:
        by_partition.setdefault(state.replica.topic_partition, []).append(state)
    markers = _Markers(states)
    findings: list[Finding] = []
    figures: list[PartitionFigures] = []
    for partition, replicas in sorted(by_partition.items()):
        told = {
            one.replica.path: _dated(one, opened[one.replica.path])
            for one in replicas
            if one.replica.path in opened
        }
        ends = [one.ends for one in replicas]
        for producer_id in sorted({one for txns in told.values() for one in txns}):
            opens = {path: txns[producer_id] for path, txns in told.items() if producer_id in txns}
            spread = spread_of(ends, opens, markers.has_marker)
            if spread is not None:
                damage = damaged.get(spread.counts.replica.path, "")
                findings.append(
                    finding_of(spread, partition, coordinators, question, damage=damage)
                )
        counts = leading(ends)
        mine = told.get(counts.replica.path)
        if mine is not None:
            figures.append(figures_of(counts, tuple(mine.values()), question))
    findings.sort(key=lambda one: (one.last_timestamp_ms, one.topic_partition))
    return tuple(findings), tuple(figures)


def _dated(state: ReplicaState, txns: Mapping[int, OpenTxn]) -> dict[int, OpenTxn]:
    """With the time of the first batch, which snapshots don't tell."""
    return {
        producer_id: txn if txn.start_timestamp_ms is not None else _with_start(state, txn)
        for producer_id, txn in txns.items()
    }


def _with_start(state: ReplicaState, txn: OpenTxn) -> OpenTxn:
    for segment in reversed(state.segments):
        if segment.base_offset <= txn.start_offset:
            batch = batch_at(segment, txn.start_offset)
            started_ms = None if batch is None else batch.max_timestamp_ms
            return msgspec.structs.replace(txn, start_timestamp_ms=started_ms)
    return txn


class _Markers:
    """Markers behind an offset, read where somebody asks, once."""

    def __init__(self, states: Iterable[ReplicaState]) -> None:
        self._states = {state.replica.path: state for state in states}
        self._found: dict[tuple[str, int], frozenset[int]] = {}

    def has_marker(self, ends: ReplicaEnds, offset: int, producer_id: int) -> bool:
        """Whether there is one of this producer."""
        key = ends.replica.path, offset
        if key not in self._found:
            self._found[key] = frozenset(self._producers(*key))
        return producer_id in self._found[key]

    def _producers(self, path: str, offset: int) -> Iterator[int]:
        segments = self._states[path].segments
        for number, segment in enumerate(segments, 1):
            if number == len(segments) or segments[number].base_offset > offset:
                yield from marked_producers(segment, offset)
