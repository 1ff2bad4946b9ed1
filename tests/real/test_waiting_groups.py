"""Who waits, asked of a living Apache Kafka and then of its directory, and what is lost, by what
was acknowledged: twenty cases by seed.

Each case is a topic: records and transactions in a random order, perhaps some left open, groups
that stand anywhere, one of them by a transaction that committed, one by one that did not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pytest

from tests.spark.pipeline.corpus.actors import Actor, Notebook
from tests.spark.pipeline.corpus.asked import committed_offsets
from tests.spark.pipeline.corpus.raw_brokers import GROUP, RawBrokers
from tests.spark.pipeline.corpus.stories import active_producers, commit_offset
from tests.spark.pipeline.corpus.truth import Place, SentBatch
from tests.support.apache_kafka import ApacheKafka
from tests.support.no_spark import no_session
from txnsim.errors import ErrorCode
from txnsim.runtime.rng import SeededRng
from txnsim.runtime.wall_clock import wall_ms
from txnsim_spark.forensics.find_hanging import Search
from txnsim_spark.log_database import LogDatabase
from txnsim_spark.questions.waiting_groups import find_waiting_groups

pytestmark = pytest.mark.real

SEEDS: Final = range(20)
LONG_MS: Final = 600_000
"""No coordinator ends what is left open while the broker runs."""


LOSSES: Final = """
WITH ids AS (SELECT DISTINCT producer_id, transactional_id FROM kafka_transactions)
SELECT
  topic, transactional_id, outcome,
  min(`offset`) AS first_offset, max(`offset`) AS last_offset, count(*) AS records,
  sum(coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0)) AS bytes,
  count(DISTINCT key) AS keys
FROM kafka_outcomes LEFT JOIN ids USING (producer_id)
WHERE outcome IN ('aborted', 'open')
GROUP BY topic, transactional_id, outcome, transaction_offset
ORDER BY first_offset
"""


class Waits(NamedTuple):
    """A group, as the living broker or its directory has it."""

    group: str
    committed: int
    last_stable: int
    high_watermark: int
    producer_id: int
    start_offset: int


class Lost(NamedTuple):
    """What a transaction wrote that was aborted or left open."""

    transactional_id: str | None
    outcome: str
    first_offset: int
    last_offset: int
    records: int
    bytes: int
    keys: int


class Played(NamedTuple):
    """What was answered, by topic."""

    living: dict[str, set[Waits]]
    offline: dict[str, set[Waits]]
    begun_ms: dict[str, int]
    """When the first transaction that is left open was begun, as its record says."""
    since: dict[str, set[int | None]]
    """When it was begun, by the directory."""
    told_lost: dict[str, list[Lost]]
    found_lost: dict[str, list[Lost]]
    """By the directory."""


@pytest.fixture(scope="module")
def played() -> Played:
    kafka = ApacheKafka(transaction_version=2)
    with kafka:
        with RawBrokers({1: kafka.bootstrap}) as raw:
            living: dict[str, set[Waits]] = {}
            begun_ms: dict[str, int] = {}
            told_lost: dict[str, list[Lost]] = {}
            for seed in SEEDS:
                name = f"case-{seed}"
                living[name], begun_ms[name], told_lost[name] = _play(raw, seed)
        kafka.stop_broker(1)
        search = Search(paths=(kafka.homes[0] / "data",), now_ms=wall_ms(), never_spark=True)
        found = find_waiting_groups(search, new_session=no_session, progress=lambda _: None)
        losses = LogDatabase(search.paths).rows(LOSSES)
    offline: dict[str, set[Waits]] = {name: set() for name in living}
    since: dict[str, set[int | None]] = {name: set() for name in living}
    for one in found.waiters:
        offline[one.topic].add(
            Waits(
                one.group,
                one.committed_offset,
                one.last_stable_offset,
                one.high_watermark,
                one.producer_id,
                one.start_offset,
            )
        )
        since[one.topic].add(one.since_ms)
    found_lost: dict[str, list[Lost]] = {name: [] for name in living}
    for row in losses:
        if (topic := row.pop("topic")) in found_lost:
            found_lost[topic].append(Lost(**row))
    return Played(living, offline, begun_ms, since, told_lost, found_lost)


def _play(raw: RawBrokers, seed: int) -> tuple[set[Waits], int, list[Lost]]:
    """One case: who waits by the living broker, when the first open transaction was begun, and what
    is lost.
    """
    chance = SeededRng(seed).stream("waiting")
    place = Place(f"case-{seed}", 0)
    raw.create_topic(place.topic, partitions=[(1,)])
    book = Notebook(raw, level=2)
    ended = Actor(book, f"ended-{seed}", timeout_ms=LONG_MS)
    opened: list[Actor] = []
    told: list[Lost] = []
    for step in range(chance.randrange(4, 12)):
        match chance.randrange(4):
            case 0:
                book.append(place, book.told(*["plain"] * chance.randrange(1, 4)))
            case 1 | 2:
                key = chance.choice([None, "a", "b"])
                batches = [ended.send(place, *["ended"] * chance.randrange(1, 4), key=key)]
                batches.append(ended.send(place, "more", key="c"))
                if not ended.finish(committed=chance.random() < 0.5).committed:
                    told.append(_lost(f"ended-{seed}", "aborted", batches))
            case _ if len(opened) < 2:
                opened.append(Actor(book, f"open-{seed}-{step}", timeout_ms=LONG_MS))
                opened[-1].send(place, "open")
            case _:
                opened[-1].send(place, "still open")
    end = raw.offset(place, -1)
    groups = [f"group-{seed}-{number}" for number in range(3)]
    for group in groups:
        _commit(raw, group, place, chance.randrange(end + 1))
    commit_offset(raw, ended, groups[0], place, chance.randrange(end + 1))
    ended.finish(committed=True)
    pending = Actor(book, f"pending-{seed}", timeout_ms=LONG_MS)
    commit_offset(raw, pending, groups[1], place, chance.randrange(end + 1))
    begun_ms = opened[0].touched[place][0].records[0].timestamp_ms if opened else -1
    told += [_lost(one.transactional_id, "open", one.touched[place]) for one in opened]
    return set(_waits(raw, place, groups)), begun_ms, told


def _lost(transactional_id: str, outcome: str, batches: Sequence[SentBatch]) -> Lost:
    records = [record for batch in batches for record in batch.records]
    return Lost(
        transactional_id,
        outcome,
        batches[0].base_offset,
        batches[-1].base_offset + len(batches[-1].records) - 1,
        len(records),
        sum(len(record.key or b"") + len(record.value or b"") for record in records),
        len({record.key for record in records if record.key is not None}),
    )


def _commit(raw: RawBrokers, group: str, place: Place, offset: int) -> None:
    row = {
        "partition_index": place.partition,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    answer = raw.coordinated(
        "OffsetCommit",
        8,
        group,
        GROUP,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": place.topic, "partitions": [row]}],
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.none, answer


def _waits(raw: RawBrokers, place: Place, groups: list[str]) -> Iterator[Waits]:
    """ListOffsets, OffsetFetch, DescribeProducers."""
    watermark, stable = raw.offset(place, -1), raw.offset(place, -1, committed=True)
    blocking = [
        row
        for row in active_producers(raw, place)
        if row.current_txn_start_offset == stable and stable < watermark
    ]
    for group in groups:
        (position,) = committed_offsets(raw, group, [place])
        for row in blocking:
            if position.offset < watermark:
                yield Waits(
                    group,
                    position.offset,
                    stable,
                    watermark,
                    int(row.producer_id),
                    int(row.current_txn_start_offset),
                )


@pytest.mark.parametrize("case", SEEDS)
def test_the_directory_says_what_the_living_broker_said(case: int, played: Played) -> None:
    name = f"case-{case}"
    assert played.offline[name] == played.living[name]
    if played.offline[name]:
        assert played.since[name] == {played.begun_ms[name]}


@pytest.mark.parametrize("case", SEEDS)
def test_the_directory_says_what_was_lost(case: int, played: Played) -> None:
    name = f"case-{case}"
    assert played.found_lost[name] == sorted(
        played.told_lost[name], key=lambda one: one.first_offset
    )


def test_the_cases_have_both_kinds(played: Played) -> None:
    waiting_there = [bool(found) for found in played.living.values()]
    assert 5 < sum(waiting_there) < len(SEEDS)
