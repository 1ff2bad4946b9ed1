"""A member of a share group as a program has it: subscribe, poll, acknowledge, leave (KIP-932).

The brokers know where the group is; a poll brings records that nobody else has meanwhile. What the
member says of them goes with its next poll, or at once by ``commit``. It says by itself that there
is nothing for an application at markers and at records that are not there.

It has a share session with each leader of a partition that it is assigned. A session that is lost,
with its connection for instance, gives up all records: then a poll begins another one.

Kafka's counterparts are ``ShareConsumeRequestManager``, ``ShareSessionHandler`` and
``ShareCompletedFetch``.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final

import msgspec

from txnsim.client.cluster import LOST, Cluster
from txnsim.client.isolation import ConsumedRecord, visible_records
from txnsim.client.members.member import Joining
from txnsim.client.members.membership import MemberOptions
from txnsim.client.reactions import REFRESHING
from txnsim.client.requests import Row, asks
from txnsim.client.versions import Api, Request
from txnsim.errors import ErrorCode
from txnsim.types import IsolationLevel, TopicPartition

FETCH_BYTES_MAX: Final = 52_428_800
"""fetch.max.bytes."""
RECORDS_MAX: Final = 500
"""max.poll.records."""
OPENING: Final = 0
CLOSING: Final = -1
"""Epochs of a share session."""
_LOST: Final = frozenset({ErrorCode.network_exception, ErrorCode.request_timed_out})
_SESSION_LOST: Final = frozenset(
    {ErrorCode.share_session_not_found, ErrorCode.invalid_share_session_epoch}
)
LANE: Final = "share"
"""The connection that a leader's session hangs on."""


class Acknowledge(IntEnum):
    """What a member says of a record: ``AcknowledgeType``, with the gap that only clients use."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Said(msgspec.Struct, frozen=True):
    """What was said of a range of offsets, and what the leader answered."""

    place: TopicPartition
    first: int
    last: int
    type: Acknowledge
    error: ErrorCode = ErrorCode.none


class Acquired(msgspec.Struct, frozen=True, kw_only=True):
    """What one leader gave of one partition."""

    place: TopicPartition
    error: ErrorCode = ErrorCode.none
    records: tuple[tuple[ConsumedRecord, int], ...] = ()
    """Each with its delivery count."""
    lock_ms: int = -1
    """Acquisition lock of the records in ms; -1 if the answer tells none."""
    leader_epoch: int = -1
    """Leader epoch of the partition in the client's metadata."""
    is_lost: bool = False
    """There was no answer: records may have been acquired."""


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """Leaders' answers to a poll or a commit of acknowledgements."""

    acquired: tuple[Acquired, ...] = ()
    said: tuple[Said, ...] = ()
    """Acknowledgements with their errors, gaps left out."""

    @property
    def error(self) -> ErrorCode:
        """First error among acknowledgements, then among partitions."""
        errors = [*(one.error for one in self.said), *(one.error for one in self.acquired)]
        return next((one for one in errors if one), ErrorCode.none)


class ShareMember(Joining):
    """One consumer in a share group; ``close`` it."""

    def __init__(self, cluster: Cluster, options: MemberOptions) -> None:
        """Nothing is sent before ``subscribe``."""
        super().__init__(cluster, msgspec.structs.replace(options, protocol="share"))
        self._sessions: dict[int, _Session] = {}
        """By leader."""
        self._queued: list[Said] = []
        """What the next request brings."""

    async def poll(
        self,
        *,
        until: frozenset[TopicPartition] | None = None,
        max_wait_ms: int = 0,
        timeout_ms: float | None = None,
    ) -> Shared:
        """Follow the assignment, tell leaders what was said, and ask each once for records.

        Args:
            until: Go on until these partitions are assigned.
            max_wait_ms: How long a leader may wait for records.
            timeout_ms: How long to wait for the assignment.

        Raises:
            ClientError: The coordinator refuses the member.
            RetriableError: Not assigned in time, or a partition has no leader.
        """
        with self._called():
            await self._settle(until, timeout_ms)
            places = await self._by_leader()
            for leader in self._sessions.keys() - places.keys():
                places[leader] = {}  # it is told that the member has nothing there any more
            answers = await asyncio.gather(
                *(
                    self._fetch(leader, wanted, max_wait_ms)
                    for leader, wanted in sorted(places.items())
                )
            )
        acquired = tuple(one for answer in answers for one in answer.acquired)
        return Shared(acquired=acquired, said=self._all_said(one.said for one in answers))

    def acknowledge(
        self, place: TopicPartition, offsets: Iterable[int], as_: str = "accept"
    ) -> None:
        """Queue acknowledgements of acquired records for the next request to their leader.

        Args:
            place: Their partition.
            offsets: Of the records.
            as_: ``accept``, ``release``, ``reject`` or ``renew``.
        """
        named = Acknowledge[as_.upper()]
        self._queued += [Said(place, first, last, named) for first, last in _ranges(offsets)]

    async def commit(self) -> Shared:
        """Tell leaders what was said, now (``commitSync``).

        Returns:
            Their answers. REQUEST_TIMED_OUT and NETWORK_EXCEPTION leave open whether it took
            effect.
        """
        with self._called():
            leaders = [leader for leader, one in self._sessions.items() if one.places]
            answers = await asyncio.gather(*map(self._acknowledge, sorted(leaders)))
        return Shared(said=self._all_said(answers))

    async def leave(self) -> None:
        """Go, as a consumer that is closed: leaders and the coordinator are told.

        Raises:
            ClientError: Refused, or not answered.
        """
        await self._end_heartbeats()
        for leader, session in sorted(self._sessions.items()):
            if session.epoch != OPENING:
                session.epoch = CLOSING
                await self._acknowledge(leader)
        self._sessions.clear()
        await super().leave()

    # Inside

    async def _by_leader(self) -> dict[int, dict[TopicPartition, int]]:
        """Leader -> the partitions that it has for the member, with its epoch there."""
        found: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for place in sorted(self.assigned):
            leader = await self._cluster.leader(place)
            found[leader.leader_id][place] = leader.leader_epoch
        return found

    def _take(self, session: _Session) -> list[Said]:
        """What is queued for a leader."""
        mine = [one for one in self._queued if one.place in session.places]
        self._queued = [one for one in self._queued if one.place not in session.places]
        return mine

    def _all_said(self, answers: Iterable[tuple[Said, ...]]) -> tuple[Said, ...]:
        """Acknowledgements with their errors; without a session the locks are lost."""
        known = {place for session in self._sessions.values() for place in session.places}
        lost = [one for one in self._queued if one.place not in known]
        self._queued = [one for one in self._queued if one.place in known]
        error = ErrorCode.not_leader_or_follower
        said = (*(one for answer in answers for one in answer), *_all_answered(lost, error))
        return tuple(one for one in said if one.type is not Acknowledge.GAP)

    async def _fetch(
        self, leader: int, wanted: Mapping[TopicPartition, int], max_wait_ms: int
    ) -> Shared:
        """One answer; where the session was lost meanwhile, that of another one."""
        first = await self._fetch_once(leader, wanted, max_wait_ms)
        if all(one.error not in _SESSION_LOST for one in first.acquired):
            return first
        again = await self._fetch_once(leader, wanted, max_wait_ms)
        return Shared(acquired=again.acquired, said=first.said)

    async def _fetch_once(
        self, leader: int, wanted: Mapping[TopicPartition, int], max_wait_ms: int
    ) -> Shared:
        session = self._sessions.setdefault(leader, _Session())
        said = [] if session.epoch == OPENING else self._take(session)
        new, gone = wanted.keys() - session.places, session.places - wanted.keys()
        session.places = set(wanted)
        session.learn_ids(self._cluster)
        if not wanted:
            session.epoch = CLOSING
        request = asks(
            Api.SHARE_FETCH,
            group_id=self.options.group_id,
            member_id=self.metadata.member_id,
            share_session_epoch=session.epoch,
            max_wait=max_wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            max_records=RECORDS_MAX,
            batch_size=RECORDS_MAX,
            share_acquire_mode=0,
            is_renew_ack=any(one.type is Acknowledge.RENEW for one in said),
            topics=_topics("FetchTopic", "FetchPartition", new, said, session),
            forgotten_topics_data=_forgotten(gone, session),
            request_timeout_ms=self._cluster.settings.request_timeout_ms + max_wait_ms,
        )
        answer = await self._ask(leader, session, request)
        if isinstance(answer, ErrorCode):
            is_lost = answer in _LOST
            failed = tuple(
                Acquired(place=place, error=answer, leader_epoch=epoch, is_lost=is_lost)
                for place, epoch in wanted.items()
            )
            return Shared(acquired=failed, said=_all_answered(said, answer))
        rows = session.rows(answer)
        lock_ms = _ms(getattr(answer, "acquisition_lock_timeout", -1))
        acquired = tuple(
            self._read(place, rows[place], lock_ms, epoch)
            if place in rows
            else Acquired(place=place, leader_epoch=epoch)  # left out: there is nothing new
            for place, epoch in wanted.items()
        )
        return Shared(acquired=acquired, said=_outcomes(said, rows, "acknowledge_error_code"))

    async def _acknowledge(self, leader: int) -> tuple[Said, ...]:
        session = self._sessions[leader]
        said = self._take(session)
        if session.epoch == OPENING:
            return _all_answered(said, ErrorCode.share_session_not_found)
        if not said and session.epoch != CLOSING:
            return ()
        request = asks(
            Api.SHARE_ACKNOWLEDGE,
            group_id=self.options.group_id,
            member_id=self.metadata.member_id,
            share_session_epoch=session.epoch,
            is_renew_ack=any(one.type is Acknowledge.RENEW for one in said),
            topics=_topics("AcknowledgeTopic", "AcknowledgePartition", (), said, session),
        )
        answer = await self._ask(leader, session, request)
        if isinstance(answer, ErrorCode):
            return _all_answered(said, answer)
        return _outcomes(said, session.rows(answer), "error_code")

    async def _ask(self, leader: int, session: _Session, request: Request) -> Any:
        """The answer, or the error after which the session is a new one."""
        try:
            answer = await self._cluster.ask(leader, request, lane=LANE)
            error = ErrorCode(answer.error_code)
        except LOST as lost:
            answer, error = None, lost.error or ErrorCode.network_exception
        if error != ErrorCode.none:
            session.epoch = OPENING
            session.places = set()
            for place in self.assigned:
                self._cluster.forget_leader(place.topic)
            return error
        session.epoch = OPENING if session.epoch == CLOSING else session.epoch + 1
        return answer

    def _read(self, place: TopicPartition, row: Any, lock_ms: int, leader_epoch: int) -> Acquired:
        """The records that were acquired; what is none is acknowledged as a gap."""
        error = ErrorCode(row.error_code)
        if error in REFRESHING:
            self._cluster.forget_leader(place.topic)
        counts = {
            offset: one.delivery_count
            for one in row.acquired_records
            for offset in range(one.first_offset, one.last_offset + 1)
        }
        visible = visible_records(
            place,
            row.records or b"",
            fetch_offset=min(counts, default=0),
            isolation=IsolationLevel.READ_UNCOMMITTED,  # aborted ones were not acquired
        )
        records = tuple(
            (one, counts[one.offset]) for one in visible.records if one.offset in counts
        )
        self.acknowledge(place, counts.keys() - {one.offset for one, _ in records}, "gap")
        return Acquired(
            place=place, error=error, records=records, lock_ms=lock_ms, leader_epoch=leader_epoch
        )


class _Session:
    """A share session with one leader."""

    def __init__(self) -> None:
        self.epoch = OPENING
        self.places: set[TopicPartition] = set()
        """Partitions in the session, as the leader has them."""
        self.ids: dict[str, Any] = {}
        """Topic name -> topic id."""

    def learn_ids(self, cluster: Cluster) -> None:
        for place in self.places:
            topic = cluster.view.topic(place.topic)
            if topic is not None and topic.topic_id is not None:
                self.ids[place.topic] = topic.topic_id

    def rows(self, answer: Any) -> dict[TopicPartition, Any]:
        names = {topic_id: name for name, topic_id in self.ids.items()}
        return {
            TopicPartition(names[topic.topic_id], row.partition_index): row
            for topic in answer.responses
            if topic.topic_id in names
            for row in topic.partitions
        }


def _topics(
    topic: str, partition: str, new: Iterable[TopicPartition], said: list[Said], session: _Session
) -> list[Row]:
    """Rows of a request: partitions new to the session, partitions with acknowledgements."""
    batches: dict[TopicPartition, list[Row]] = {place: [] for place in sorted(new)}
    for one in said:
        batches.setdefault(one.place, []).append(
            Row(
                "AcknowledgementBatch",
                first_offset=one.first,
                last_offset=one.last,
                acknowledge_types=(one.type,),
            )
        )

    def row(place: TopicPartition) -> Row:
        ordered = sorted(batches[place], key=lambda batch: batch.fields["first_offset"])
        return Row(partition, partition_index=place.partition, acknowledgement_batches=ordered)

    rows: dict[str, list[Row]] = defaultdict(list)
    for place in batches:
        rows[place.topic].append(row(place))
    return [Row(topic, topic_id=session.ids[name], partitions=of) for name, of in rows.items()]


def _forgotten(places: Iterable[TopicPartition], session: _Session) -> list[Row]:
    topics: dict[str, list[int]] = defaultdict(list)
    for place in sorted(places):
        topics[place.topic].append(place.partition)
    return [
        Row("ForgottenTopic", topic_id=session.ids[name], partitions=tuple(found))
        for name, found in topics.items()
    ]


def _outcomes(said: list[Said], rows: Mapping[TopicPartition, Any], field: str) -> tuple[Said, ...]:
    """Acknowledgements with the leader's error for each partition."""
    errors = {place: ErrorCode(getattr(row, field)) for place, row in rows.items()}
    unknown = ErrorCode.unknown_server_error
    return tuple(_answered(one, errors.get(one.place, unknown)) for one in said)


def _answered(one: Said, error: ErrorCode) -> Said:
    return msgspec.structs.replace(one, error=error)


def _all_answered(said: Iterable[Said], error: ErrorCode) -> tuple[Said, ...]:
    return tuple(_answered(one, error) for one in said)


def _ranges(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive ones, both ends included."""
    first = last = None
    for offset in sorted(offsets):
        if last is None or offset != last + 1:
            if first is not None and last is not None:
                yield first, last
            first = offset
        last = offset
    if first is not None and last is not None:
        yield first, last


def _ms(value: Any) -> int:
    return value if isinstance(value, int) else round(value.total_seconds() * 1_000)
