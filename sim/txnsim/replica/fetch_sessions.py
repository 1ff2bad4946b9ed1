"""Fetch sessions: a reader names its partitions once, and then gets only what has changed.

A session lives on one broker. Its reader names it by id and epoch in each request. A request lists
the partitions that it adds, changes or forgets; the response lists the partitions with news:
records, a new high watermark or log start, an error, a divergence. A last stable offset that moved
alone is no news.

A Fetch is planned (``plan``), read by the caller, and concluded (``conclude``): a new session is
stored, an old one remembers its response. If another request has advanced the session in between,
the Fetch is refused.

The cache is split into shards that are filled in turn, each with its own ids. A session is evicted
for a new one if it was idle for two minutes, or, when it has lived that long, if the new one has
more partitions. Sessions of followers win over those of consumers.

Pure: times and ids are arguments. Kafka's counterparts: FetchSession, FetchManager and the contexts
FullFetchContext, SessionlessFetchContext, IncrementalFetchContext (KIP-227, KIP-516).
"""

from __future__ import annotations

import uuid
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

import msgspec

from txnsim.errors import ErrorCode
from txnsim.replica.fetch_values import FetchOutcome, FetchPartition, Naming, PartitionKey
from txnsim.types import TopicPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
"""Session epoch of a full fetch that asks for a session."""
FINAL_EPOCH: Final = -1
"""Session epoch of a full fetch that asks for no session."""

LARGE_SESSION_PARTITIONS: Final = 1_000
"""A session with more partitions is checked against the limit of partitions whenever it grows."""
EVICTION_MS: Final = 120_000
"""Age from which a session may be evicted (BrokerServer:
MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS).
"""
SHARD_COUNT: Final = 8
"""Number of parts of the cache, which in Kafka have separate locks; slots are split evenly."""
_INT32_MAX: Final = 2**31 - 1
_IDS_PER_SHARD: Final = _INT32_MAX // SHARD_COUNT

AskedPartitions = Mapping[PartitionKey, FetchPartition]
FetchResults = list[tuple[PartitionKey, FetchOutcome]]
_EvictionRank = tuple[bool, int, int]
"""(is privileged, number of partitions, id): the lowest rank is evicted first (EvictableKey)."""


def next_session_epoch(session_epoch: int) -> int:
    """The next epoch; it wraps to 1, never to 0 or -1 (FetchMetadata.nextEpoch)."""
    return 1 if session_epoch == _INT32_MAX else session_epoch + 1


class SessionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a Fetch request that concern sessions."""

    session_id: int
    session_epoch: int
    partitions: AskedPartitions
    """The listed partitions, in order."""
    forgotten_keys: tuple[PartitionKey, ...] = ()
    names_topics_by_id: bool
    is_privileged: bool
    """Whether the request comes from a follower."""


# Plans: the partitions to read, and the outcome


class SessionlessPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A fetch without a session. It may wait for long, and for many partitions, so it stores no key
    for each of them.
    """

    topics: tuple[str | uuid.UUID | None, ...]
    """Topic name or id of each partition: the first part of its key."""
    partitions: tuple[FetchPartition, ...]

    @classmethod
    def from_request(cls, asked_partitions: AskedPartitions) -> SessionlessPlan:
        return cls(
            topics=tuple([topic for topic, _ in asked_partitions]),
            partitions=tuple(asked_partitions.values()),
        )

    @property
    def keys(self) -> tuple[PartitionKey, ...]:
        """The partitions as the request names them."""
        return tuple(
            [
                (topic, fetch_partition.topic_partition.partition)
                for topic, fetch_partition in zip(self.topics, self.partitions, strict=True)
            ]
        )


class OpeningPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A full fetch that asks for a session."""

    keys: tuple[PartitionKey, ...]
    partitions: tuple[FetchPartition, ...]
    request: SessionRequest


class IncrementalPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A fetch of all partitions of a session."""

    keys: tuple[PartitionKey, ...]
    partitions: tuple[FetchPartition, ...]
    session: Session
    session_epoch: int
    """Epoch of the session, unless another request has advanced it meanwhile."""


FetchPlan = SessionlessPlan | OpeningPlan | IncrementalPlan


class SessionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a Fetch response, before it is encoded."""

    error: ErrorCode = ErrorCode.none
    session_id: int = NO_SESSION
    results: FetchResults


# Sessions


class CachedPartition(msgspec.Struct, eq=False):
    """A partition of a session: the reader's request for it, and what the last response said."""

    request: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def replace_request(self, new_request: FetchPartition) -> None:
        """Replace the reader's request; a topic name that was found once is kept."""
        if new_request.naming is Naming.NO_NAME:
            cached_request = self.request
            new_request = msgspec.structs.replace(
                new_request,
                topic_partition=cached_request.topic_partition,
                naming=cached_request.naming,
            )
        self.request = new_request

    def resolve(self, topic_name: str | None) -> None:
        """Update the topic's name; ``topic_name`` is what the topic id stands for at present
        (FetchSession.CachedPartition.maybeResolveUnknownName).

        A name is looked up until it is found and then kept. When the id no longer stands for
        anything, a topic of that name is a different one.
        """
        fetch_partition = self.request
        if fetch_partition.naming is Naming.NO_NAME and topic_name is not None:
            named_partition = TopicPartition(topic_name, fetch_partition.topic_partition.partition)
            self.request = msgspec.structs.replace(
                fetch_partition, topic_partition=named_partition, naming=Naming.NAMED
            )
        elif fetch_partition.naming is Naming.NAMED and topic_name is None:
            self.request = msgspec.structs.replace(fetch_partition, naming=Naming.OTHER_TOPIC)

    def note_outcome(self, fetch_outcome: FetchOutcome) -> bool:
        """Remember an outcome; returns whether it is news for the reader
        (CachedPartition.maybeUpdateResponseData).
        """
        is_news = (
            fetch_outcome.size_bytes > 0
            or fetch_outcome.diverging_epoch is not None
            or fetch_outcome.preferred_replica >= 0
            or bool(fetch_outcome.error)
        )
        if self.high_watermark != fetch_outcome.high_watermark:
            self.high_watermark = fetch_outcome.high_watermark
            is_news = True
        if self.log_start_offset != fetch_outcome.log_start_offset:
            self.log_start_offset = fetch_outcome.log_start_offset
            is_news = True
        return is_news


# Not a struct: a field of one takes twice as long to set, and these are set all the time.
@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """The partitions that one reader fetches from this broker, in the order in which they are
    read.
    """

    session_id: int
    names_topics_by_id: bool
    is_privileged: bool
    created_ms: int
    last_used_ms: int
    epoch: int = next_session_epoch(INITIAL_EPOCH)
    """Session epoch that the next request must have."""
    partitions: dict[PartitionKey, CachedPartition] = field(default_factory=dict)
    rank: _EvictionRank | None = None
    is_old: bool = False
    _plan: tuple[tuple[PartitionKey, ...], tuple[FetchPartition, ...]] | None = None
    _topic_names: Mapping[uuid.UUID, str] | None = None

    def update(
        self, asked_partitions: AskedPartitions, forgotten_keys: Iterable[PartitionKey]
    ) -> None:
        """Adds and changes partitions, then forgets some: a partition in both lists is forgotten
        (FetchSession.update).
        """
        for key, fetch_partition in asked_partitions.items():
            cached_partition = self.partitions.get(key)
            if cached_partition is None:
                self.partitions[key] = CachedPartition(fetch_partition)
            else:
                cached_partition.replace_request(fetch_partition)
            self._plan = None
        for key in forgotten_keys:
            if self.partitions.pop(key, None) is not None:
                self._plan = None

    def fetch_plan(
        self, name_by_topic_id: Mapping[uuid.UUID, str]
    ) -> tuple[tuple[PartitionKey, ...], tuple[FetchPartition, ...]]:
        """All partitions in order. The plan is rebuilt only if partitions or topics have
        changed.
        """
        if self._plan is None or self._topic_names is not name_by_topic_id:
            if self.names_topics_by_id:
                for (topic, _), cached_partition in self.partitions.items():
                    topic_name = (
                        name_by_topic_id.get(topic) if isinstance(topic, uuid.UUID) else None
                    )
                    cached_partition.resolve(topic_name)
            self._topic_names = name_by_topic_id
            self._plan = (
                tuple(self.partitions),
                tuple([cached.request for cached in self.partitions.values()]),
            )
        return self._plan

    def results_with_news(self, fetch_results: FetchResults) -> FetchResults:
        """The results with news for the reader. Partitions with records move to the end of the
        order, so that the size limits treat all partitions fairly.
        """
        partitions = self.partitions
        results_with_news: FetchResults = []
        for fetch_result in fetch_results:
            key, fetch_outcome = fetch_result
            # A session that was closed while the request waited may have forgotten the partition.
            if key in partitions and partitions[key].note_outcome(fetch_outcome):
                results_with_news.append(fetch_result)
                if fetch_outcome.size_bytes > 0:
                    partitions[key] = partitions.pop(key)
                    self._plan = None
        return results_with_news


class _CacheShard:
    """One part of the cache."""

    __slots__ = (
        "_evictable_by_followers",
        "_evictable_by_readers",
        "_id_range",
        "_slot_count",
        "sessions",
    )

    def __init__(self, *, slot_count: int, id_range: tuple[int, int]) -> None:
        self._slot_count = slot_count
        self._id_range = id_range
        self.sessions: dict[int, Session] = {}
        """Session id -> session, the least recently used first."""
        # Sorted, the cheapest first. Consumers may evict only old sessions.
        self._evictable_by_readers: list[_EvictionRank] = []
        self._evictable_by_followers: list[_EvictionRank] = []

    def make_room(self, *, is_privileged: bool, partition_count: int, now_ms: int) -> bool:
        """Whether there is a free slot, after evicting a session if that is allowed
        (FetchSessionCacheShard.tryEvict).
        """
        if len(self.sessions) < self._slot_count:
            return True
        if not self.sessions:
            return False
        oldest_session = next(iter(self.sessions.values()))
        if now_ms - oldest_session.last_used_ms > EVICTION_MS:
            self.remove(oldest_session)
            return True
        evictable_ranks = (
            self._evictable_by_followers if is_privileged else self._evictable_by_readers
        )
        # Id 0 is below every id: of two sessions of the same size the old one stays.
        if not evictable_ranks or (is_privileged, partition_count, NO_SESSION) < evictable_ranks[0]:
            return False
        self.remove(self.sessions[evictable_ranks[0][2]])
        return True

    def forget_idle(self, now_ms: int) -> None:
        for session in list(self.sessions.values()):
            if now_ms - session.last_used_ms <= EVICTION_MS:
                break
            self.remove(session)

    def new_id(self, draw_number: Callable[[int, int], int]) -> int:
        """Draw an unused session id of this shard."""
        while True:
            session_id = draw_number(*self._id_range)
            if session_id not in self.sessions:
                return session_id

    def touch(self, session: Session, now_ms: int) -> None:
        """Notes that the session is used now; its size may have changed
        (FetchSessionCacheShard.touch).
        """
        session.last_used_ms = now_ms
        self.sessions.pop(session.session_id, None)
        self.sessions[session.session_id] = session
        rank = (session.is_privileged, len(session.partitions), session.session_id)
        is_old = now_ms - session.created_ms > EVICTION_MS
        if rank == session.rank and is_old == session.is_old:
            return
        self._remove_rank(session)
        session.rank, session.is_old = rank, is_old
        if is_old:
            insort(self._evictable_by_readers, rank)
        if is_old or not session.is_privileged:
            insort(self._evictable_by_followers, rank)

    def remove(self, session: Session) -> None:
        del self.sessions[session.session_id]
        self._remove_rank(session)

    def _remove_rank(self, session: Session) -> None:
        if session.rank is None:
            return
        for ranks in (self._evictable_by_readers, self._evictable_by_followers):
            rank_index = bisect_left(ranks, session.rank)
            if rank_index < len(ranks) and ranks[rank_index] == session.rank:
                del ranks[rank_index]


class FetchSessions:
    """The fetch sessions of one broker.

    Args:
        slot_count: Most sessions (``max.incremental.fetch.session.cache.slots``).
        draw_number: Draws a random number from its first argument up to, but not including, its
            second.
        partition_count: Most partitions of all sessions together. Kafka has no such limit.
    """

    __slots__ = ("_draw_number", "_next_shard", "_partitions_max", "_shards")

    def __init__(
        self,
        *,
        slot_count: int,
        draw_number: Callable[[int, int], int],
        partition_count: int = 2**31,
    ) -> None:
        self._draw_number = draw_number
        self._partitions_max = partition_count
        self._next_shard = 0
        self._shards = tuple(
            _CacheShard(
                slot_count=slot_count // SHARD_COUNT,
                id_range=(max(1, shard_index * _IDS_PER_SHARD), (shard_index + 1) * _IDS_PER_SHARD),
            )
            for shard_index in range(SHARD_COUNT)
        )

    def __len__(self) -> int:
        return sum(len(shard.sessions) for shard in self._shards)

    def find(self, session_id: int) -> Session | None:
        shard = self._shard_of(session_id)
        return None if shard is None else shard.sessions.get(session_id)

    def plan(
        self, request: SessionRequest, *, name_by_topic_id: Mapping[uuid.UUID, str], now_ms: int
    ) -> FetchPlan | ErrorCode:
        """The partitions to read for a request, or the error of the whole request
        (FetchManager.newContext).
        """
        shard = self._shard_of(request.session_id)
        if shard is None:
            # Kafka runs into an IndexOutOfBoundsException there.
            return ErrorCode.unknown_server_error
        session = shard.sessions.get(request.session_id)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session is not None:
                shard.remove(session)
            if request.session_epoch == FINAL_EPOCH:
                return SessionlessPlan.from_request(request.partitions)
            keys, partitions = tuple(request.partitions), tuple(request.partitions.values())
            return OpeningPlan(keys=keys, partitions=partitions, request=request)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if request.session_epoch != session.epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if request.names_topics_by_id != session.names_topics_by_id:
            return ErrorCode.fetch_session_topic_id_error
        session.update(request.partitions, request.forgotten_keys)
        if (
            len(session.partitions) > LARGE_SESSION_PARTITIONS
            and request.partitions
            and not self._has_room(0)
        ):
            shard.remove(session)
            return ErrorCode.fetch_session_id_not_found  # its reader begins a new session
        if not session.partitions:
            shard.remove(session)
            # A partition that was listed and forgotten in one request is still read.
            return SessionlessPlan.from_request(request.partitions)
        shard.touch(session, now_ms)
        session.epoch = next_session_epoch(session.epoch)
        keys, partitions = session.fetch_plan(name_by_topic_id)
        return IncrementalPlan(
            keys=keys, partitions=partitions, session=session, session_epoch=session.epoch
        )

    def conclude(
        self, plan: FetchPlan, fetch_outcomes: Sequence[FetchOutcome], *, now_ms: int
    ) -> SessionResponse:
        """The response, from the outcome of each planned partition."""
        fetch_results = list(zip(plan.keys, fetch_outcomes, strict=True))
        match plan:
            case IncrementalPlan():
                session = plan.session
                if session.epoch != plan.session_epoch:
                    return SessionResponse(
                        error=ErrorCode.invalid_fetch_session_epoch,
                        session_id=session.session_id,
                        results=[],
                    )
                results_with_news = _sort_missing_last(session.results_with_news(fetch_results))
                return SessionResponse(session_id=session.session_id, results=results_with_news)
            case SessionlessPlan():
                return SessionResponse(results=_sort_missing_last(fetch_results))
            case OpeningPlan():
                fetch_results = _sort_missing_last(fetch_results)
                return SessionResponse(
                    session_id=self._open_session(plan.request, fetch_results, now_ms),
                    results=fetch_results,
                )
            case _:
                assert_never(plan)

    # Parts

    def _shard_of(self, session_id: int) -> _CacheShard | None:
        # Java's division goes towards zero: small negative ids, which no session has, are of shard
        # 0.
        if -_IDS_PER_SHARD < session_id < SHARD_COUNT * _IDS_PER_SHARD:
            return self._shards[max(0, session_id) // _IDS_PER_SHARD]
        return None

    def _has_room(self, added_count: int) -> bool:
        """Whether ``added_count`` partitions fit within the limit of all sessions."""
        sessions = (session for shard in self._shards for session in shard.sessions.values())
        partition_count = sum([len(session.partitions) for session in sessions])
        return partition_count + added_count <= self._partitions_max

    def _open_session(
        self, request: SessionRequest, fetch_results: FetchResults, now_ms: int
    ) -> int:
        """Store a new session if there is room (FetchSessionCacheShard.maybeCreateSession); returns
        its id, or ``NO_SESSION``.
        """
        if not self._has_room(len(fetch_results)):
            for cache_shard in self._shards:
                cache_shard.forget_idle(now_ms)
            if not self._has_room(len(fetch_results)):
                return NO_SESSION
        shard = self._shards[self._next_shard % SHARD_COUNT]
        self._next_shard += 1
        if not shard.make_room(
            is_privileged=request.is_privileged, partition_count=len(fetch_results), now_ms=now_ms
        ):
            return NO_SESSION
        session = Session(
            session_id=shard.new_id(self._draw_number),
            names_topics_by_id=request.names_topics_by_id,
            is_privileged=request.is_privileged,
            created_ms=now_ms,
            last_used_ms=now_ms,
        )
        for key, outcome in fetch_results:
            cached_partition = session.partitions[key] = CachedPartition(request.partitions[key])
            cached_partition.high_watermark = outcome.high_watermark
            cached_partition.log_start_offset = outcome.log_start_offset
        shard.touch(session, now_ms)
        return session.session_id


def _sort_missing_last(fetch_results: FetchResults) -> FetchResults:
    """Sort partitions that don't exist to the end: unknown ids, then unknown names (KafkaApis)."""
    if not any(outcome.error and outcome.is_missing for _, outcome in fetch_results):
        return fetch_results
    return sorted(
        fetch_results,
        key=lambda result: (
            result[1].is_missing,
            result[1].error is not ErrorCode.unknown_topic_id,
        ),
    )
