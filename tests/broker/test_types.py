"""The vocabulary: values that compare, hash and refuse to change."""

from __future__ import annotations

import inspect
from functools import partial

import msgspec
import pytest

import txnsim.types
from txnsim.faults import crossings, subjects
from txnsim.group import commands as group_commands
from txnsim.group import consumer_records, offset_commands, records
from txnsim.interbroker import lifecycle, replication, transactions
from txnsim.txn import commands
from txnsim.types import (
    Decision,
    IsolationLevel,
    TopicPartition,
    TransactionVersion,
    hash_bucket,
    hash_buckets,
    java_hash,
    partition_for,
)

MODULES = (
    *(txnsim.types, crossings, subjects, lifecycle, replication, transactions, commands),
    *(group_commands, offset_commands, records, consumer_records),
)
"""What is asked, answered and stored: values without behaviour."""

STRUCTS = [
    value
    for module in MODULES
    for _name, value in inspect.getmembers(module, inspect.isclass)
    if issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
]


@pytest.mark.parametrize("struct", STRUCTS)
def test_every_value_is_frozen_and_named_by_keyword(struct: type[msgspec.Struct]) -> None:
    assert struct.__struct_config__.frozen
    positional = [
        f.name for f in msgspec.structs.fields(struct) if not _keyword_only(struct, f.name)
    ]
    assert positional == (["topic", "partition"] if struct is TopicPartition else [])


def _keyword_only(struct: type[msgspec.Struct], field: str) -> bool:
    kind = inspect.signature(struct).parameters[field].kind
    return kind is inspect.Parameter.KEYWORD_ONLY


def test_partitions_sort_by_topic_then_number_and_print_as_kafka_prints_them() -> None:
    partitions = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 2)]
    assert [str(partition) for partition in sorted(partitions)] == ["a-2", "a-10", "b-0"]


def test_equal_values_are_one_key() -> None:
    assert len({TopicPartition("a", 0), TopicPartition("a", 0)}) == 1


def test_a_decision_appends_nothing_by_default() -> None:
    decision: Decision[object, str, object] = Decision(reply="ok")
    assert (decision.records, decision.effects) == ((), ())


def test_numbers_are_those_of_the_wire() -> None:
    assert [level.value for level in IsolationLevel] == [0, 1]
    assert [version.value for version in TransactionVersion] == [0, 1, 2]


def test_the_vocabulary_imports_nothing_of_ours() -> None:
    names = {
        value.__module__ for value in vars(txnsim.types).values() if hasattr(value, "__module__")
    }
    assert {name for name in names if name.startswith("txnsim")} == {"txnsim.types"}


# Placement of transactional ids and groups, pinned to values of Kafka's own function


@pytest.mark.parametrize(
    ("name", "of_50", "of_3"),
    [
        ("my-txn-id", 11, 2),
        ("txn-1", 10, 2),
        ("test-transactional-id", 40, 0),
        ("", 0, 0),
        ("a", 47, 1),
        ("polygenelubricants", 0, 0),  # hashes to the lowest int, which has no positive twin
        ("té-été", 0, 0),
        ("😀", 49, 1),  # two UTF-16 code units
    ],
)
def test_ids_go_where_java_hash_codes_send_them(name: str, of_50: int, of_3: int) -> None:
    assert partition_for(name, 50) == of_50
    assert partition_for(name, 3) == of_3


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("polygenelubricants", -(2**31)), ("my-txn-id", 1_405_732_511)],
)
def test_hash_codes_are_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_the_order_of_a_hash_set_is_javas() -> None:
    """As a real 4.4.0 tells topics that there are not."""
    of_3 = partial(hash_bucket, hash_buckets(3))
    assert sorted(["a/b", ".", ""], key=of_3) == ["", "a/b", "."]
    asked = ["metadata-missing", "bad name", ""]
    assert sorted(asked, key=of_3) == ["", "bad name", "metadata-missing"]
    assert (hash_buckets(0), hash_buckets(11), hash_buckets(12), hash_buckets(40)) == (
        *(16, 16, 32, 64),
    )
