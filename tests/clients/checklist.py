"""What every Python client must be able to do against us: one list of checks for all of them.

Those that the client matrix asks of every library are written in ``tests/clients/python``; here
time is advanced where it passes there.

A test module derives a class from each list, names its driver there, and so fails under its own
name. The checks of ``TransactionChecks`` run at each level of ``transaction.version``, the others
at the newest.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import pytest

from tests.clients.drivers.base import Driver, DriverProducer, Headers, Record
from tests.clients.neighbours import bad_neighbours
from tests.clients.python import transactions
from tests.clients.python.lab import Lab, until_read, values

if TYPE_CHECKING:
    from tests.clients.conftest import Server

ROOT: Final = Path(__file__).resolve().parents[2]
PARTITIONS: Final = 6


class Checks:
    """The base of all lists of checks."""

    driver: ClassVar[type[Driver]]


class TransactionChecks(Checks):
    """Checks of transactions, which every client passes."""

    levels = (0, 1, 2)

    def test_a_commit_shows_records_on_all_brokers_at_once(self, lab: Lab) -> None:
        transactions.commit(lab)

    def test_an_abort_hides_records_on_all_brokers(self, lab: Lab) -> None:
        transactions.abort(lab)

    def test_many_transactions_in_sequence_keep_their_outcomes_and_order(
        self, client: Driver, name: str
    ) -> None:
        client.create_topic(name, 2)
        with client.producer(name) as producer:
            producer.init()
            for transaction_number in range(24):
                producer.begin()
                producer.send(name, [Record(b"%d" % transaction_number, index) for index in (0, 1)])
                if transaction_number % 3 == 2:
                    producer.abort()
                else:
                    producer.commit()
            producer.begin()  # nothing in it
            producer.commit()
            producer.begin()
            producer.send(name, [Record(b"last", 0), Record(b"last", 1)])
            producer.commit()
        expected_values = [
            b"%d" % transaction_number
            for transaction_number in range(24)
            if transaction_number % 3 != 2
        ] + [b"last"]
        records = until_read(client, name, expected_values * 2)
        for partition_index in (0, 1):
            assert values(records, partition=partition_index) == expected_values

    def test_a_second_producer_fences_the_first(self, lab: Lab) -> None:
        transactions.fence(lab)

    def test_a_fenced_producer_can_not_append(self, client: Driver, name: str) -> None:
        client.create_topic(name, 1)
        with client.producer(name) as new_producer:
            with client.producer(name) as old_producer:
                old_producer.init()
                old_producer.begin()
                old_producer.send(name, [Record(b"old")])
                new_producer.init()
                with pytest.raises(Exception) as error_info:  # noqa: PT011 - judged in the next line
                    old_producer.send(name, [Record(b"zombie")])
                assert client.is_old_epoch(error_info.value), repr(error_info.value)
            # The old one is closed before: kafka-python asks for a new epoch by itself, and where
            # that request meets an open transaction the coordinator fences that one, as Kafka's
            # does (TransactionCoordinator.initTransactionId looks at no epoch in Ongoing).
            new_producer.begin()
            new_producer.send(name, [Record(b"new")])
            new_producer.commit()
            until_read(client, name, [b"new"])
        assert values(client.read(name, committed=False)) == [b"old", b"new"]

    def test_a_transaction_that_lasts_too_long_is_aborted(self, lab: Lab) -> None:
        transactions.timeout(lab)

    def test_bad_neighbours_disturb_nobody(self, client: Driver, name: str, server: Server) -> None:
        client.create_topic(name, PARTITIONS)
        with client.producer(name) as producer:
            producer.init()
            producer.begin()
            with bad_neighbours(server.bootstrap) as neighbours:
                for neighbour_index, neighbour in enumerate(neighbours):
                    producer.send(
                        name, [Record(b"%d" % neighbour_index, neighbour_index % PARTITIONS)]
                    )
                    neighbour.misbehave()
                    producer.send(
                        name, [Record(b"%d" % neighbour_index, neighbour_index % PARTITIONS)]
                    )
                for neighbour in neighbours:
                    neighbour.expect_answer()
                producer.commit()
                expected_values = [
                    b"%d" % neighbour_index
                    for neighbour_index in range(len(neighbours))
                    for _twice in (1, 2)
                ]
                until_read(client, name, expected_values)


class ProducerChecks(Checks):
    """Checks of topics, producers and consumers at the newest level."""

    def test_a_topic_is_created_once(self, client: Driver, name: str) -> None:
        client.create_topic(name, 4)
        assert len(client.leaders(name)) == 4
        with pytest.raises(Exception) as error_info:  # noqa: PT011 - judged in the next line
            client.create_topic(name, 4)
        assert client.is_topic_exists(error_info.value), repr(error_info.value)

    def test_an_idempotent_producer_appends_each_record_once_and_in_order(self, lab: Lab) -> None:
        transactions.idempotent(lab)

    def test_a_compressed_transaction_is_read_as_it_was_sent(
        self, client: Driver, name: str, codec: str
    ) -> None:
        client.create_topic(name, 2)
        expected_values = [b"%06d " % record_number * 50 for record_number in range(200)]
        with client.producer(name, compression=codec) as producer:
            producer.init()
            producer.begin()
            producer.send(
                name,
                [
                    Record(value, expected_value_index % 2)
                    for expected_value_index, value in enumerate(expected_values)
                ],
            )
            producer.commit()
        records = until_read(client, name, expected_values)
        assert values(records, partition=0) == expected_values[::2]

    def test_a_record_as_large_as_allowed_goes_through(self, client: Driver, name: str) -> None:
        client.create_topic(name, 1)
        large_record = random.Random(7).randbytes(990_000)
        with client.producer(name) as producer:
            producer.init()
            producer.begin()
            producer.send(name, [Record(b"before"), Record(large_record), Record(b"after")])
            producer.commit()
        until_read(client, name, [b"before", large_record, b"after"])

    def test_keys_headers_and_times_survive(self, client: Driver, name: str) -> None:
        client.create_topic(name, 1)
        now_ms = time.time_ns() // 1_000_000
        headers: Headers = (("a", b"1"), ("a", b"2"), ("empty", b""), ("ü", b"\x00"))
        if client.can_null_headers:
            headers = (*headers, ("none", None))
        records = [
            Record(b"v", key=b"k", timestamp_ms=now_ms - 86_400_123),
            Record(b"no key", timestamp_ms=now_ms),
            Record(None, key=b"tombstone", timestamp_ms=now_ms + 1),
            Record(b"", key=b"", timestamp_ms=now_ms - 1),
            Record(b"headers", headers=headers, timestamp_ms=now_ms - 999),
        ]
        with client.producer(name) as producer:
            producer.init()
            producer.begin()
            producer.send(name, records)
            producer.commit()
        consumed_records = until_read(client, name, [record.value for record in records])
        assert [
            Record(
                record_read.value,
                key=record_read.key,
                headers=record_read.headers,
                timestamp_ms=record_read.timestamp_ms,
            )
            for record_read in consumed_records
        ] == records
        assert [record_read.offset for record_read in consumed_records] == list(range(len(records)))

    def test_an_open_transaction_holds_back_what_others_wrote_behind_it(self, lab: Lab) -> None:
        transactions.read_committed(lab)

    def test_producers_beside_each_other_end_their_own_transactions(
        self, client: Driver, name: str
    ) -> None:
        client.create_topic(name, PARTITIONS)
        with (
            client.producer(f"{name}-a") as older_producer,
            client.producer(f"{name}-b") as younger_producer,
        ):
            begin_both(older_producer, younger_producer)
            older_producer.send(
                name, [Record(b"first", partition_index) for partition_index in range(PARTITIONS)]
            )
            younger_producer.send(
                name, [Record(b"second", partition_index) for partition_index in range(PARTITIONS)]
            )
            younger_producer.commit()
            # The first one is older: nothing behind its first record is stable.
            assert values(client.read(name, committed=True)) == []
            older_producer.abort()
            until_read(client, name, [b"second"] * PARTITIONS)

    def test_the_transaction_of_a_killed_client_times_out(self, lab: Lab) -> None:
        client, topic_name = lab.driver, lab.name
        client.create_topic(topic_name, 1)
        library_name = client.__module__.rpartition(".")[2]
        program = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.clients.open_transaction"),
                *(library_name, lab.bootstrap, topic_name, str(lab.timeout_ms)),
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with program:
            assert program.stdout is not None
            try:
                assert program.stdout.readline() == b"open\n"
            finally:
                program.kill()
        with client.producer() as plain_producer:
            plain_producer.send(topic_name, [Record(b"behind")])
        assert values(client.read(topic_name, committed=True)) == []
        assert values(client.read(topic_name, committed=False)) == [b"orphan", b"behind"]
        lab.pass_time()
        until_read(client, topic_name, [b"behind"])


def begin_both(*producers: DriverProducer) -> None:
    """Init and begin."""
    for producer in producers:
        producer.init()
        producer.begin()
