"""``logs find-hanging``: reads the directories of stopped brokers and writes a report. 1. The
driver reads every replica's small files (``replica_state``). If the brokers stopped in order, this
is enough: snapshots name the open transactions, and Spark is not started. 2. The unread segments,
and the coordinators' logs, are read by an ``engine``. 3. The open transactions of all replicas of a
partition are compared, and judged (``verdicts``).

Kafka's counterpart: TransactionsCommand.FindHangingTransactionsCommand, which asks living brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS
from txnsim.storage.regular_file import MOUNTS
from txnsim.text import time_text
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim_spark.engine import Engine, EngineKind, NewSession, Progress, cost_of
from txnsim_spark.forensics._coordinator_entries import Coordinators
from txnsim_spark.forensics._coordinator_log import (
    ReplayedLog,
    coordinator_logs_of,
    read_coordinators,
    replay_log,
)
from txnsim_spark.forensics._evidence import ReplicaBasis, lost_ends
from txnsim_spark.forensics._metadata_copies import (
    KnownTopics,
    complete_coordinators,
    known_topics_in,
)
from txnsim_spark.forensics._open_transactions import open_transactions_after
from txnsim_spark.forensics._partition_markers import marker_reader_of
from txnsim_spark.forensics._read_notes import NOTHING_READ, ReadNotes, damage_met_again
from txnsim_spark.forensics._search_memory import Memory
from txnsim_spark.forensics._start_batch import StartBatchLookups
from txnsim_spark.forensics.findings import (
    BOOTSTRAP,
    NEVER,
    Finding,
    PartitionFigures,
    Report,
    SearchConditions,
    Source,
    figures_of,
    finding_of,
    owed_by,
)
from txnsim_spark.forensics.identity import Identities, identify_replicas
from txnsim_spark.forensics.replica_state import ReplicaState, state_of
from txnsim_spark.forensics.verdicts import (
    OpenTxn,
    ReplicaEnds,
    TxnSpread,
    elected_replica,
    spread_of,
)
from txnsim_spark.libraries import require_libraries
from txnsim_spark.scan.log_dirs import LogDirectory, OnProblem, ignore_problem
from txnsim_spark.scan.log_seek import markers_in
from txnsim_spark.scan.segments import (
    Replica,
    SegmentFile,
    absent_replicas,
    group_by_topic_id,
    log_dirs_in,
    refuse_logs_of_two_clusters,
    replicas_in,
    unserved_folders,
)
from txnsim_spark.stores.mirror import overlapping_map

if TYPE_CHECKING:
    from txnsim_spark.forensics._read_compiled import CoordinatorLogRead, ReplicaRead

NOT_JUDGED: Final = frozenset({TRANSACTION_STATE_TOPIC, "__cluster_metadata"})
"""Internal topics to which no producer writes: the coordinators' and the controllers'."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The scope and the options of a search."""

    paths: tuple[Path, ...]
    """Log directories of brokers, folders of such directories, or replicas' own folders."""
    topics: frozenset[str] = frozenset()
    """Topics to search; empty for all. The coordinators' logs are read in any case."""
    as_of_ms: int | None = None
    """Time from which ages are counted; None for the newest time in the directories."""
    max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS
    now_ms: int = NEVER
    """This machine's clock: a file with a later time is named, and its time is not used."""
    bootstrap: str = BOOTSTRAP
    accepts_damage: bool = False
    """Whether repair commands are printed even if the evidence is not sound."""
    uses_snapshots: bool = True
    """Whether snapshots are used; otherwise everything is read."""
    with_spark: bool = False
    """Use Spark also for small jobs."""
    memory_file: Path | None = None
    """File with the results of the previous search; updated by this one."""
    never_spark: bool = False
    """Read everything in this process, however much it is."""

    @property
    def latest_ms(self) -> int:
        """The latest time that is believed: this machine's clock, or the time asked for."""
        return max(self.now_ms, self.as_of_ms or 0)


CoordinatorLogs = Mapping[int, Sequence[ReplicaState]]
"""Partition of ``__transaction_state`` -> its replicas, the most trustworthy first."""


def find_hanging(
    search: Search,
    *,
    new_session: NewSession | None = None,
    progress: Progress = ignore_problem,
    directory_reader: DirectoryReader | None = None,
) -> Report:
    """Search for hanging transactions, and judge each open one.

    Args:
        search: The scope and the options.
        new_session: Called at most once, and only if there is much to read and the search may use
            Spark.
        progress: Called with a line about the present activity.
        directory_reader: Reads the replicas; from the directories unless given.

    Raises:
        MissingExtraError: Spark is needed and not installed.
    """
    directory_reader = directory_reader or DirectoryReader(search, new_session, progress)
    replica_states = directory_reader.living_states()
    ranked_states_by_partition = directory_reader.coordinators_logs(replica_states)
    judged_states = [state for state in replica_states if state.replica.topic not in NOT_JUDGED]
    open_txns_by_replica = directory_reader.open_transactions(judged_states)
    producer_ids = {producer_id for txns in open_txns_by_replica.values() for producer_id in txns}
    coordinators = directory_reader.coordinators(ranked_states_by_partition, producer_ids)
    brokers_by_partition = {
        partition: _brokers_of(ranked_states)
        for partition, ranked_states in ranked_states_by_partition.items()
    }
    coordinators = complete_coordinators(
        coordinators, directory_reader.found_topics.assignments, brokers_by_partition
    )
    replica_states = directory_reader.cut_states(replica_states)
    conditions = SearchConditions(
        as_of_ms=directory_reader.as_of_ms(replica_states, coordinators),
        max_transaction_timeout_ms=search.max_transaction_timeout_ms,
        now_ms=search.latest_ms,
        bootstrap=search.bootstrap,
        accepts_damage=search.accepts_damage,
    )
    directory_reader.write_memory()
    progress("comparing replicas")
    findings, partition_figures = _judge_open_transactions(
        replica_states, open_txns_by_replica, coordinators, conditions, directory_reader
    )
    return Report(
        as_of_ms=conditions.as_of_ms,
        max_transaction_timeout_ms=conditions.max_transaction_timeout_ms,
        accepts_damage=conditions.accepts_damage,
        findings=findings,
        partitions=partition_figures,
        owed=owed_by(coordinators, findings),
        source=directory_reader.source(replica_states, coordinators),
    )


OpenByReplica = Mapping[str, Mapping[int, OpenTxn]]
"""Path of a replica -> producer id -> its open transaction."""


class DirectoryReader:
    """Reads the directories, in this process or by Spark."""

    def __init__(
        self,
        search: Search,
        new_session: NewSession | None = None,
        progress: Progress = ignore_problem,
    ) -> None:
        self._search = search
        self._progress = progress
        self._engine = Engine(
            new_session, progress, with_spark=search.with_spark, is_alone=search.never_spark
        )
        self._problems: dict[str, None] = {}
        """Problems reported by two threads, so in no particular order."""
        self._notes_by_replica: dict[str, ReadNotes] = {}
        """Path of a replica that was read -> notes on it."""
        self._log_read_by_path: Mapping[str, CoordinatorLogRead] = {}
        """Path of a replica of ``__transaction_state`` that workers have read -> its log."""
        self._future_ms_by_source: dict[str, int] = {}
        """File -> its time, where that is later than this machine's clock."""
        self._log_dirs: tuple[str, ...] = ()
        self._newest_file_ms = -1
        self._segments_by_path: Mapping[str, Sequence[SegmentFile]] = {}
        self._marker_producers_by_partition: dict[tuple[str, int], frozenset[int]] = {}
        """(path of a replica, offset) -> producers with markers at or after it, for the offsets
        that were requested.
        """
        self._memory = None if search.memory_file is None else Memory(search.memory_file)
        self.found_topics = KnownTopics()
        """Topics that exist, by the metadata log."""
        self._identities = Identities()
        self._unserved: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(sorted([*self._problems, *self._future_time_problems()]))

    def _future_time_problems(self) -> Iterator[str]:
        """One line for all files with a time in the future: if a cluster's clock was advanced, all
        files have such times.
        """
        if not self._future_ms_by_source:
            return
        newest_file, newest_ms = max(
            self._future_ms_by_source.items(),
            key=lambda file_and_time: (file_and_time[1], file_and_time[0]),
        )
        newest_text = time_text(newest_ms + 999)  # --as-of knows whole seconds
        other_file_count, others_text, pronoun = len(self._future_ms_by_source) - 1, "", "it"
        if other_file_count:
            others_text = (
                f", and neither are those of {other_file_count} other file"
                f"{'s' * (other_file_count > 1)}"
            )
            pronoun = "them"
        yield (
            f"{newest_file}: a time in the future, {newest_text}; not used{others_text}: --as-of"
            f" {newest_text} takes {pronoun}"
        )

    def states(self) -> tuple[ReplicaState, ...]:
        """The state of every replica, by its small files."""
        topics = self._search.topics
        topics_and_state_topic = topics | {TRANSACTION_STATE_TOPIC} if topics else topics
        # Absolute, as in the data source: workers run in other folders.
        paths = [path.absolute() for path in self._search.paths]
        replicas = replicas_in(paths, topics_and_state_topic, self._report_problem)
        for checkpoint_file, reason in absent_replicas(paths, topics_and_state_topic):
            self._report_problem(f"{checkpoint_file}: {reason}")
        self._unserved = tuple(unserved_folders(paths, topics_and_state_topic))
        self._log_dirs = _log_dirs(replicas)
        refuse_logs_of_two_clusters(log_dirs_in(paths))
        replica_states = self._read_states(replicas)
        self._segments_by_path = {state.replica.path: state.segments for state in replica_states}
        return tuple(replica_states)

    def living_states(self) -> tuple[ReplicaState, ...]:
        """The states of replicas whose topic exists; stale ones are named in ``source``."""
        replica_states = self.states()
        self.found_topics = self.known_topics()
        identities = identify_replicas(
            ((state.replica, state.topic_id) for state in replica_states), self.found_topics
        )
        self._identities = identities
        living_states = tuple(
            state for state in replica_states if not identities.is_stale(state.replica)
        )
        for problem in identities.unjudged_partitions(state.replica for state in living_states):
            self._report_problem(problem)
        return living_states

    def coordinators_logs(self, replica_states: Sequence[ReplicaState]) -> CoordinatorLogs:
        """The replicas of ``__transaction_state``; none where the files do not tell which replicas
        exist.
        """
        doubt_sentences = self.undecided_reasons(TRANSACTION_STATE_TOPIC)
        for doubt_sentence in doubt_sentences:
            self._report_problem(doubt_sentence)
        return {} if doubt_sentences else coordinator_logs_of(replica_states)

    def undecided_reasons(self, topic: str) -> tuple[str, ...]:
        """Sentences on why the present topic of this name is unknown; empty if it is known."""
        undecided = self._identities.undecided_reason_by_topic
        return tuple(undecided[topic_name] for topic_name in [topic] if topic_name in undecided)

    def _read_states(self, replicas: Sequence[Replica]) -> list[ReplicaState]:
        directory_by_path = {
            log_dir: LogDirectory.read(Path(log_dir), self._report_problem)
            for log_dir in self._log_dirs
        }
        for directory in directory_by_path.values():
            for file, written_ms in directory.written_ms:
                self._take_file_time(file, written_ms)

        def read_state(replica: Replica) -> ReplicaState | None:
            try:
                state = state_of(
                    replica,
                    directory_by_path[replica.log_dir],
                    self._report_problem,
                    uses_snapshots=self._search.uses_snapshots,
                )
            except OSError as error:
                self._report_problem(f"{replica.path}: {error.strerror or error}; passed by")
                return None
            if self._memory is None or not state.unread_segments:
                return state
            return self._memory.with_memory(state)

        replica_states = []
        with overlapping_map(self._log_dirs) as map_in_order:
            for replica_number, state in enumerate(map_in_order(read_state, replicas), 1):
                if not replica_number % _PROGRESS_EVERY:
                    self._progress(f"looked at {replica_number} of {len(replicas)} replicas")
                if state is not None:
                    replica_states.append(state)
        return replica_states

    def _take_file_time(self, file: str, written_ms: int) -> None:
        self._newest_file_ms = max(self._newest_file_ms, self._believed_time(written_ms, file))

    def open_transactions(self, replica_states: Sequence[ReplicaState]) -> OpenByReplica:
        """Replica path -> transactions open at its end; replicas without any are omitted."""
        unread_states = [state for state in replica_states if state.unread_segments]
        txns_by_replica = {
            state.replica.path: open_transactions_after(state.seed_by_producer, ())
            for state in replica_states
            if not state.unread_segments
        }
        reads_by_replica = self._read_logs(unread_states)
        for state in unread_states:
            path = state.replica.path
            txns_by_replica[path] = dict(reads_by_replica[path].open_txn_by_producer)
            notes = self._notes_by_replica[path] = reads_by_replica[path].notes
            if self._memory is not None:
                self._memory.take(state, reads_by_replica[path])
            for problem in damage_met_again(state.damage, notes):
                self._problems.pop(problem, None)
            for problem in notes.damage:
                self._report_problem(problem)
        return {path: txns for path, txns in txns_by_replica.items() if txns}

    def _read_logs(self, unread_states: Sequence[ReplicaState]) -> Mapping[str, ReplicaRead]:
        """Path of a replica -> what was read of its log."""
        if not unread_states:
            return {}
        require_libraries()
        from txnsim_spark.forensics import _read_compiled as compiled

        engine_kind = self._engine.kind_for(
            cost_of(
                segment_part.unread_bytes
                for state in unread_states
                for segment_part in state.unread_parts
            )
        )
        reads_by_replica = self._engine.results_of(
            compiled.replica_job(unread_states, core_count=self._engine.core_count(engine_kind)),
            engine_kind,
        )
        state_by_path_without_result = {
            replica_state.replica.path: replica_state
            for replica_state in unread_states
            if replica_state.replica.path not in reads_by_replica
        }
        reads_by_replica |= {
            path: compiled.replica_read_of(state, ())
            for path, state in state_by_path_without_result.items()
        }
        return {
            replica_state.replica.path: compiled.with_coordinator_epochs(
                reads_by_replica[replica_state.replica.path], replica_state
            )
            for replica_state in unread_states
        }

    def write_memory(self) -> None:
        if self._memory is not None:
            self._memory.write()

    def cut_states(self, replica_states: Sequence[ReplicaState]) -> tuple[ReplicaState, ...]:
        """The replicas' states after a start of their brokers, which may cut off their ends."""
        return tuple(self._cut_off_end(state) for state in replica_states)

    def _cut_off_end(self, state: ReplicaState) -> ReplicaState:
        cut_off = self.notes_on(state).cut_off
        if cut_off is None or cut_off.offset >= state.ends.end_offset:
            return state
        ends = msgspec.structs.replace(state.ends, end_offset=cut_off.offset)
        return msgspec.structs.replace(state, ends=ends)

    def notes_on(self, state: ReplicaState) -> ReadNotes:
        return self._notes_by_replica.get(state.replica.path, NOTHING_READ)

    def coordinators(
        self, ranked_by_partition: CoordinatorLogs, producer_ids: Set[int]
    ) -> Coordinators:
        """The coordinators' logs, restricted to some producers."""
        best_replicas = [ranked[0] for ranked in ranked_by_partition.values()]
        sizes = [segment.size for state in best_replicas for segment in state.segments]
        self._progress(f"reading __transaction_state, {sum(sizes)} bytes")
        engine_kind = self._engine.kind_for(cost_of(sizes, is_decoded=True))
        if engine_kind is not EngineKind.HERE:
            from txnsim_spark.forensics._read_compiled import log_job

            self._log_read_by_path = self._engine.results_of(
                log_job(best_replicas, producer_ids), engine_kind
            )
        return read_coordinators(ranked_by_partition, self._report_problem, self._replay_log)

    def _replay_log(self, state: ReplicaState, on_problem: OnProblem) -> ReplayedLog:
        log_read = self._log_read_by_path.get(state.replica.path)
        if log_read is None:
            return replay_log(state, on_problem)
        for problem in log_read.problems:
            on_problem(problem)
        return log_read.replayed

    def as_of_ms(self, replica_states: Sequence[ReplicaState], coordinators: Coordinators) -> int:
        """The time from which ages are counted: the requested one, or the newest time of the files.
        Times of records are not used, since producers choose them.
        """
        if self._search.as_of_ms is not None:
            return self._search.as_of_ms
        segment_times_ms = [
            self._believed_time(state.newest_ms, state.replica.path) for state in replica_states
        ]
        newest_record_ms = self._believed_time(
            coordinators.newest_timestamp_ms, TRANSACTION_STATE_TOPIC
        )
        newest_known_ms = max([self._newest_file_ms, newest_record_ms, *segment_times_ms])
        return (
            newest_known_ms
            if newest_known_ms >= 0 or self._search.now_ms == NEVER
            else self._search.now_ms
        )

    def _believed_time(self, time_ms: int, time_source: str) -> int:
        """A time; -1 where it is later than this machine's clock, which is reported."""
        if time_ms <= self._search.latest_ms:
            return time_ms
        self._future_ms_by_source[time_source] = time_ms
        return -1

    def known_topics(self) -> KnownTopics:
        """The topics that the copies of the metadata log name."""
        paths = [path.absolute() for path in self._search.paths]
        return known_topics_in(log_dirs_in(paths), self._report_problem)

    def has_marker(self, ends: ReplicaEnds, offset: int, producer_id: int) -> bool:
        path_and_offset = ends.replica.path, offset
        if path_and_offset not in self._marker_producers_by_partition:
            self._marker_producers_by_partition[path_and_offset] = frozenset(
                self._markers_behind(*path_and_offset)
            )
        return producer_id in self._marker_producers_by_partition[path_and_offset]

    def _markers_behind(self, path: str, offset: int) -> Iterator[int]:
        """Producers with a marker at or after an offset of a replica."""
        segments = self._segments_by_path[path]
        segments_after = [
            segment
            for segment, next_segment in zip_longest(segments, segments[1:])
            if next_segment is None or next_segment.base_offset > offset
        ]
        MOUNTS.expect([segment.path for segment in segments_after])
        for segment in segments_after:
            with suppress(OSError):  # reported where the replica was looked at
                yield from (producer_id for producer_id, _ in markers_in(segment, offset))

    def basis_of(
        self,
        txn_spread: TxnSpread,
        replicas: Sequence[ReplicaState],
        lookups_by_path: Mapping[str, StartBatchLookups],
    ) -> ReplicaBasis:
        """The facts about the replica on which the verdict on a transaction is based.

        Args:
            txn_spread: The replicas that have it open.
            replicas: All replicas of the topic in the directories.
            lookups_by_path: Path of a replica -> lookups of its open transactions.
        """
        holding_replica = (
            txn_spread.deciding_replica
            if txn_spread.is_open_on_deciding
            else elected_replica(txn_spread.open_on)
        )
        state = next(state for state in replicas if state.replica == holding_replica.replica)
        notes = self.notes_on(state)
        txn = txn_spread.transaction
        own_lookups = lookups_by_path[state.replica.path]
        topic_partition = holding_replica.replica.topic_partition
        undecided_reason = self._identities.undecided_reason_by_topic.get(topic_partition.topic, "")
        return ReplicaBasis(
            state=state,
            notes=notes,
            gaps=own_lookups.gaps_behind(notes, txn.start_offset),
            start_batch=own_lookups.start_batch_of(txn),
            brokers_seen=tuple(sorted(state.replica.broker for state in replicas)),
            assignment=None
            if undecided_reason
            else self.found_topics.assignments.get(topic_partition),
            undecided=undecided_reason,
        )

    def source(self, replica_states: Sequence[ReplicaState], coordinators: Coordinators) -> Source:
        """The amount of data read, and the way of reading."""
        judged_states = [state for state in replica_states if state.replica.topic not in NOT_JUDGED]
        read_byte_counts = [
            byte_count
            for state in judged_states
            if (byte_count := self._bytes_read(state)) is not None
        ]
        cut_offs = (self.notes_on(state).cut_off for state in judged_states)
        return Source(
            directories=_log_dirs(state.replica for state in replica_states),
            replicas=len(judged_states),
            from_snapshots=len(judged_states) - len(read_byte_counts),
            scanned=len(read_byte_counts),
            scanned_bytes=sum(read_byte_counts),
            with_spark=self._engine.has_used_spark,
            transaction_log_partitions=coordinators.partition_count,
            transaction_log_gap=coordinators.gap_text,
            cut_off=(
                *(cut_off.text for cut_off in cut_offs if cut_off),
                *coordinators.cut_off_by_partition.values(),
            ),
            problems=tuple(
                sorted(
                    {
                        *self.problems,
                        *_lost_end_sentences(judged_states),
                        *self._unreadable_replicas(judged_states),
                    }
                )
            ),
            stale=self._identities.stale,
            unserved=self._unserved,
        )

    def _unreadable_replicas(self, replica_states: Iterable[ReplicaState]) -> Iterator[str]:
        """Replicas of which nothing can be read, although their segments are not empty; they may
        have open transactions that were not found.
        """
        for state in replica_states:
            cut_off, segments = self.notes_on(state).cut_off, state.segments
            if (
                cut_off is not None
                and cut_off.position == 0
                and cut_off.offset <= segments[0].base_offset
            ):
                yield f"{cut_off.file}: nothing of this log can be read, so nothing is known of it"

    def _bytes_read(self, state: ReplicaState) -> int | None:
        """Bytes read of a replica; None if its snapshot was enough."""
        return state.unread_bytes if state.unread_segments else None

    def _report_problem(self, problem: str) -> None:
        self._problems.setdefault(problem)


_PROGRESS_EVERY: Final = 100
"""Number of replicas between two lines of progress."""


def _brokers_of(replica_states: Iterable[ReplicaState]) -> frozenset[int]:
    return frozenset(state.replica.broker for state in replica_states)


def _log_dirs(replicas: Iterable[Replica]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(replica.log_dir for replica in replicas))


# Judging


def _judge_open_transactions(
    replica_states: Sequence[ReplicaState],
    open_txns_by_replica: OpenByReplica,
    coordinators: Coordinators,
    conditions: SearchConditions,
    directory_reader: DirectoryReader,
) -> tuple[tuple[Finding, ...], tuple[PartitionFigures, ...]]:
    """Judge every open transaction, and describe its partition."""
    findings: list[Finding] = []
    partition_figures: list[PartitionFigures] = []
    for partition, replicas in _replicas_by_partition(replica_states):
        lookups_by_path = {
            state.replica.path: StartBatchLookups(state, open_txns_by_replica[state.replica.path])
            for state in replicas
            if state.replica.path in open_txns_by_replica
        }
        txns_by_path = {
            path: lookups_of_replica.dated_transactions()
            for path, lookups_of_replica in lookups_by_path.items()
        }
        replica_ends = [state.ends for state in replicas]
        for producer_id in sorted(
            {producer_id for txns in txns_by_path.values() for producer_id in txns}
        ):
            open_txn_by_path = {
                path: txns[producer_id]
                for path, txns in txns_by_path.items()
                if producer_id in txns
            }
            txn_spread = spread_of(replica_ends, open_txn_by_path, directory_reader.has_marker)
            if txn_spread is not None:
                replica_basis = directory_reader.basis_of(txn_spread, replicas, lookups_by_path)
                markers = marker_reader_of(
                    replica_basis.state.segments,
                    producer_id,
                    before_offset=txn_spread.transaction.start_offset,
                )
                findings.append(
                    finding_of(
                        txn_spread, partition, coordinators, conditions, replica_basis, markers
                    )
                )
        leading_replica = elected_replica(replica_ends)
        open_txns = txns_by_path.get(leading_replica.replica.path)
        if open_txns is not None:
            partition_figures.append(
                figures_of(replica_ends, leading_replica, tuple(open_txns.values()), conditions)
            )
    findings.sort(key=lambda finding: (finding.last_timestamp_ms, finding.topic_partition))
    return tuple(findings), tuple(partition_figures)


def _replicas_by_partition(
    replica_states: Iterable[ReplicaState],
) -> Iterator[tuple[TopicPartition, Sequence[ReplicaState]]]:
    """The replicas of each partition; separate for different topics with the same name."""
    replicas_by_partition: dict[TopicPartition, list[ReplicaState]] = {}
    for state in replica_states:
        replicas_by_partition.setdefault(state.replica.topic_partition, []).append(state)
    for partition, replicas_of_name in sorted(replicas_by_partition.items()):
        for replicas in group_by_topic_id(replicas_of_name, lambda state: state.topic_id):
            yield partition, replicas


def _lost_end_sentences(replica_states: Iterable[ReplicaState]) -> Iterator[str]:
    """Partitions whose leading replica has lost its end. A transaction in the lost part gives no
    finding, so the partition is named.
    """
    for _, replicas in _replicas_by_partition(replica_states):
        leading_ends = elected_replica([state.ends for state in replicas])
        state = next(state for state in replicas if state.ends is leading_ends)
        for lost_end in islice(lost_ends(state), 1):
            yield f"{state.replica.path}: {lost_end}"
