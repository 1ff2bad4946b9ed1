"""Verbs for frequent requests: each makes one request, or several, in full. ``of`` is a producer of
the play; its id, pid and epoch are sent unless others are given. ``to`` and ``of`` of logs are
partitions: ``t.0``, or ``t`` for the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from txnsim_lab.conformance._book.batches import batch_from
from txnsim_lab.conformance._book.frame_player import NO_SUCH_ID, add_values, fetch, produce
from txnsim_lab.conformance._book.values import CaseError, PlayTopic, Producer, Variables

Values = dict[str, Any]

TIMEOUT_MS: Final = 60_000
LATEST: Final = -1
DESCRIBING: Final = ("DescribeTransactions", 0)


class VerbRequest(NamedTuple):
    """A request: API, version, and fields by name."""

    api: str
    version: int
    values: Values
    note: str = ""
    """Addition to the step's note, if a verb makes several requests."""


Verb = Callable[..., list[VerbRequest]]


# Transactional ids


def init(
    variables: Variables,
    of: str | None = None,
    *,
    v: int = 4,
    id: str | None = None,
    timeout: int = TIMEOUT_MS,
    expect: Sequence[int] = (-1, -1),
) -> list[VerbRequest]:
    """InitProducerId, with an expected identity (KIP-360) if given."""
    producer = producer_of(variables, of)
    values = {
        "transactional_id": producer.id if id is None else id,
        "transaction_timeout": timeout,
        "producer_id": expect[0],
        "producer_epoch": expect[1],
    }
    return [VerbRequest("InitProducerId", v, values)]


def add(
    variables: Variables,
    of: str,
    *,
    to: str | list[str] = "t",
    v: int = 3,
    verify: bool = False,
    **other: Any,
) -> list[VerbRequest]:
    """AddPartitionsToTxn; ``verify`` from v4 on."""
    producer = producer_of(variables, of, other)
    topics: dict[str, list[int]] = {}
    for name in [to] if isinstance(to, str) else to:
        topic, partition = partition_of(variables, name)
        topics.setdefault(topic.name, []).append(partition)
    values = add_values(
        producer.id or "", producer.pid, producer.epoch, list(topics.items()), verify=verify
    )
    return [VerbRequest("AddPartitionsToTxn", v, values)]


def end(
    variables: Variables, of: str, *, v: int = 4, commit: bool = True, **other: Any
) -> list[VerbRequest]:
    """EndTxn."""
    producer = producer_of(variables, of, other)
    values = {
        "transactional_id": producer.id,
        "producer_id": producer.pid,
        "producer_epoch": producer.epoch,
        "committed": commit,
    }
    return [VerbRequest("EndTxn", v, values)]


def describe(variables: Variables, of: str | list[str], *, v: int = 0) -> list[VerbRequest]:
    """DescribeTransactions of one or several producers' ids."""
    names = [of] if isinstance(of, str) else of
    ids = [producer_of(variables, name).id for name in names]
    return [VerbRequest(DESCRIBING[0], v, {"transactional_ids": ids})]


def list_transactions(
    _variables: Variables,
    pattern: str | None = None,
    *,
    v: int = 2,
    states: Sequence[str] = (),
    pids: Sequence[int] = (),
    duration: int = -1,
) -> list[VerbRequest]:
    values = {
        "state_filters": list(states),
        "producer_id_filters": list(pids),
        "duration_filter": duration,
        "transactional_id_pattern": pattern,
    }
    return [VerbRequest("ListTransactions", v, values)]


def mark(
    variables: Variables,
    of: str,
    *,
    to: str | list[str] = "t",
    v: int = 1,
    commit: bool = True,
    coordinator: int = 0,
    tv: int = 0,
    **other: Any,
) -> list[VerbRequest]:
    """WriteTxnMarkers with one marker, as an operator writes it."""
    producer = producer_of(variables, of, other)
    topics: dict[str, list[int]] = {}
    for name in [to] if isinstance(to, str) else to:
        topic, partition = partition_of(variables, name)
        topics.setdefault(topic.name, []).append(partition)
    marker = {
        "producer_id": producer.pid,
        "producer_epoch": producer.epoch,
        "transaction_result": commit,
        "coordinator_epoch": coordinator,
        "transaction_version": tv,
        "topics": [{"name": name, "partition_indexes": parts} for name, parts in topics.items()],
    }
    return [VerbRequest("WriteTxnMarkers", v, {"markers": [marker]})]


# Logs


def send(
    variables: Variables,
    of: str | None = None,
    *,
    to: str = "t",
    v: int = 11,
    seq: int = -1,
    id: str | None = None,
    transactional: bool | None = None,
    acks: int = -1,
    **other: Any,
) -> list[VerbRequest]:
    """Produce of one batch; all other parameters are fields of the batch (``batches``)."""
    topic, partition = partition_of(variables, to)
    batch: Values = {}
    producer = None if of is None else producer_of(variables, of)
    if producer is not None:
        batch = {"pid": producer.pid, "epoch": producer.epoch, "seq": seq}
        id = producer.id if id is None else id
    is_transactional = (producer is not None and producer.id is not None) or id is not None
    batch["transactional"] = is_transactional if transactional is None else transactional
    other = {key.replace("_", "-"): value for key, value in other.items()}
    data = batch_from({**batch, **({} if seq == -1 else {"seq": seq}), **other})
    values = produce(
        (topic.name, topic.id), data, v, partition=partition, transactional_id=id, acks=acks
    )
    return [VerbRequest("Produce", v, values)]


def read(
    variables: Variables,
    of: str = "t",
    *,
    v: int = 12,
    offset: int = 0,
    isolation: int | None = None,
) -> list[VerbRequest]:
    """Fetch, at both isolation levels unless one is given."""
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


def ends(variables: Variables, of: str = "t", *, v: int = 7) -> list[VerbRequest]:
    """ListOffsets of the end: high watermark and last stable offset."""
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
                        "partitions": [{"partition_index": partition, "timestamp": LATEST}],
                    }
                ],
            },
            f"isolation {level}",
        )
        for level in (0, 1)
    ]


def producers(variables: Variables, of: str = "t") -> list[VerbRequest]:
    """DescribeProducers of one partition."""
    topic, partition = partition_of(variables, of)
    topics = [{"name": topic.name, "partition_indexes": [partition]}]
    return [VerbRequest("DescribeProducers", 0, {"topics": topics})]


VERBS: Final[Mapping[str, Verb]] = {
    "add": add,
    "describe": describe,
    "end": end,
    "ends": ends,
    "init": init,
    "list": list_transactions,
    "mark": mark,
    "producers": producers,
    "read": read,
    "send": send,
}


# What parameters mean


def producer_of(
    variables: Variables, name: str | None, other: Mapping[str, Any] | None = None
) -> Producer:
    producer = Producer(id=None, pid=-1, epoch=-1) if name is None else variables.get(name)
    if not isinstance(producer, Producer):
        raise CaseError(f"{name}: no producer of this play")
    changed = dict(other or {})
    changed_producer = Producer(
        id=changed.pop("id", producer.id),
        pid=changed.pop("pid", producer.pid),
        epoch=changed.pop("epoch", producer.epoch),
    )
    if changed:
        raise CaseError(f"unknown parameters: {', '.join(changed)}")
    return changed_producer


def topic_named(variables: Variables, name: str) -> str:
    """The full name of a topic of the play; any other name unchanged."""
    variable = variables.get(name)
    return variable.name if isinstance(variable, PlayTopic) else name


def partition_of(variables: Variables, name: str) -> tuple[PlayTopic, int]:
    """Parse ``t.0``, or ``t`` for partition 0. A topic that the case does not declare does not
    exist, and its name is sent unchanged.
    """
    topic, _, partition = name.partition(".")
    variable = variables.get(topic)
    if not isinstance(variable, PlayTopic):
        variable = PlayTopic(name=topic, id=NO_SUCH_ID)
    return variable, int(partition or 0)
