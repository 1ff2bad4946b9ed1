"""Share sessions: the partitions that a member of a share group fetches from one broker.

A request with epoch 0 opens a session, the next ones continue it with epochs 1, 2 and so on, one
with -1 ends it. A session belongs to a member and to the connection that opened it: when the
connection closes, the member's records are released. No session is evicted for another one.

Kafka's counterparts: ShareSession, ShareSessionCache, ShareSessionContext, FinalContext, and
newContext, acknowledgeSessionUpdate and releaseSession of SharePartitionManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_INT32_MAX: Final = 2**31 - 1


class SharedPartition(msgspec.Struct, frozen=True, order=True, gc=False):
    """A partition of a share session, by topic id."""

    topic_id: str
    partition: int


class SessionKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """A member of a share group."""

    group_id: str
    member_id: str


class PartitionNews(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Whether a fetch has records or an error for a partition; it decides whether the response
    names the partition.
    """

    has_records: bool
    error: int = 0


class SessionDeparture(msgspec.Struct, frozen=True, kw_only=True):
    """What to do after a connection has closed."""

    member: SessionKey | None = None
    """Member whose session has ended; its acquired records must be released."""
    partitions: tuple[SharedPartition, ...] = ()
    empty_group: str | None = None
    """Group of which no member has a session here any more: its share partitions must be fenced and
    forgotten.
    """


def next_session_epoch(session_epoch: int) -> int:
    """The next epoch; 1 follows the highest (ShareRequestMetadata.nextEpoch)."""
    return 1 if session_epoch == _INT32_MAX else session_epoch + 1


class ShareSession:
    """The partitions that one member fetches from this broker."""

    __slots__ = ("_partitions_to_answer", "connection", "epoch", "topics")

    def __init__(
        self, connection: Hashable, topic_by_partition: Mapping[SharedPartition, str | None]
    ) -> None:
        self.connection = connection
        self.epoch = next_session_epoch(INITIAL_EPOCH)
        self.topics = dict(topic_by_partition)
        """Partition -> its topic name when it joined the session; None if the topic id was unknown
        then.

        They are in the order in which they are fetched: a partition that had records moves to the
        end.
        """
        self._partitions_to_answer: set[SharedPartition] = set()
        """Partitions that the next response names even without news: new ones, and those after an
        error.
        """

    def update(
        self,
        topic_by_partition: Mapping[SharedPartition, str | None],
        forgotten_partitions: Iterable[SharedPartition],
    ) -> None:
        for shared_partition, topic_name in topic_by_partition.items():
            if shared_partition not in self.topics:
                self.topics[shared_partition] = topic_name
                self._partitions_to_answer.add(shared_partition)
        for shared_partition in forgotten_partitions:
            self.topics.pop(shared_partition, None)
            self._partitions_to_answer.discard(shared_partition)

    def conclude(
        self, session_epoch: int, news_by_partition: Mapping[SharedPartition, PartitionNews]
    ) -> list[SharedPartition] | Rejection:
        """The partitions that the response to the request with this epoch names.

        The first and the last response name all. The error is INVALID_SHARE_SESSION_EPOCH if
        another request has advanced the session meanwhile.
        """
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return list(news_by_partition)
        if self.epoch != next_session_epoch(session_epoch):
            return Rejection(
                error=ErrorCode.invalid_share_session_epoch,
                reason=f"expected epoch {next_session_epoch(session_epoch)}, found {self.epoch}: "
                "another request came between",
            )
        named_partitions = []
        for shared_partition, partition_news in news_by_partition.items():
            if not (
                partition_news.has_records
                or partition_news.error
                or shared_partition in self._partitions_to_answer
            ):
                continue
            named_partitions.append(shared_partition)
            if partition_news.error:
                self._partitions_to_answer.add(shared_partition)
            else:
                self._partitions_to_answer.discard(shared_partition)
            if partition_news.has_records:
                self.topics[shared_partition] = self.topics.pop(shared_partition)
        return named_partitions


class _Connection(msgspec.Struct):
    """The session that a connection opened last, and whether it has ended since."""

    key: SessionKey
    is_ended: bool = False


class ShareSessions:
    """All share sessions of a broker, up to a limit (``group.share.max.share.sessions``)."""

    __slots__ = ("_connections", "_members", "_sessions")

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._connections: dict[Hashable, _Connection] = {}
        self._members: Counter[str] = Counter()
        """Group -> number of its sessions; kept until a connection of the group closes."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Number of partitions in all sessions (Kafka's SharePartitionsCount)."""
        return sum(len(session.topics) for session in self._sessions.values())

    def open(
        self,
        key: SessionKey,
        connection: Hashable,
        topic_by_partition: Mapping[SharedPartition, str | None],
        *,
        session_limit: int,
        has_acknowledgements: bool,
    ) -> ShareSession | Rejection:
        """Open a session for a request with epoch 0. The member's old session ends, even if this
        one is refused.
        """
        if has_acknowledgements:
            return Rejection(
                error=ErrorCode.invalid_request,
                reason="Acknowledge data present in Initial Fetch Request",
            )
        self._end_session(key)
        if len(self._sessions) >= session_limit:
            return Rejection(
                error=ErrorCode.share_session_limit_reached,
                reason=f"{session_limit} share sessions are open",
            )
        session = ShareSession(connection, topic_by_partition)
        self._sessions[key] = session
        self._members[key.group_id] += 1
        self._connections[connection] = _Connection(key)
        return session

    def resume(
        self,
        key: SessionKey,
        session_epoch: int,
        topic_by_partition: Mapping[SharedPartition, str | None],
        forgotten_partitions: Iterable[SharedPartition],
    ) -> ShareSession | Rejection:
        """Continue a session for a ShareFetch with an epoch above 0."""
        session = self._session_at(key, session_epoch)
        if isinstance(session, ShareSession):
            session.update(topic_by_partition, forgotten_partitions)
            session.epoch = next_session_epoch(session.epoch)
        return session

    def acknowledge(self, key: SessionKey, session_epoch: int) -> Rejection | None:
        """Advance a session for a ShareAcknowledge, which opens none; with epoch -1 the caller ends
        it (``end``).
        """
        if session_epoch == INITIAL_EPOCH:
            return Rejection(
                error=ErrorCode.invalid_share_session_epoch,
                reason="a share session is opened by a ShareFetch",
            )
        if session_epoch == FINAL_EPOCH:
            return None if key in self._sessions else _not_found(key)
        session = self._session_at(key, session_epoch)
        if isinstance(session, Rejection):
            return session
        session.epoch = next_session_epoch(session.epoch)
        return None

    def find(self, key: SessionKey) -> ShareSession | Rejection:
        """The session that a request with epoch -1 is about to end."""
        return self._sessions.get(key) or _not_found(key)

    def end(self, key: SessionKey) -> tuple[SharedPartition, ...] | Rejection:
        """End a session; returns the partitions whose acquired records are to be released."""
        session = self._end_session(key)
        return _not_found(key) if session is None else tuple(session.topics)

    def disconnect(self, connection: Hashable) -> SessionDeparture:
        """End the session of a closed connection.

        A connection knows only the session that it opened last. When any session that this
        connection opened ends, that one counts as ended, too: with two members on one connection,
        Kafka may release nothing.
        """
        member_connection = self._connections.pop(connection, None)
        if member_connection is None:
            return SessionDeparture()
        group_id = member_connection.key.group_id
        session = None if member_connection.is_ended else self._end_session(member_connection.key)
        is_empty = self._members[group_id] == 0
        if is_empty:
            del self._members[group_id]
        return SessionDeparture(
            member=member_connection.key if session else None,
            partitions=tuple(session.topics) if session else (),
            empty_group=group_id if is_empty else None,
        )

    def is_empty(self, group_id: str) -> bool:
        """Whether no member of a group has a session."""
        return not self._members[group_id]

    def clear(self) -> None:
        """End all sessions, because ``share.version`` was switched off."""
        self._sessions.clear()
        self._members.clear()

    def _session_at(self, key: SessionKey, session_epoch: int) -> ShareSession | Rejection:
        session = self._sessions.get(key)
        if session is None:
            return _not_found(key)
        if session.epoch != session_epoch:
            return Rejection(
                error=ErrorCode.invalid_share_session_epoch,
                reason=f"expected epoch {session.epoch}, found {session_epoch}",
            )
        return session

    def _end_session(self, key: SessionKey) -> ShareSession | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._members[key.group_id] -= 1
            member_connection = self._connections.get(session.connection)
            if member_connection is not None:
                member_connection.is_ended = True
        return session


def _not_found(key: SessionKey) -> Rejection:
    return Rejection(
        error=ErrorCode.share_session_not_found,
        reason=f"member {key.member_id} of group {key.group_id} has no share session here",
    )
