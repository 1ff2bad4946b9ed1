"""Verbs for frequent requests: each makes one request, or several, in full. ``of`` is a producer of
the play; its id, pid and epoch are sent unless others are given. ``to`` and ``of`` of logs are
partitions: ``t.0``, or ``t`` for the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from txnsim_lab.conformance._book.batches import batch_from
from txnsim_lab.conformance._book.frame_player import (
    UNUSED_TOPIC_ID,
    add_partitions_values,
    fetch,
    produce,
)
from txnsim_lab.conformance._book.values import CaseError, PlayTopic, Producer, Variables

RequestFields = dict[str, Any]

TIMEOUT_MS: Final = 60_000
LATEST_TIMESTAMP: Final = -1
DESCRIBE_TRANSACTIONS: Final = ("DescribeTransactions", 0)


class VerbRequest(NamedTuple):
    """A request: API, version, and fields by name."""

    api: str
    version: int
    fields: RequestFields
    note: str = ""
    """Addition to the step's note, if a verb makes several requests."""


Verb = Callable[..., list[VerbRequest]]


# Transactional ids


def init_producer_id(
    variables: Variables,
    of: str | None = None,
    *,
    v: int = 4,
    id: str | None = None,
    timeout: int = TIMEOUT_MS,
    expect: Sequence[int] = (-1, -1),
) -> list[VerbRequest]:
    """Make an InitProducerId request; ``expect`` is the producer id and epoch that the client has
    (KIP-360).
    """
    producer = producer_of(variables, of)
    request_fields = {
        "transactional_id": producer.id if id is None else id,
        "transaction_timeout": timeout,
        "producer_id": expect[0],
        "producer_epoch": expect[1],
    }
    return [VerbRequest("InitProducerId", v, request_fields)]


def add_partitions_to_txn(
    variables: Variables,
    of: str,
    *,
    to: str | list[str] = "t",
    v: int = 3,
    verify: bool = False,
    **producer_fields: Any,
) -> list[VerbRequest]:
    """Make an AddPartitionsToTxn request; ``verify`` exists from v4 on."""
    producer = producer_of(variables, of, producer_fields)
    topics: dict[str, list[int]] = {}
    for partition_name in [to] if isinstance(to, str) else to:
        topic, partition = partition_of(variables, partition_name)
        topics.setdefault(topic.name, []).append(partition)
    request_fields = add_partitions_values(
        producer.id or "", producer.pid, producer.epoch, list(topics.items()), only_verifies=verify
    )
    return [VerbRequest("AddPartitionsToTxn", v, request_fields)]


def end_txn(
    variables: Variables, of: str, *, v: int = 4, commit: bool = True, **producer_fields: Any
) -> list[VerbRequest]:
    """Make an EndTxn request."""
    producer = producer_of(variables, of, producer_fields)
    request_fields = {
        "transactional_id": producer.id,
        "producer_id": producer.pid,
        "producer_epoch": producer.epoch,
        "committed": commit,
    }
    return [VerbRequest("EndTxn", v, request_fields)]


def describe_transactions(
    variables: Variables, of: str | list[str], *, v: int = 0
) -> list[VerbRequest]:
    """Make a DescribeTransactions request for one or several producers."""
    variable_names = [of] if isinstance(of, str) else of
    transactional_ids = [
        producer_of(variables, variable_name).id for variable_name in variable_names
    ]
    return [VerbRequest(DESCRIBE_TRANSACTIONS[0], v, {"transactional_ids": transactional_ids})]


def list_transactions(
    _variables: Variables,
    pattern: str | None = None,
    *,
    v: int = 2,
    states: Sequence[str] = (),
    pids: Sequence[int] = (),
    duration: int = -1,
) -> list[VerbRequest]:
    request_fields = {
        "state_filters": list(states),
        "producer_id_filters": list(pids),
        "duration_filter": duration,
        "transactional_id_pattern": pattern,
    }
    return [VerbRequest("ListTransactions", v, request_fields)]


def write_txn_markers(
    variables: Variables,
    of: str,
    *,
    to: str | list[str] = "t",
    v: int = 1,
    commit: bool = True,
    coordinator: int = 0,
    tv: int = 0,
    **producer_fields: Any,
) -> list[VerbRequest]:
    """Make a WriteTxnMarkers request with one marker, as an operator writes it."""
    producer = producer_of(variables, of, producer_fields)
    topics: dict[str, list[int]] = {}
    for partition_name in [to] if isinstance(to, str) else to:
        topic, partition = partition_of(variables, partition_name)
        topics.setdefault(topic.name, []).append(partition)
    marker = {
        "producer_id": producer.pid,
        "producer_epoch": producer.epoch,
        "transaction_result": commit,
        "coordinator_epoch": coordinator,
        "transaction_version": tv,
        "topics": [
            {"name": partition_name, "partition_indexes": partition_indexes}
            for partition_name, partition_indexes in topics.items()
        ],
    }
    return [VerbRequest("WriteTxnMarkers", v, {"markers": [marker]})]


# Logs


def produce_batch(
    variables: Variables,
    of: str | None = None,
    *,
    to: str = "t",
    v: int = 11,
    seq: int = -1,
    id: str | None = None,
    transactional: bool | None = None,
    acks: int = -1,
    **batch_fields: Any,
) -> list[VerbRequest]:
    """Make a Produce request with one batch; all other parameters are fields of the batch
    (``batches``).
    """
    topic, partition = partition_of(variables, to)
    producer_fields: RequestFields = {}
    producer = None if of is None else producer_of(variables, of)
    if producer is not None:
        producer_fields = {"pid": producer.pid, "epoch": producer.epoch, "seq": seq}
        id = producer.id if id is None else id
    is_transactional = (producer is not None and producer.id is not None) or id is not None
    producer_fields["transactional"] = is_transactional if transactional is None else transactional
    batch_fields = {
        field_name.replace("_", "-"): field_value
        for field_name, field_value in batch_fields.items()
    }
    batch_bytes = batch_from(
        {**producer_fields, **({} if seq == -1 else {"seq": seq}), **batch_fields}
    )
    request_fields = produce(
        (topic.name, topic.id), batch_bytes, v, partition=partition, transactional_id=id, acks=acks
    )
    return [VerbRequest("Produce", v, request_fields)]


def fetch_partition(
    variables: Variables,
    of: str = "t",
    *,
    v: int = 12,
    offset: int = 0,
    isolation: int | None = None,
) -> list[VerbRequest]:
    """Make a Fetch request, or one for each isolation level unless ``isolation`` is given."""
    topic, partition = partition_of(variables, of)
    return [
        VerbRequest(
            "Fetch",
            v,
            fetch((topic.name, topic.id), offset, partition=partition, isolation=level),
            "" if isolation is not None else f"isolation {level}",
        )
        for level in ((0, 1) if isolation is None else (isolation,))
    ]


def list_end_offsets(variables: Variables, of: str = "t", *, v: int = 7) -> list[VerbRequest]:
    """Make ListOffsets requests for the high watermark and for the last stable offset."""
    topic, partition = partition_of(variables, of)
    return [
        VerbRequest(
            "ListOffsets",
            v,
            {
                "replica_id": -1,
                "isolation_level": level,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {"partition_index": partition, "timestamp": LATEST_TIMESTAMP}
                        ],
                    }
                ],
            },
            f"isolation {level}",
        )
        for level in (0, 1)
    ]


def describe_producers(variables: Variables, of: str = "t") -> list[VerbRequest]:
    """Make a DescribeProducers request for one partition."""
    topic, partition = partition_of(variables, of)
    topics = [{"name": topic.name, "partition_indexes": [partition]}]
    return [VerbRequest("DescribeProducers", 0, {"topics": topics})]


VERBS: Final[Mapping[str, Verb]] = {
    "add": add_partitions_to_txn,
    "describe": describe_transactions,
    "end": end_txn,
    "ends": list_end_offsets,
    "init": init_producer_id,
    "list": list_transactions,
    "mark": write_txn_markers,
    "producers": describe_producers,
    "read": fetch_partition,
    "send": produce_batch,
}


# What parameters mean


def producer_of(
    variables: Variables,
    variable_name: str | None,
    producer_fields: Mapping[str, Any] | None = None,
) -> Producer:
    producer = (
        Producer(id=None, pid=-1, epoch=-1)
        if variable_name is None
        else variables.get(variable_name)
    )
    if not isinstance(producer, Producer):
        raise CaseError(f"{variable_name}: no producer of this play")
    changed_fields = dict(producer_fields or {})
    changed_producer = Producer(
        id=changed_fields.pop("id", producer.id),
        pid=changed_fields.pop("pid", producer.pid),
        epoch=changed_fields.pop("epoch", producer.epoch),
    )
    if changed_fields:
        raise CaseError(f"unknown parameters: {', '.join(changed_fields)}")
    return changed_producer


def topic_named(variables: Variables, topic_name: str) -> str:
    """The full name of a topic of the play; any other name unchanged."""
    variable = variables.get(topic_name)
    return variable.name if isinstance(variable, PlayTopic) else topic_name


def partition_of(variables: Variables, partition_name: str) -> tuple[PlayTopic, int]:
    """Parse ``t.0``, or ``t`` for partition 0. A topic that the case does not declare does not
    exist, and its name is sent unchanged.
    """
    topic, _, partition = partition_name.partition(".")
    variable = variables.get(topic)
    if not isinstance(variable, PlayTopic):
        variable = PlayTopic(name=topic, id=UNUSED_TOPIC_ID)
    return variable, int(partition or 0)
