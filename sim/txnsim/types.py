"""The vocabulary: frozen values that every layer may speak, without behaviour.

Ids and offsets are ``NewType``s so that mypy tells them apart. Values are frozen ``msgspec``
structs: hashable, comparable and an order of magnitude cheaper to make than frozen dataclasses.
Errors appear here as Kafka's numbers (``int``); the names live in ``txnsim.errors``.

This module imports nothing of ``txnsim``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Generic, NewType, TypeVar

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

TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset(
    {TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC, "__share_group_state"}
)


class TransactionVersion(IntEnum):
    """Level of the feature ``transaction.version`` (KIP-890; Kafka's TransactionVersion)."""

    TV_0 = 0
    TV_1 = 1
    TV_2 = 2


class IsolationLevel(IntEnum):
    """What a reader may see: up to the high watermark, or up to the last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class TopicPartition(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """One partition of a topic. Positional on purpose: ``TopicPartition("orders", 0)`` can't be
    swapped.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ProducerIdAndEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """A producer's identity as the broker hands it out."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch


RecordT = TypeVar("RecordT")
ReplyT = TypeVar("ReplyT")
EffectT = TypeVar("EffectT")


class Decision(
    msgspec.Struct, Generic[RecordT, ReplyT, EffectT], frozen=True, kw_only=True, gc=False
):
    """What a core wants done: records to append first, then the reply to release, then effects to
    follow up.

    ``records`` are typed transitions; the service encodes them with its ``log_format``.
    """

    records: tuple[RecordT, ...] = ()
    reply: ReplyT
    effects: tuple[EffectT, ...] = ()
    rule: str = ""
    """Row of docs/rules.md that explains it, for the trace."""
