"""The data of consumers in JoinGroup and SyncGroup, as far as a coordinator reads it.

A coordinator passes these bytes on; it parses them only to find out which topics a group consumes
(OffsetDelete, expiry), and when a group changes its protocol (KIP-848).

Counterpart in Kafka: ConsumerProtocol, ConsumerProtocolSubscription.json.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

_OWNED_FROM = 1
_RACK_FROM = 3

ELEMENTS_MAX: Final = 20_000
"""Limit of topics, and of partitions, in one subscription or assignment; a longer one counts as
unreadable. The length of names does not matter.
"""
NAMES_MAX: Final = 200_000
"""Limit of names in the subscriptions of a group, counting equal ones once. Above it the group's
topics are unknown.
"""
_HEAD_BYTES: Final = 48

DEVIATIONS: Final = (
    "A subscription or an assignment with more than 20,000 topics and partitions, and those of a "
    "classic group with more than 200,000 together, are taken as unreadable: members get them, and "
    "the coordinator takes the group to consume every topic. One of the consumer protocol takes "
    "200,000 names and 100 regular expressions, a share group 200,000 names.",
    "A member of a classic group that names more than 100 protocols is refused (INVALID_REQUEST).",
    "Where members of a classic group have no common protocol, because one names its protocol "
    "twice, a LeaveGroup after which all others wait in JoinGroup succeeds; in Apache Kafka it "
    "removes the member and is answered with UNKNOWN_SERVER_ERROR.",
)


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """The subscription that a consumer sends in JoinGroup."""

    version: int
    topics: tuple[str, ...]
    owned_partitions: frozenset[tuple[str, int]] = frozenset()
    """(topic, partition); since v1, for cooperative rebalances (KIP-429)."""
    rack_id: str | None = None
    """Since v3 (KIP-881)."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """The assignment that a consumer gets in SyncGroup."""

    partitions: frozenset[tuple[str, int]]
    has_user_data: bool
    """Whether the client's assignor sends data of its own, which the coordinator can't produce."""


class TopicsReader:
    """Reads the topics of a group's subscriptions; equal lists, which are common, are decoded
    once.
    """

    def __init__(self) -> None:
        self._decoded_topics: dict[bytes, tuple[bytes, frozenset[str] | None]] = {}
        """First bytes of a subscription -> its encoded topics, decoded."""

    def topics_of_all(self, subscriptions: Iterable[bytes]) -> frozenset[str] | None:
        """Union of subscribed topics; None if a subscription is unreadable."""
        previous_topics = self._decoded_topics
        self._decoded_topics = {}
        topics_by_identity: dict[int, frozenset[str]] = {}
        name_count = 0
        for metadata in subscriptions:
            first_bytes = metadata[:_HEAD_BYTES]
            encoded_topics, topics = (
                self._decoded_topics.get(first_bytes)
                or previous_topics.get(first_bytes)
                or (b"", None)
            )
            if not encoded_topics or not metadata.startswith(encoded_topics):
                encoded_topics, topics = _encoded_topics(metadata)
            if topics is None:
                return None
            self._decoded_topics[first_bytes] = encoded_topics, topics
            if id(topics) not in topics_by_identity:
                topics_by_identity[id(topics)] = topics
                name_count += len(topics)
                if name_count > NAMES_MAX:
                    return None
        return frozenset().union(*topics_by_identity.values())


def _encoded_topics(metadata: bytes) -> tuple[bytes, frozenset[str] | None]:
    def read(reader: _SubscriptionReader) -> tuple[bytes, frozenset[str] | None]:
        topics = frozenset(reader.read_topics())
        return metadata[: reader.position], topics

    return _read_or_none(metadata, read) or (b"", None)


def read_subscription(metadata: bytes) -> Subscription | None:
    """The parts of a subscription that concern a coordinator; None if it can't be read."""
    return _read_or_none(metadata, _subscription)


def _subscription(reader: _SubscriptionReader) -> Subscription:
    topics = reader.read_topics()
    reader.skip_bytes()
    owned_partitions = reader.read_partitions() if reader.version >= _OWNED_FROM else ()
    rack_id = None
    if reader.version >= _RACK_FROM:
        reader.read_number("!i")  # the generation that it owned them in
        rack_id = reader.read_text()
    return Subscription(
        version=reader.version,
        topics=tuple(topics),
        owned_partitions=frozenset(owned_partitions),
        rack_id=rack_id,
    )


def version_of(metadata: bytes) -> int:
    """The version of a subscription, which is also that of the member's assignment; 0 without
    one.
    """
    return max(int.from_bytes(metadata[:2], "big", signed=True), 0)


def read_assignment(assignment: bytes) -> Assignment | None:
    """An assignment; None if it can't be read. No bytes mean an empty one: not assigned yet."""
    if not assignment:
        return Assignment(partitions=frozenset(), has_user_data=False)
    return _read_or_none(
        assignment,
        lambda reader: Assignment(
            partitions=frozenset(reader.read_partitions()), has_user_data=reader.skip_bytes() > 0
        ),
    )


def _read_or_none(encoded: bytes, read_fields: Callable[[_SubscriptionReader], T]) -> T | None:
    try:
        reader = _SubscriptionReader(encoded)
        return read_fields(reader) if reader.version >= 0 else None
    except (struct.error, ValueError):
        return None


def write_assignment(version: int, partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Encode an assignment in the version that the consumer reads."""
    encoded_parts = [struct.pack("!hi", version, len(partitions))]
    for topic, indexes in partitions.items():
        topic_bytes, sorted_indexes = topic.encode(), sorted(indexes)
        encoded_parts.append(struct.pack("!h", len(topic_bytes)) + topic_bytes)
        encoded_parts.append(
            struct.pack(f"!i{len(sorted_indexes)}i", len(sorted_indexes), *sorted_indexes)
        )
    encoded_parts.append(struct.pack("!i", -1))
    return b"".join(encoded_parts)


class _SubscriptionReader:
    """Reads fields in order; all versions begin with the fields of version 0."""

    def __init__(self, encoded: bytes) -> None:
        self._encoded = encoded
        self.position = 0
        self._elements = 0
        self.version = self.read_number("!h")

    def read_number(self, struct_format: str) -> int:
        number: int
        (number,) = struct.unpack_from(struct_format, self._encoded, self.position)
        self.position += struct.calcsize(struct_format)
        return number

    def read_text(self) -> str | None:
        """The next string, or null."""
        byte_count = self.read_number("!h")
        if byte_count < 0:
            return None
        return self._take_bytes(byte_count).decode()

    def read_name(self) -> str:
        """The next string; null is an error."""
        topic_name = self.read_text()
        if topic_name is None:
            raise ValueError("a topic has no name")
        return topic_name

    def read_topics(self) -> list[str]:
        """A list of names."""
        return [self.read_name() for _ in range(self._element_count())]

    def read_partitions(self) -> list[tuple[str, int]]:
        """A list of topics with their partitions."""
        partitions = []
        for _ in range(self._element_count()):
            topic = self.read_name()
            partitions += [(topic, self.read_number("!i")) for _ in range(self._element_count())]
        return partitions

    def skip_bytes(self) -> int:
        """Skip the next byte field; returns its length."""
        byte_count = self.read_number("!i")
        if byte_count > 0:
            self._take_bytes(byte_count)
        return max(byte_count, 0)

    def _element_count(self) -> int:
        count = self.read_number("!i")
        if count > len(self._encoded):
            raise ValueError(f"{count} elements in {len(self._encoded)} bytes")
        self._elements += count
        if self._elements > ELEMENTS_MAX:
            raise ValueError(f"more than {ELEMENTS_MAX} elements")
        return count

    def _take_bytes(self, byte_count: int) -> bytes:
        taken_bytes = self._encoded[self.position : self.position + byte_count]
        if len(taken_bytes) != byte_count:
            raise ValueError("the bytes end before the value does")
        self.position += byte_count
        return taken_bytes
