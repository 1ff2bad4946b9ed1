"""The transactional core: what every client must be able to do at each ``transaction.version``."""

from __future__ import annotations

import time

from tests.clients.drivers.base import Driver, Record
from tests.clients.python.lab import Lab, error_of, expect, values

PARTITIONS = 6


def produce(lab: Lab) -> None:
    """Keys, headers, times and compressions survive, and offsets are in order."""
    driver = lab.driver
    now_ms = time.time_ns() // 1_000_000
    for codec in driver.codecs:
        topic = lab.topic(codec, 2)
        for partition_index in (0, 1):
            records = [
                Record(
                    b"%06d " % record_number * 20,
                    partition=partition_index,
                    key=b"key-%d" % record_number if record_number % 3 else None,
                    headers=(("a", b"%d" % record_number), ("a", b"again"), ("ü", b"\x00")),
                    timestamp_ms=now_ms - 86_400_123 + record_number,
                )
                for record_number in range(100)
            ]
            with driver.producer(compression=codec, is_idempotent=False) as producer:
                offsets = producer.send(topic, records)
            expect(f"{codec}: offsets", list(range(100)), offsets)
            records_read = [
                consumed
                for consumed in driver.read(topic, committed=False)
                if consumed.partition == partition_index
            ]
            expect(
                f"{codec}: offsets read", offsets, [consumed.offset for consumed in records_read]
            )
            for record, consumed in zip(records, records_read, strict=True):
                record_read = Record(
                    consumed.value,
                    partition_index,
                    consumed.key,
                    consumed.headers,
                    consumed.timestamp_ms,
                )
                expect(f"{codec}: record {consumed.offset}", record, record_read)


def idempotent(lab: Lab) -> None:
    """Each record is appended once and in order."""
    topic = lab.topic("idempotent", 3)
    expected_values = [b"%d" % record_number for record_number in range(1_000)]
    with lab.driver.producer() as producer:
        for partition_index in range(3):
            offsets = producer.send(
                topic,
                [Record(expected_value, partition_index) for expected_value in expected_values],
            )
            expect("offsets", list(range(1_000)), offsets)
    records = lab.driver.read(topic, committed=True)
    for partition_index in range(3):
        expect(
            f"partition {partition_index}",
            expected_values,
            values(records, partition=partition_index),
        )


def commit(lab: Lab) -> None:
    """Records on all brokers show at once, and the producer goes on."""
    driver, topic = lab.driver, lab.topic("commit", PARTITIONS)
    expect("brokers with a leader", lab.brokers, len(set(driver.leaders(topic))))
    with driver.producer(lab.name) as producer:
        producer.init()
        producer.begin()
        producer.send(
            topic, [Record(b"one", partition_index) for partition_index in range(PARTITIONS)]
        )
        expect("uncommitted", [b"one"] * PARTITIONS, values(driver.read(topic, committed=False)))
        expect("committed too early", [], values(driver.read(topic, committed=True)))
        producer.commit()
        lab.until_read(topic, [b"one"] * PARTITIONS)
        producer.begin()
        offsets = producer.send(
            topic, [Record(b"two", partition_index) for partition_index in range(PARTITIONS)]
        )
        # Each partition has the record and the marker behind it.
        expect("offsets behind the markers", [2] * PARTITIONS, offsets)
        producer.commit()
    lab.until_read(topic, [b"one"] * PARTITIONS + [b"two"] * PARTITIONS)


def abort(lab: Lab) -> None:
    """Aborted records stay hidden, the next transaction does not."""
    topic = lab.topic("abort", PARTITIONS)
    with lab.driver.producer(lab.name) as producer:
        producer.init()
        producer.begin()
        producer.send(
            topic, [Record(b"never", partition_index) for partition_index in range(PARTITIONS)]
        )
        producer.abort()
        producer.begin()
        producer.send(
            topic, [Record(b"then", partition_index) for partition_index in range(PARTITIONS)]
        )
        producer.commit()
    lab.until_read(topic, [b"then"] * PARTITIONS)
    all_values = sorted(values(lab.driver.read(topic, committed=False)))
    expect("uncommitted", [b"never"] * PARTITIONS + [b"then"] * PARTITIONS, all_values)


def read_committed(lab: Lab) -> None:
    """An open transaction holds back what others wrote behind it."""
    driver, topic = lab.driver, lab.topic("open")
    with driver.producer(lab.name) as producer, driver.producer() as plain_producer:
        producer.init()
        plain_producer.send(topic, [Record(b"before")])
        producer.begin()
        producer.send(topic, [Record(b"open")])
        plain_producer.send(topic, [Record(b"behind")])
        expect("committed", [b"before"], values(driver.read(topic, committed=True)))
        all_values = values(driver.read(topic, committed=False))
        expect("uncommitted", [b"before", b"open", b"behind"], all_values)
        producer.abort()
        lab.until_read(topic, [b"before", b"behind"])


def fence(lab: Lab) -> None:
    """A second producer with the id fences the first, and goes on."""
    driver, topic = lab.driver, lab.topic("fence", PARTITIONS)
    with driver.producer(lab.name) as old_producer, driver.producer(lab.name) as new_producer:
        old_producer.init()
        old_producer.begin()
        old_producer.send(
            topic, [Record(b"old", partition_index) for partition_index in range(PARTITIONS)]
        )
        new_producer.init()  # aborts what the old one has open
        new_producer.begin()
        new_producer.send(
            topic, [Record(b"new", partition_index) for partition_index in range(PARTITIONS)]
        )
        error = error_of(old_producer.commit)
        assert driver.is_fenced(error), f"not how it says that it is fenced: {error!r}"
        new_producer.commit()
        lab.until_read(topic, [b"new"] * PARTITIONS)


def timeout(lab: Lab) -> None:
    """The cluster aborts what lasts too long, and tells its producer so."""
    driver, topic = lab.driver, lab.topic("timeout", 2)
    with driver.producer(lab.name, timeout_ms=lab.timeout_ms) as producer:
        producer.init()
        producer.begin()
        producer.send(topic, [Record(b"late", 0), Record(b"late", 1)])
        _write_behind(driver, topic)
        lab.pass_time()
        lab.until_read(topic, [b"behind"] * 2)
        error = error_of(producer.commit)
        # The abort has raised the epoch (KIP-360): to its producer that is a newer producer.
        assert driver.is_fenced(error), f"not how it says that it is fenced: {error!r}"
    expect("committed", [b"behind"] * 2, values(driver.read(topic, committed=True)))
    with driver.producer(lab.name) as next_producer:
        next_producer.init()
        next_producer.begin()
        next_producer.send(topic, [Record(b"again", 0)])
        next_producer.commit()
    lab.until_read(topic, [b"again", b"behind", b"behind"])


def _write_behind(driver: Driver, topic: str) -> None:
    with driver.producer() as plain_producer:
        plain_producer.send(topic, [Record(b"behind", 0), Record(b"behind", 1)])
