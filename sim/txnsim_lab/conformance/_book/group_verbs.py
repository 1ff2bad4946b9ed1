"""Verbs for positions of consumer groups in transactions.

``of`` is a producer, ``to`` the partitions whose positions are committed, as in ``verbs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from txnsim_lab.conformance._book.values import Variables
from txnsim_lab.conformance._book.verbs import (
    RequestFields,
    Verb,
    VerbRequest,
    partition_of,
    producer_of,
)

NO_GENERATION: Final = -1


def add_offsets_to_txn(
    variables: Variables, of: str, *, group: str, v: int = 3, **producer_fields: Any
) -> list[VerbRequest]:
    """Make an AddOffsetsToTxn request."""
    producer = producer_of(variables, of, producer_fields)
    request_fields: RequestFields = {
        "transactional_id": producer.id,
        "producer_id": producer.pid,
        "producer_epoch": producer.epoch,
        "group_id": group,
    }
    return [VerbRequest("AddOffsetsToTxn", v, request_fields)]


def txn_offset_commit(
    variables: Variables,
    of: str,
    *,
    group: str,
    to: str = "t",
    v: int = 3,
    offset: int = 1,
    generation: int = NO_GENERATION,
    member: str = "",
    instance: str | None = None,
    metadata: str | None = "",
    **producer_fields: Any,
) -> list[VerbRequest]:
    """Make a TxnOffsetCommit request for one partition."""
    producer = producer_of(variables, of, producer_fields)
    topic, partition = partition_of(variables, to)
    request_fields: RequestFields = {
        "transactional_id": producer.id,
        "group_id": group,
        "producer_id": producer.pid,
        "producer_epoch": producer.epoch,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": instance,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": metadata,
                    }
                ],
            }
        ],
    }
    return [VerbRequest("TxnOffsetCommit", v, request_fields)]


def fetch_committed_offset(
    variables: Variables, group: str, *, of: str = "t", v: int = 7, stable: bool = False
) -> list[VerbRequest]:
    """Make an OffsetFetch request for one partition."""
    topic, partition = partition_of(variables, of)
    request_fields: RequestFields = {
        "group_id": group,
        "topics": [{"name": topic.name, "partition_indexes": [partition]}],
        "require_stable": stable,
    }
    return [VerbRequest("OffsetFetch", v, request_fields)]


VERBS: Final[Mapping[str, Verb]] = {
    "add-offsets": add_offsets_to_txn,
    "commit": txn_offset_commit,
    "committed": fetch_committed_offset,
}
