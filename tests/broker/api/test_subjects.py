"""Whom requests are about: nothing that a request names may be lost to fault plans."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest

from tests.support.handlers import NO_SUCH_ID, Api
from txnsim.api._subjects import of_transactions
from txnsim.api.registry import HANDLERS
from txnsim.api.request import no_subject
from txnsim.faults.subjects import NO_SUBJECT, Subject
from txnsim.types import TopicPartition
from txnsim.wire import codec

NAMING = {
    "partition", "partition_index", "partition_indexes", "partitions", "producer_id",
    "transactional_id", "transactional_ids",
}  # fmt: skip
ABOUT_NOBODY = {
    "CreateTopics": "the partitions are about to be made",
    "ConsumerGroupHeartbeat": "it tells what a member owns, by topic id",
    "DescribeTopicPartitions": "a cursor says where to go on",
    "DescribeQuorum": "the one partition of the metadata",
}
POSITION = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
ORDERS = TopicPartition("orders", 0)


def field_names(cls: Any, seen: set[Any]) -> set[str]:
    """The names of a message's fields, and of its parts'."""
    seen.add(cls)
    names: set[str] = set()
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        names.add(field.name)
        parts = [hints[field.name]]
        while parts:
            part = parts.pop()
            parts += typing.get_args(part)
            if isinstance(part, type) and dataclasses.is_dataclass(part) and part not in seen:
                names |= field_names(part, seen)
    return names


def test_every_request_that_names_a_transaction_or_a_partition_has_a_subject() -> None:
    without = {
        handler.name
        for key, handler in HANDLERS.items()
        if handler.subject is no_subject
        and any(
            NAMING & field_names(codec.request_class(key, version), set())
            for version in range(handler.versions[0], handler.versions[1] + 1)
        )
    }
    assert without == set(ABOUT_NOBODY)


def test_several_transactional_ids_are_one_subject_each() -> None:
    assert of_transactions([]) is NO_SUBJECT
    assert of_transactions(["a"]) == Subject(transactional_id="a")
    assert of_transactions(iter("ab")) == Subject(
        transactional_id="a", others=(Subject(transactional_id="b"),)
    )


def named(name: str, topics: list[dict[str, Any]]) -> dict[str, Any]:
    """A request's values; groups are told in both shapes, of which the first has no ids."""
    if name != "OffsetFetch":
        return {"topics": topics}
    group = {"group_id": "g", "topics": topics, "member_id": None, "member_epoch": -1}
    old = [{key: one[key] for key in one if key != "topic_id"} for one in topics]
    return {"groups": [group], "group_id": "g", "topics": old}


@pytest.mark.parametrize(
    ("name", "version", "topic"),
    [
        ("OffsetDelete", 0, {"partitions": [{"partition_index": 0}]}),
        ("OffsetFetch", 1, {"partition_indexes": [0]}),
        ("OffsetFetch", 8, {"partition_indexes": [0]}),
        ("OffsetFetch", 10, {"partition_indexes": [0]}),
        ("ListPartitionReassignments", 0, {"partition_indexes": [0]}),
        ("DescribeLogDirs", 2, {"partitions": [0]}),
        ("OffsetCommit", 2, {"partitions": [POSITION]}),
        ("OffsetCommit", 10, {"partitions": [POSITION]}),
        ("TxnOffsetCommit", 0, {"partitions": [POSITION]}),
    ],
)
async def test_partitions_are_named_by_their_topic(
    api: Api, name: str, version: int, topic: dict[str, Any]
) -> None:
    known = {"topic" if name == "DescribeLogDirs" else "name": "orders"}
    if name in {"OffsetCommit", "OffsetFetch", "TxnOffsetCommit"}:
        known["topic_id"] = api.topic_id("orders")
    about = api.subject(name, version, **named(name, [{**known, **topic}]))
    assert about.partitions == (ORDERS,)


async def test_an_unknown_id_has_no_name(api: Api) -> None:
    topics = [{"topic_id": NO_SUCH_ID, "partition_indexes": [0]}]
    about = api.subject("OffsetFetch", 10, **named("OffsetFetch", topics))
    assert about.partitions == (TopicPartition("", 0),)


async def test_a_group_that_asks_for_all_names_no_partition(api: Api) -> None:
    group = {"group_id": "g", "topics": None, "member_id": None, "member_epoch": -1}
    assert api.subject("OffsetFetch", 8, groups=[group]).partitions == ()
