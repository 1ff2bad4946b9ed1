"""The vocabulary: frozen values that every layer may use, and the function that maps a name to its
partition of an internal topic.

Ids and offsets are ``NewType``s so that mypy tells them apart. Values are frozen ``msgspec``
structs: hashable, comparable and an order of magnitude cheaper to make than frozen dataclasses.
Errors are Kafka's numbers (``int``) here; their names are in ``txnsim.errors``.

This module imports nothing of ``txnsim``.
"""

from __future__ import annotations

import struct
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from operator import mul
from typing import ClassVar, Final, Generic, NewType, TypeVar

import msgspec

BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
CoordinatorEpoch = NewType("CoordinatorEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
Offset = NewType("Offset", int)
TransactionalId = NewType("TransactionalId", str)

NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
PRODUCER_EPOCH_MAX: Final = ProducerEpoch(32767)
"""Highest value of an int16; an epoch at or above 32766 is called exhausted
(TransactionMetadata.isEpochExhausted).
"""

STORED_EPOCH_MAX: Final = 2**30
"""Greatest epoch or generation that is taken over from a file or log: each election or rebalance
raises it by one, and what it is sent in ends at 2^31-1.
"""
STORED_NUMBER_MAX: Final = 2**62
"""Greatest offset or producer id that is taken over, likewise: its fields end at 2^63-1."""

TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset(
    {TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC, SHARE_STATE_TOPIC}
)


class TransactionVersion(IntEnum):
    """Level of the feature ``transaction.version`` (KIP-890; Kafka's TransactionVersion)."""

    TV_0 = 0
    TV_1 = 1
    TV_2 = 2


class IsolationLevel(IntEnum):
    """Which records a reader may see: up to the high watermark, or up to the last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class TopicPartition(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """One partition of a topic. Its arguments are positional on purpose: the types of
    ``TopicPartition("orders", 0)`` keep them from being swapped.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ProducerIdAndEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """A producer's id and epoch, as InitProducerId returns them."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch

    NONE: ClassVar[ProducerIdAndEpoch]
    """(-1, -1): the producer has no id yet."""


ProducerIdAndEpoch.NONE = ProducerIdAndEpoch(
    producer_id=ProducerId(-1), producer_epoch=ProducerEpoch(-1)
)

RecordT = TypeVar("RecordT")
ReplyT = TypeVar("ReplyT")
EffectT = TypeVar("EffectT")


class Decision(
    msgspec.Struct, Generic[RecordT, ReplyT, EffectT], frozen=True, kw_only=True, gc=False
):
    """What a core decides: records to append first, then the reply to send, then effects to carry
    out.

    ``records`` are typed transitions; the service encodes them with its ``log_format``.
    """

    records: tuple[RecordT, ...] = ()
    reply: ReplyT
    effects: tuple[EffectT, ...] = ()
    rule: str = ""
    """Id of the row in docs/rules.md that explains the decision, for the trace."""


# Ids, as Kafka writes them

_UUID_CHARACTERS: Final = 22
_NO_UUID: Final = bytes(16)
_UUIDS_MAX: Final = 4_096
"""Number of ids in each cache: a request names few topics and many partitions."""


@lru_cache(_UUIDS_MAX)
def uuid_text(value: uuid.UUID | None) -> str:
    """Format an id as Kafka does (Uuid.toString). None is the id of zeroes, as in a message."""
    return urlsafe_b64encode(_NO_UUID if value is None else value.bytes).rstrip(b"=").decode()


@lru_cache(_UUIDS_MAX)
def uuid_from(text: str) -> uuid.UUID:
    """Parse an id in Kafka's form (Uuid.fromString).

    Raises:
        ValueError: The text is no id.
    """
    if len(text) == _UUID_CHARACTERS:
        try:
            return uuid.UUID(bytes=urlsafe_b64decode(text + "=="))
        except ValueError:
            pass
    raise ValueError(f"{text!r} is no id of {_UUID_CHARACTERS} characters")


# Names to partitions, by Java's hash of a string


@lru_cache(maxsize=65_536)
def partition_for(coordinated_id: str, partition_count: int) -> int:
    """The partition of a transactional id (``__transaction_state``) or of a group
    (``__consumer_offsets``). Its leader is the coordinator.

    Every client may compute it, so it is part of the protocol.

    Counterpart: TransactionStateManager.partitionFor, GroupCoordinatorService.partitionFor.
    """
    name_hash = java_hash(coordinated_id)
    # Utils.abs: the lowest int has no positive twin and counts as 0
    return 0 if name_hash == -0x8000_0000 else abs(name_hash) % partition_count


def hash_buckets(element_count: int) -> int:
    """Number of buckets of a java.util.HashSet that was made from a collection of ``element_count``
    elements.
    """
    bucket_count = 16
    while bucket_count < element_count / 0.75 + 1:
        bucket_count *= 2
    return bucket_count


def hash_bucket(bucket_count: int, key_text: str) -> int:
    """Index of the bucket in which a java.util.HashSet puts a string. The set iterates bucket by
    bucket.
    """
    key_hash = java_hash(key_text) & 0xFFFF_FFFF
    return (key_hash ^ key_hash >> 16) & bucket_count - 1


_RUN_LENGTH: Final = 64
_POWERS_OF_31: Final = tuple(pow(31, power, 1 << 32) for power in range(_RUN_LENGTH, -1, -1))


def java_hash(text: str) -> int:
    """Java's String.hashCode: a signed 32-bit number, over UTF-16 code units."""
    code_units: Sequence[int] = text.encode("ascii") if text.isascii() else _utf16_units(text)
    hash_code = 0
    for run_start in range(0, len(code_units), _RUN_LENGTH):
        run = code_units[run_start : run_start + _RUN_LENGTH]
        hash_code = hash_code * _POWERS_OF_31[-1 - len(run)] + sum(
            map(mul, run, _POWERS_OF_31[-len(run) :])
        )
        hash_code &= 0xFFFF_FFFF
    return hash_code - 0x1_0000_0000 if hash_code >= 0x8000_0000 else hash_code


def _utf16_units(text: str) -> tuple[int, ...]:
    encoded_text = text.encode("utf-16-be", "surrogatepass")
    return struct.unpack(f"!{len(encoded_text) // 2}H", encoded_text)
