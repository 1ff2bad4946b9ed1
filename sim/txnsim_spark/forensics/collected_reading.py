"""Archives of ``logs collect`` in place of log directories: the functions that judge directories
judge what was read on each broker.

An archive can't answer one question: whether a replica has a marker before the offset at which its
broker began to look for markers. The judge then assumes that the marker is there, which contradicts
nothing, and calls the evidence incomplete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path

import msgspec

from txnsim.errors import BadInputError
from txnsim.types import TRANSACTION_STATE_TOPIC
from txnsim_spark.engine import Progress
from txnsim_spark.forensics._coordinator_entries import Coordinators
from txnsim_spark.forensics._coordinator_log import Replayed, read_coordinators
from txnsim_spark.forensics._evidence import ReplicaFacts
from txnsim_spark.forensics._metadata_copies import KnownTopics
from txnsim_spark.forensics._read_notes import ReadNotes
from txnsim_spark.forensics._start_batch import Lookups
from txnsim_spark.forensics.collection import (
    COORDINATORS,
    METADATA,
    REPLICAS,
    CollectedLog,
    CollectedMetadata,
    CollectedReplica,
    CollectedTxn,
    is_archive,
    manifest_of,
    member_of,
)
from txnsim_spark.forensics.find_hanging import (
    CoordinatorLogs,
    Opened,
    Reading,
    Search,
    find_hanging,
)
from txnsim_spark.forensics.findings import Report, Source
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.forensics.verdicts import ReplicaEnds, Spread
from txnsim_spark.scan.log_dirs import OnProblem
from txnsim_spark.scan.segments import refuse_two_clusters


def find_hanging_in_archives(search: Search, *, progress: Progress) -> Report:
    """Judge what was collected.

    Args:
        search: Its paths are archives.
        progress: Called with what is done now.

    Raises:
        BadInputError: One of them is none.
    """
    if not all(is_archive(path) for path in search.paths):
        raise BadInputError("name archives of 'txnsim logs collect' or directories, not both")
    return find_hanging(search, progress=progress, reading=CollectedReading(search, progress))


class CollectedReading(Reading):
    """What brokers have read."""

    def __init__(self, search: Search, progress: Progress) -> None:
        super().__init__(search, progress=progress)
        self._archives = tuple(search.paths)
        self._replicas: dict[str, CollectedReplica] = {}
        self._txns: dict[tuple[str, int], CollectedTxn] = {}
        self._unasked: dict[str, int] = {}
        """Replica path -> start of the collected markers, for queries below that start."""

    def states(self) -> tuple[ReplicaState, ...]:
        """Every replica."""
        topics = self._search.topics
        refuse_two_clusters((str(path), manifest_of(path).cluster_id) for path in self._archives)
        for number, path in enumerate(self._archives, 1):
            self._progress(f"archive {number} of {len(self._archives)}: {path}")
            manifest = manifest_of(path)
            for problem in manifest.problems:
                self._problem(problem)
            newest_ms = self._not_future(manifest.newest_ms, str(path))
            self._newest_ms = max(self._newest_ms, newest_ms)
            for one in member_of(path, REPLICAS, tuple[CollectedReplica, ...]):
                replica = one.state.replica
                if topics and replica.topic not in {*topics, TRANSACTION_STATE_TOPIC}:
                    continue
                key = self._key(path, replica.path)
                self._replicas[key] = _renamed(one, key)
        return tuple(one.state for one in self._replicas.values())

    @staticmethod
    def _key(archive: Path, path: str) -> str:
        """Two brokers may keep their replicas under the same path."""
        return f"{archive}:{path}"

    def opened(self, states: Sequence[ReplicaState]) -> Opened:
        """What each replica has open at its end."""
        found = {}
        for state in states:
            txns = self._replicas[state.replica.path].opened
            for one in txns:
                self._txns[state.replica.path, one.txn.producer_id] = one
            if txns:
                found[state.replica.path] = {one.txn.producer_id: one.txn for one in txns}
        return found

    def as_read(self, states: Sequence[ReplicaState]) -> tuple[ReplicaState, ...]:
        """They are cut off already."""
        return tuple(states)

    def notes_on(self, state: ReplicaState) -> ReadNotes:
        """What came to light about a replica."""
        return self._replicas[state.replica.path].notes

    def coordinators(self, logs: CoordinatorLogs, producer_ids: Set[int]) -> Coordinators:  # noqa: ARG002 - all were read
        """What coordinators had written down, of the replicas whose word counts."""
        first = {ranked[0].replica.path for ranked in logs.values()}
        found: dict[str, Replayed] = {}
        held: dict[str, Path] = {}
        for path in self._archives:
            for one in member_of(path, COORDINATORS, tuple[CollectedLog, ...]):
                key = self._key(path, one.path)
                held[key] = path
                if key in first:
                    found[key] = one.log

        def replay(state: ReplicaState, _on_problem: OnProblem) -> Replayed:
            key = state.replica.path
            if key in found:
                return found[key]
            logs_there = member_of(held[key], COORDINATORS, tuple[CollectedLog, ...])
            return next(one.log for one in logs_there if self._key(held[key], one.path) == key)

        return read_coordinators(logs, self._problem, replay)

    def known_topics(self) -> KnownTopics:
        """What the copies of the metadata log said."""
        manifests = [(manifest_of(path), path) for path in self._archives]
        aged = [(one.metadata_age, path) for one, path in manifests if one.metadata_age]
        if not aged:
            return KnownTopics()
        _, path = max(aged)
        newest = member_of(path, METADATA, CollectedMetadata)
        return KnownTopics(
            assignments=dict(newest.assignments),
            topic_ids=newest.topic_ids,
            removed=newest.removed,
            brokers=frozenset(
                broker for one, _ in manifests if one.is_metadata_whole for broker in one.brokers
            ),
        )

    def has_marker(self, ends: ReplicaEnds, offset: int, producer_id: int) -> bool:
        known = self._replicas[ends.replica.path]
        if known.markers.get(producer_id, -1) >= offset:
            return True
        if offset >= known.markers_from:
            return False
        self._unasked[ends.replica.path] = known.markers_from
        return True

    def facts_on(
        self, spread: Spread, replicas: Sequence[ReplicaState], lookups: Mapping[str, Lookups]
    ) -> ReplicaFacts:
        """What is known of the replica whose word counts about a transaction."""
        facts = super().facts_on(spread, replicas, lookups)
        state = facts.state
        one = self._txns[state.replica.path, spread.transaction.producer_id]
        for other in spread.behind:
            if other.replica.path in self._unasked and not state.lost_end:
                lost_end = (
                    f"broker {other.replica.broker}'s markers are collected from offset"
                    f" {self._unasked[other.replica.path]} on only: look at its directory"
                )
                state = msgspec.structs.replace(state, lost_end=lost_end)
        return msgspec.structs.replace(
            facts, state=state, gaps=one.gaps, start_batch=one.start_batch
        )

    def source(self, states: Sequence[ReplicaState], coordinators: Coordinators) -> Source:
        """What was read, on the brokers."""
        source = super().source(states, coordinators)
        return msgspec.structs.replace(source, directories=tuple(map(str, self._archives)))

    def _bytes_read(self, state: ReplicaState) -> int | None:
        known = self._replicas[state.replica.path]
        return known.unread_bytes if known.was_read else None


def _renamed(one: CollectedReplica, key: str) -> CollectedReplica:
    replica = msgspec.structs.replace(one.state.replica, path=key)
    ends = msgspec.structs.replace(one.state.ends, replica=replica)
    state = msgspec.structs.replace(one.state, ends=ends)
    return msgspec.structs.replace(one, state=state)
