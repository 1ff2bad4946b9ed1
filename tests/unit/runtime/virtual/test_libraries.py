"""What client libraries need so that they can follow a virtual run."""

from __future__ import annotations

import datetime
import sys
import time
import types
import zlib
from contextlib import ExitStack
from typing import Any

import aiokafka
import pytest
from aiokafka.producer.producer import AIOKafkaProducer
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.structs import BrokerMetadata

from txnsim.runtime.virtual.libraries import Libraries, native_attribute, put_native_attribute

BUILDERS = {
    "DefaultRecordBatchBuilder": lambda: DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=0,
        batch_size=10_000,
    ),
    "LegacyRecordBatchBuilder": lambda: LegacyRecordBatchBuilder(
        magic=1, compression_type=0, batch_size=10_000
    ),
}


def stamp(builder: Any, timestamp: int | None = None) -> int:
    """The stamp of a record that is added now."""
    more = {"headers": []} if isinstance(builder, DefaultRecordBatchBuilder) else {}
    added = builder.append(0, timestamp, b"key", b"value", **more)
    found: int = added.timestamp
    return found


def lent(stack: ExitStack, *, ours: bool = True) -> Libraries:
    libraries = Libraries(stack, is_ours=lambda: ours)
    libraries.lend()
    return libraries


@pytest.mark.parametrize("name", BUILDERS)
def test_a_record_without_a_stamp_gets_the_time_of_the_run(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        lent(stack)
        monkeypatch.setattr(time, "time", lambda: 7.5)
        assert stamp(BUILDERS[name]()) == 7_500
        assert stamp(BUILDERS[name](), 3) == 3
    monkeypatch.undo()
    assert stamp(BUILDERS[name]()) > 1e12


@pytest.mark.parametrize("name", BUILDERS)
def test_another_thread_stamps_by_real_time(name: str) -> None:
    with ExitStack() as stack:
        lent(stack, ours=False)
        assert stamp(BUILDERS[name]()) > 1e12


def test_a_run_counts_its_producers_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AIOKafkaProducer, "_PRODUCER_CLIENT_ID_SEQUENCE", 41)
    with ExitStack() as stack:
        libraries = lent(stack)
        AIOKafkaProducer._PRODUCER_CLIENT_ID_SEQUENCE += 2
        libraries.lend()  # lent already: the count goes on
        assert AIOKafkaProducer._PRODUCER_CLIENT_ID_SEQUENCE == 2
    assert AIOKafkaProducer._PRODUCER_CLIENT_ID_SEQUENCE == 41


def test_brokers_hash_by_what_they_say() -> None:
    broker = BrokerMetadata(1, "localhost", 9092, None)
    real = hash(broker)
    with ExitStack() as stack:
        lent(stack)
        assert hash(broker) == zlib.crc32(b"(1, 'localhost', 9092, None)")
    assert hash(broker) == real
    with ExitStack() as stack:
        lent(stack, ours=False)
        assert hash(broker) == real


def test_what_says_itself_how_it_hashes_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broker:
        def __hash__(self) -> int:
            return 5

    monkeypatch.setattr(aiokafka.structs, "BrokerMetadata", Broker)
    with ExitStack() as stack:
        lent(stack)
        assert hash(Broker()) == 5


def test_what_is_not_loaded_or_has_another_form_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = types.SimpleNamespace(
        AIOKafkaProducer=type("AIOKafkaProducer", (), {}),
        DefaultRecordBatchBuilder=type("DefaultRecordBatchBuilder", (), {}),
    )
    monkeypatch.setitem(sys.modules, "aiokafka.producer.producer", other)
    monkeypatch.setitem(sys.modules, "aiokafka.record._crecords.default_records", other)
    monkeypatch.delitem(sys.modules, "aiokafka.structs")
    with ExitStack() as stack:
        lent(stack)
    assert "append" not in vars(other.DefaultRecordBatchBuilder)


def test_a_library_that_is_loaded_later_is_found_then(monkeypatch: pytest.MonkeyPatch) -> None:
    structs = sys.modules["aiokafka.structs"]
    monkeypatch.delitem(sys.modules, "aiokafka.structs")
    with ExitStack() as stack:
        libraries = lent(stack)
        assert "__hash__" not in vars(BrokerMetadata)
        monkeypatch.setitem(sys.modules, "aiokafka.structs", structs)
        libraries.lend()
        assert "__hash__" in vars(BrokerMetadata)
    assert "__hash__" not in vars(BrokerMetadata)


def test_an_attribute_is_replaced_for_subclasses_as_well_and_put_back() -> None:
    class Moment(datetime.datetime):
        """Bound the class before."""

    real = native_attribute(datetime.date, "toordinal")
    assert real is not None
    when = Moment(2026, 1, 1)
    expected = when.toordinal()
    assert put_native_attribute(datetime.date, "toordinal", lambda _self: -1)
    try:
        assert when.toordinal() == -1
    finally:
        assert put_native_attribute(datetime.date, "toordinal", real)
    assert when.toordinal() == expected


def test_what_is_not_there_can_not_be_replaced() -> None:
    assert native_attribute(datetime.date, "of_no_class") is None
    assert not put_native_attribute(datetime.date, "of_no_class", 1)
    assert not hasattr(datetime.date, "of_no_class")
