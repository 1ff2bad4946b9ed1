"""Produce from a share partition's leader to the leader of a dead letter topic (KIP-1191)."""

from __future__ import annotations

import uuid

import msgspec

from txnsim.types import TopicPartition


class DeadLettersCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Append a batch of dead letters with acks=-1."""

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    batch: bytes


class DeadLettersReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of a DeadLettersCommand."""

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    error: int = 0
