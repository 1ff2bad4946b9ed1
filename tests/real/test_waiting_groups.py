"""Waiting groups by a living Apache Kafka and then by its directory, and lost records by the
acknowledged ones: twenty cases by seed.

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
from txnsim.runtime.rng import RandomStreams
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


class WaitingGroup(NamedTuple):
    """A waiting group, by the living broker or by its directory."""

    group: str
    committed: int
    last_stable: int
    high_watermark: int
    producer_id: int
    start_offset: int


class LostRecords(NamedTuple):
    """The records of a transaction that was aborted or left open."""

    transactional_id: str | None
    outcome: str
    first_offset: int
    last_offset: int
    records: int
    bytes: int
    keys: int


class PlayedCases(NamedTuple):
    """The waiting groups by topic, from the cluster and from its log directories."""

    living: dict[str, set[WaitingGroup]]
    offline: dict[str, set[WaitingGroup]]
    begun_ms: dict[str, int]
    """The begin of the first open transaction, by its record."""
    since: dict[str, set[int | None]]
    """The same begin, by the directory."""
    told_lost: dict[str, list[LostRecords]]
    found_lost: dict[str, list[LostRecords]]
    """Lost records, by the directory."""


@pytest.fixture(scope="module")
def cases() -> PlayedCases:
    kafka = ApacheKafka(transaction_version=2)
    with kafka:
        with RawBrokers({1: kafka.bootstrap}) as raw:
            living_groups: dict[str, set[WaitingGroup]] = {}
            begun_ms: dict[str, int] = {}
            told_lost: dict[str, list[LostRecords]] = {}
            for seed in SEEDS:
                case_name = f"case-{seed}"
                living_groups[case_name], begun_ms[case_name], told_lost[case_name] = _play_case(
                    raw, seed
                )
        kafka.stop_broker(1)
        search = Search(paths=(kafka.homes[0] / "data",), now_ms=wall_ms(), never_spark=True)
        waiting_groups = find_waiting_groups(
            search, new_session=no_session, progress=lambda _: None
        )
        losses = LogDatabase(search.paths).rows(LOSSES)
    offline: dict[str, set[WaitingGroup]] = {name: set() for name in living_groups}
    since: dict[str, set[int | None]] = {name: set() for name in living_groups}
    for waiter in waiting_groups.waiters:
        offline[waiter.topic].add(
            WaitingGroup(
                waiter.group,
                waiter.committed_offset,
                waiter.last_stable_offset,
                waiter.high_watermark,
                waiter.producer_id,
                waiter.start_offset,
            )
        )
        since[waiter.topic].add(waiter.since_ms)
    found_lost: dict[str, list[LostRecords]] = {name: [] for name in living_groups}
    for row in losses:
        if (topic := row.pop("topic")) in found_lost:
            found_lost[topic].append(LostRecords(**row))
    return PlayedCases(living_groups, offline, begun_ms, since, told_lost, found_lost)


def _play_case(raw: RawBrokers, seed: int) -> tuple[set[WaitingGroup], int, list[LostRecords]]:
    """One case: who waits by the living broker, when the first open transaction was begun, and what
    is lost.
    """
    random_source = RandomStreams(seed).stream("waiting")
    topic_partition = Place(f"case-{seed}", 0)
    raw.create_topic(topic_partition.topic, partitions=[(1,)])
    notebook = Notebook(raw, transaction_version=2)
    ended_producer = Actor(notebook, f"ended-{seed}", timeout_ms=LONG_MS)
    open_actors: list[Actor] = []
    lost_transactions: list[LostRecords] = []
    for step in range(random_source.randrange(4, 12)):
        match random_source.randrange(4):
            case 0:
                notebook.append(
                    topic_partition,
                    notebook.stamp_records(*["plain"] * random_source.randrange(1, 4)),
                )
            case 1 | 2:
                key = random_source.choice([None, "a", "b"])
                batches = [
                    ended_producer.send(
                        topic_partition, *["ended"] * random_source.randrange(1, 4), key=key
                    )
                ]
                batches.append(ended_producer.send(topic_partition, "more", key="c"))
                if not ended_producer.finish(committed=random_source.random() < 0.5).committed:
                    lost_transactions.append(_lost(f"ended-{seed}", "aborted", batches))
            case _ if len(open_actors) < 2:
                open_actors.append(Actor(notebook, f"open-{seed}-{step}", timeout_ms=LONG_MS))
                open_actors[-1].send(topic_partition, "open")
            case _:
                open_actors[-1].send(topic_partition, "still open")
    end = raw.offset(topic_partition, -1)
    groups = [f"group-{seed}-{coverage_number}" for coverage_number in range(3)]
    for group in groups:
        _commit(raw, group, topic_partition, random_source.randrange(end + 1))
    commit_offset(raw, ended_producer, groups[0], topic_partition, random_source.randrange(end + 1))
    ended_producer.finish(committed=True)
    pending_actor = Actor(notebook, f"pending-{seed}", timeout_ms=LONG_MS)
    commit_offset(raw, pending_actor, groups[1], topic_partition, random_source.randrange(end + 1))
    begun_ms = (
        open_actors[0].touched[topic_partition][0].records[0].timestamp_ms if open_actors else -1
    )
    lost_transactions += [
        _lost(actor.transactional_id, "open", actor.touched[topic_partition])
        for actor in open_actors
    ]
    return set(_waits(raw, topic_partition, groups)), begun_ms, lost_transactions


def _lost(transactional_id: str, outcome: str, batches: Sequence[SentBatch]) -> LostRecords:
    records = [record for batch in batches for record in batch.records]
    return LostRecords(
        transactional_id,
        outcome,
        batches[0].base_offset,
        batches[-1].base_offset + len(batches[-1].records) - 1,
        len(records),
        sum(len(record.key or b"") + len(record.value or b"") for record in records),
        len({record.key for record in records if record.key is not None}),
    )


def _commit(raw: RawBrokers, group: str, topic_partition: Place, offset: int) -> None:
    row = {
        "partition_index": topic_partition.partition,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    answer = raw.ask_coordinator(
        "OffsetCommit",
        8,
        group,
        GROUP,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": topic_partition.topic, "partitions": [row]}],
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.none, answer


def _waits(raw: RawBrokers, topic_partition: Place, groups: list[str]) -> Iterator[WaitingGroup]:
    """The waiting groups by ListOffsets, OffsetFetch and DescribeProducers."""
    watermark, stable_offset = (
        raw.offset(topic_partition, -1),
        raw.offset(topic_partition, -1, committed=True),
    )
    blocking = [
        row
        for row in active_producers(raw, topic_partition)
        if row.current_txn_start_offset == stable_offset and stable_offset < watermark
    ]
    for group in groups:
        (committed_offset,) = committed_offsets(raw, group, [topic_partition])
        for row in blocking:
            if committed_offset.offset < watermark:
                yield WaitingGroup(
                    group,
                    committed_offset.offset,
                    stable_offset,
                    watermark,
                    int(row.producer_id),
                    int(row.current_txn_start_offset),
                )


@pytest.mark.parametrize("case", SEEDS)
def test_the_directory_says_what_the_living_broker_said(case: int, cases: PlayedCases) -> None:
    case_name = f"case-{case}"
    assert cases.offline[case_name] == cases.living[case_name]
    if cases.offline[case_name]:
        assert cases.since[case_name] == {cases.begun_ms[case_name]}


@pytest.mark.parametrize("case", SEEDS)
def test_the_directory_says_what_was_lost(case: int, cases: PlayedCases) -> None:
    name = f"case-{case}"
    assert cases.found_lost[name] == sorted(
        cases.told_lost[name], key=lambda loss: loss.first_offset
    )


def test_the_cases_have_both_kinds(cases: PlayedCases) -> None:
    waiting_there = [bool(waits) for waits in cases.living.values()]
    assert 5 < sum(waiting_there) < len(SEEDS)
