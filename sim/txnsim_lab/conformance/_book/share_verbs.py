"""Short words for members of share groups: ``shared`` gives share partitions a state, ``share``
fetches from them, ``settle`` says what became of records.

``acks`` are ``"t.0 0-4:1"``: a range of offsets and a type, or one for each offset, ``0-2:1,2,3``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from txnsim_lab.conformance._book.values import Variables
from txnsim_lab.conformance._book.verbs import Request, Values, Verb, partition_of

_MOST: Final = 1 << 20


def shared(
    variables: Variables,
    group: str,
    *,
    of: Sequence[str] = ("t.0",),
    start: int = 0,
    epoch: int = 0,
) -> list[Request]:
    """InitializeShareGroupState."""
    values: Values = {"group_id": group, "topics": []}
    for name in of:
        topic, partition = partition_of(variables, name)
        part = {"partition": partition, "state_epoch": epoch, "start_offset": start}
        values["topics"].append({"topic_id": topic.id, "partitions": [part]})
    return [Request("InitializeShareGroupState", 0, values)]


def share(
    variables: Variables,
    group: str,
    *,
    v: int = 2,
    member: str = "m1",
    epoch: int = 0,
    of: Sequence[str] = (),
    acks: Sequence[str] = (),
    forget: Sequence[str] = (),
    wait: int = 5_000,
    min_bytes: int = 1,
    max_bytes: int = _MOST,
    records: int = 500,
    batch: int = 500,
    mode: int = 0,
    renew: bool = False,
) -> list[Request]:
    """ShareFetch."""
    values: Values = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": epoch,
        "max_wait": wait,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "max_records": records,
        "batch_size": batch,
        "topics": _topics(variables, of, acks),
        "forgotten_topics_data": [
            {"topic_id": topic.id, "partitions": [partition]}
            for topic, partition in (partition_of(variables, name) for name in forget)
        ],
    }
    if v >= 2:
        values |= {"share_acquire_mode": mode, "is_renew_ack": renew}
    return [Request("ShareFetch", v, values)]


def settle(
    variables: Variables,
    group: str,
    *,
    v: int = 2,
    member: str = "m1",
    epoch: int = 1,
    of: Sequence[str] = (),
    acks: Sequence[str] = (),
    renew: bool = False,
) -> list[Request]:
    """ShareAcknowledge."""
    values: Values = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": epoch,
        "topics": _topics(variables, of, acks),
    }
    if v >= 2:
        values["is_renew_ack"] = renew
    return [Request("ShareAcknowledge", v, values)]


def _topics(variables: Variables, of: Sequence[str], acks: Sequence[str]) -> list[Any]:
    said: dict[str, list[Any]] = {name: [] for name in of}
    for one in acks:
        name, _, what = one.partition(" ")
        said.setdefault(name, [])
        if what:
            said[name].append(_acknowledgement(what))
    topics: dict[Any, list[Any]] = {}
    for name, batches in said.items():
        topic, partition = partition_of(variables, name)
        part = {"partition_index": partition, "acknowledgement_batches": batches}
        topics.setdefault(topic.id, []).append(part)
    return [{"topic_id": topic_id, "partitions": parts} for topic_id, parts in topics.items()]


def _acknowledgement(text: str) -> Mapping[str, Any]:
    offsets, _, types = text.partition(":")
    first, _, last = offsets.partition("-")
    return {
        "first_offset": int(first),
        "last_offset": int(last or first),
        "acknowledge_types": [int(one) for one in types.split(",") if one],
    }


VERBS: Final[Mapping[str, Verb]] = {"shared": shared, "share": share, "settle": settle}
