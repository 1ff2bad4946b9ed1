"""The vocabulary: values that compare, hash and refuse to change."""

from __future__ import annotations

import inspect

import msgspec
import pytest

import txnsim.types
from txnsim.faults import crossings, subjects
from txnsim.group import commands as group_commands
from txnsim.group import consumer_records, offset_commands, records
from txnsim.interbroker import lifecycle, replication, transactions
from txnsim.txn import commands
from txnsim.types import Decision, IsolationLevel, TopicPartition, TransactionVersion

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
