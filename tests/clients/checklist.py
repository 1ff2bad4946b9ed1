"""What every client library must be able to do against us: one list of checks for all of them.

A test module derives a class from each list, names its driver there, and so fails under its own
name. The checks of ``TransactionChecks`` run at each level of ``transaction.version``, the others
at the newest.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from tests.clients.drivers.base import PATIENCE_S, Driver, DriverProducer, Headers, Record, Seen
from tests.clients.neighbours import bad_neighbours

if TYPE_CHECKING:
    from tests.clients.conftest import Server

ROOT: Final = Path(__file__).resolve().parents[2]
BROKERS: Final = 3
PARTITIONS: Final = 6
TIMEOUT_MS: Final = 30_000
PAST_TIMEOUT_MS: Final = TIMEOUT_MS + 10_001
"""Timed-out transactions are looked for every ten seconds."""


class Checks:
    """What all lists share."""

    driver: ClassVar[type[Driver]]


class TransactionChecks(Checks):
    """The transactional core."""

    levels = (0, 1, 2)

    def test_a_commit_shows_records_on_all_brokers_at_once(self, client: Driver, name: str) -> None:
        client.create_topic(name, PARTITIONS)
        assert len(set(client.leaders(name))) == BROKERS
        with client.producer(name) as producer:
            producer.init()
            producer.begin()
            producer.send(name, [Record(b"one", index) for index in range(PARTITIONS)])
            assert values(client.read(name, committed=False)) == [b"one"] * PARTITIONS
            assert values(client.read(name, committed=True)) == []
            producer.commit()
            until_read(client, name, [b"one"] * PARTITIONS)
        # Each partition has the record and the marker behind it.
        with client.producer() as plain:
            offsets = plain.send(name, [Record(b"two", index) for index in range(PARTITIONS)])
        assert offsets == [2] * PARTITIONS

    def test_an_abort_hides_records_on_all_brokers(self, client: Driver, name: str) -> None:
        client.create_topic(name, PARTITIONS)
        with client.producer(name) as producer:
            producer.init()
            producer.begin()
            producer.send(name, [Record(b"never", index) for index in range(PARTITIONS)])
            producer.abort()
            producer.begin()
            producer.send(name, [Record(b"then", index) for index in range(PARTITIONS)])
            producer.commit()
        until_read(client, name, [b"then"] * PARTITIONS)
        everything = sorted(values(client.read(name, committed=False)))
        assert everything == [b"never"] * PARTITIONS + [b"then"] * PARTITIONS

    def test_many_transactions_in_sequence_keep_their_outcomes_and_order(
        self, client: Driver, name: str
    ) -> None:
        client.create_topic(name, 2)
        with client.producer(name) as producer:
            producer.init()
            for number in range(24):
                producer.begin()
                producer.send(name, [Record(b"%d" % number, index) for index in (0, 1)])
                if number % 3 == 2:
                    producer.abort()
                else:
                    producer.commit()
            producer.begin()  # nothing in it
            producer.commit()
            producer.begin()
            producer.send(name, [Record(b"last", 0), Record(b"last", 1)])
            producer.commit()
        wanted = [b"%d" % number for number in range(24) if number % 3 != 2] + [b"last"]
        seen = until_read(client, name, wanted * 2)
        for index in (0, 1):
            assert values(seen, partition=index) == wanted

    def test_a_second_producer_fences_the_first(self, client: Driver, name: str) -> None:
        client.create_topic(name, PARTITIONS)
        with client.producer(name) as old, client.producer(name) as new:
            old.init()
            old.begin()
            old.send(name, [Record(b"old", index) for index in range(PARTITIONS)])
            new.init()  # aborts what the old one has open
            new.begin()
            new.send(name, [Record(b"new", index) for index in range(PARTITIONS)])
            with pytest.raises(Exception) as refused:  # noqa: PT011 - judged in the next line
                old.commit()
            assert client.is_fenced(refused.value), repr(refused.value)
            new.commit()
            until_read(client, name, [b"new"] * PARTITIONS)

    def test_a_fenced_producer_can_not_append(self, client: Driver, name: str) -> None:
        client.create_topic(name, 1)
        with client.producer(name) as old, client.producer(name) as new:
            old.init()
            old.begin()
            old.send(name, [Record(b"old")])
            new.init()
            with pytest.raises(Exception) as refused:  # noqa: PT011 - judged in the next line
                old.send(name, [Record(b"zombie")])
            assert client.is_old_epoch(refused.value), repr(refused.value)
            new.begin()
            new.send(name, [Record(b"new")])
            new.commit()
            until_read(client, name, [b"new"])
        assert values(client.read(name, committed=False)) == [b"old", b"new"]

    def test_a_transaction_that_lasts_too_long_is_aborted(
        self, client: Driver, name: str, server: Server
    ) -> None:
        client.create_topic(name, 2)
        with client.producer(name, timeout_ms=TIMEOUT_MS) as producer, client.producer() as plain:
            producer.init()
            producer.begin()
            producer.send(name, [Record(b"late", 0), Record(b"late", 1)])
            plain.send(name, [Record(b"behind", 0), Record(b"behind", 1)])
            assert values(client.read(name, committed=True)) == []
            server.advance(PAST_TIMEOUT_MS)
            until_read(client, name, [b"behind"] * 2)
            with pytest.raises(Exception) as refused:  # noqa: PT011 - judged in the next line
                producer.commit()
            # The abort has raised the epoch (KIP-360): to its producer that is a newer producer.
            assert client.is_fenced(refused.value), repr(refused.value)
        assert values(client.read(name, committed=True)) == [b"behind"] * 2
        with client.producer(name) as again:
            again.init()
            again.begin()
            again.send(name, [Record(b"again", 0)])
            again.commit()
        until_read(client, name, [b"again", b"behind", b"behind"])

    def test_bad_neighbours_disturb_nobody(self, client: Driver, name: str, server: Server) -> None:
        client.create_topic(name, PARTITIONS)
        with client.producer(name) as producer:
            producer.init()
            producer.begin()
            with bad_neighbours(server.bootstrap) as neighbours:
                for index, neighbour in enumerate(neighbours):
                    producer.send(name, [Record(b"%d" % index, index % PARTITIONS)])
                    neighbour.misbehave()
                    producer.send(name, [Record(b"%d" % index, index % PARTITIONS)])
                for neighbour in neighbours:
                    neighbour.expect_answer()
                producer.commit()
                wanted = [b"%d" % index for index in range(len(neighbours)) for _twice in (1, 2)]
                until_read(client, name, wanted)


class ProducerChecks(Checks):
    """Everything else, at the newest level."""

    def test_a_topic_is_created_once(self, client: Driver, name: str) -> None:
        client.create_topic(name, 4)
        assert len(client.leaders(name)) == 4
        with pytest.raises(Exception) as refused:  # noqa: PT011 - judged in the next line
            client.create_topic(name, 4)
        assert client.is_topic_exists(refused.value), repr(refused.value)

    def test_an_idempotent_producer_appends_each_record_once_and_in_order(
        self, client: Driver, name: str
    ) -> None:
        client.create_topic(name, 3)
        wanted = [b"%d" % number for number in range(1_000)]
        with client.producer() as producer:
            for index in range(3):
                offsets = producer.send(name, [Record(value, index) for value in wanted])
                assert offsets == list(range(1_000))
        seen = client.read(name, committed=True)
        for index in range(3):
            assert values(seen, partition=index) == wanted

    def test_a_compressed_transaction_is_read_as_it_was_sent(
        self, client: Driver, name: str, codec: str
    ) -> None:
        client.create_topic(name, 2)
        wanted = [b"%06d " % number * 50 for number in range(200)]
        with client.producer(name, compression=codec) as producer:
            producer.init()
            producer.begin()
            producer.send(name, [Record(value, at % 2) for at, value in enumerate(wanted)])
            producer.commit()
        seen = until_read(client, name, wanted)
        assert values(seen, partition=0) == wanted[::2]

    def test_a_record_as_large_as_allowed_goes_through(self, client: Driver, name: str) -> None:
        client.create_topic(name, 1)
        large = random.Random(7).randbytes(990_000)
        with client.producer(name) as producer:
            producer.init()
            producer.begin()
            producer.send(name, [Record(b"before"), Record(large), Record(b"after")])
            producer.commit()
        until_read(client, name, [b"before", large, b"after"])

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
        seen = until_read(client, name, [record.value for record in records])
        assert [
            Record(
                each.value,
                key=each.key,
                headers=each.headers,
                timestamp_ms=each.timestamp_ms,
            )
            for each in seen
        ] == records
        assert [each.offset for each in seen] == list(range(len(records)))

    def test_an_open_transaction_holds_back_what_others_wrote_behind_it(
        self, client: Driver, name: str
    ) -> None:
        client.create_topic(name, 1)
        with client.producer(name) as producer, client.producer() as plain:
            producer.init()
            plain.send(name, [Record(b"before")])
            producer.begin()
            producer.send(name, [Record(b"open")])
            plain.send(name, [Record(b"behind")])
            assert values(client.read(name, committed=True)) == [b"before"]
            assert values(client.read(name, committed=False)) == [b"before", b"open", b"behind"]
            producer.abort()
            until_read(client, name, [b"before", b"behind"])

    def test_producers_beside_each_other_end_their_own_transactions(
        self, client: Driver, name: str
    ) -> None:
        client.create_topic(name, PARTITIONS)
        with client.producer(f"{name}-a") as first, client.producer(f"{name}-b") as second:
            begin_both(first, second)
            first.send(name, [Record(b"first", index) for index in range(PARTITIONS)])
            second.send(name, [Record(b"second", index) for index in range(PARTITIONS)])
            second.commit()
            # The first one is older: nothing behind its first record is stable.
            assert values(client.read(name, committed=True)) == []
            first.abort()
            until_read(client, name, [b"second"] * PARTITIONS)

    def test_the_transaction_of_a_killed_client_times_out(
        self, client: Driver, name: str, server: Server
    ) -> None:
        client.create_topic(name, 1)
        library = client.__module__.rpartition(".")[2]
        program = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.clients.open_transaction"),
                *(library, server.bootstrap, name, str(TIMEOUT_MS)),
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
        with client.producer() as plain:
            plain.send(name, [Record(b"behind")])
        assert values(client.read(name, committed=True)) == []
        assert values(client.read(name, committed=False)) == [b"orphan", b"behind"]
        server.advance(PAST_TIMEOUT_MS)
        until_read(client, name, [b"behind"])


def begin_both(*producers: DriverProducer) -> None:
    """Init and begin."""
    for producer in producers:
        producer.init()
        producer.begin()


def values(seen: Sequence[Seen], *, partition: int | None = None) -> list[Any]:
    """The values, of one partition in order of the offsets, or of all."""
    return [each.value for each in seen if partition in (None, each.partition)]


def until_read(client: Driver, topic: str, wanted: Sequence[bytes | None]) -> list[Seen]:
    """Read with read_committed until so many records are there; they are the wanted ones.

    From transactions v2 on a commit is answered before its markers are written (KIP-890).
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        seen = client.read(topic, committed=True)
        if len(seen) >= len(wanted) or time.monotonic() > deadline_s:
            break
    assert sorted(map(repr, values(seen))) == sorted(map(repr, wanted))
    return seen
