"""``serve --load`` with the disks of real brokers that hold every kind of transaction: stopped in
order, killed, damaged. What comes up is what those brokers had told and what others load from the
same disks; a repair is practised there, with a client of librdkafka that goes on after it.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as Assigned

from tests.real.conftest import SETTINGS
from tests.spark.pipeline.corpus.made import Corpus, corpus
from tests.spark.pipeline.corpus.truth import Place, Stage
from tests.support.txnsim_server import TxnsimServer, installed_txnsim
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.inspection.txn_views import ProducerState, TransactionDescription
from txnsim.releases import Fleet
from txnsim.server.disk_loading import LoadedCluster, load_cluster
from txnsim.settings import DEFAULTS
from txnsim.storage.disks import find_disks
from txnsim.types import TopicPartition

pytestmark = pytest.mark.real

STAGES: Final = ("clean", "killed")
UNDECIDED: Final = "undecided"
"""Its transaction is decided and not marked everywhere: a coordinator that loads it sends all
markers again, and they tell its new epoch.
"""
MINUTE_MS: Final = 60_000

Read = list[tuple[int, bytes | None, bytes | None]]
"""Offset, key, value."""


@pytest.fixture(scope="module")
def disks() -> Corpus:
    return corpus()


@pytest.fixture(scope="module", params=STAGES)
def stage(request: pytest.FixtureRequest, disks: Corpus) -> Stage:
    """One set of directories."""
    return disks.stage(request.param)


@pytest.fixture(scope="module")
def server(stage: Stage, disks: Corpus) -> Iterator[TxnsimServer]:
    """The simulator on these directories; nobody changes anything there."""
    with serving(stage, disks) as running:
        yield running


@contextmanager
def serving(stage: Stage, disks: Corpus) -> Iterator[TxnsimServer]:
    """The simulator on these directories, at the time when their brokers stopped."""
    directories = disks.brokers(stage.name)
    before = fingerprint(directories)
    arguments = ("--load", *map(str, directories), "--clock-at", "stopped")
    with TxnsimServer(brokers=len(directories), arguments=arguments) as running:
        yield running
    assert fingerprint(directories) == before, "nothing is ever written there"


def fingerprint(directories: tuple[Path, ...]) -> dict[Path, tuple[int, int]]:
    return {
        path: (path.stat().st_size, path.stat().st_mtime_ns)
        for directory in directories
        for path in directory.rglob("*")
    }


# What brokers make of the same disks


def load(disks: Corpus, name: str) -> LoadedCluster:
    return load_cluster(
        find_disks(disks.brokers(name)),
        settings=DEFAULTS,
        fleet=Fleet(),
        now_ms=disks.stage(name).stopped_at_ms,
    )


@pytest.mark.parametrize("name", ["killed", "torn"])
def test_each_replica_begins_and_ends_where_a_real_broker_lets_it(disks: Corpus, name: str) -> None:
    ours = {
        (int(broker), Place(*place(one.log.topic_partition))): (
            len(one.log.local.segments),
            one.log.log_start_offset,
            one.log.log_end_offset,
        )
        for broker, logs in load(disks, name).logs.items()
        for one in logs
    }
    theirs = {
        (one.broker, one.place): (one.segments, one.start, one.end)
        for one in disks.stage(name).loaded
    }
    assert len(theirs) > 100
    assert {whose: ours.get(whose) for whose in theirs} == theirs


def test_what_a_kill_may_leave_is_cut_off_and_told(disks: Corpus) -> None:
    told = {(Path(one.path).parent.name, Path(one.path).name) for one in load(disks, "torn").losses}
    damage = disks.stage("torn").damage
    assert damage
    assert told == {(f"{one.place.topic}-{one.place.partition}", one.file) for one in damage}
    assert load(disks, "killed").losses == ()


# What clients find


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """All that an operator can ask."""

    producers: dict[tuple[Place, int], tuple[int, int, int, int, int]]
    """Epoch, last sequence, last timestamp, coordinator epoch, start of the open transaction."""
    transactions: dict[str, tuple[int, int, str, int, int, tuple[Place, ...]]]
    """Producer id and epoch, state, timeout, start, partitions."""
    hanging: set[tuple[Place, int, int]]
    """Producer id and start."""


def test_operators_find_what_the_real_brokers_had_told(stage: Stage, server: TxnsimServer) -> None:
    seen = asyncio.run(look(server.bootstrap, stage))
    told = {
        (one.place, one.producer_id): (
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp_ms,
            one.coordinator_epoch,
            one.start_offset,
        )
        for one in stage.producers
    }
    assert len(told) > 50
    again = {whose for whose in told if seen.producers[whose] != told[whose]}
    assert seen.producers.keys() == told.keys()
    assert {whose[0].topic for whose in again} <= {UNDECIDED}
    assert seen.transactions == {
        one.transactional_id: (
            one.producer_id,
            one.producer_epoch,
            one.state,
            one.timeout_ms,
            one.start_time_ms,
            tuple(sorted(one.partitions)),
        )
        for one in stage.listed
    }
    hanging = {
        (one.place, one.producer_id, one.start_offset)
        for one in stage.open
        if one.verdict == "hanging"
    }
    assert seen.hanging == hanging
    assert seen.hanging >= {
        (one.place, one.producer_id, one.start_offset) for one in stage.find_hanging
    }


async def look(bootstrap: str, stage: Stage) -> Seen:
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        admin = Admin(cluster)
        places = sorted({one.place for one in stage.producers})
        producers = await admin.describe_producers([TopicPartition(*one) for one in places])
        described = await admin.describe_transactions(
            [one.transactional_id for one in stage.listed]
        )
        hanging = await admin.find_hanging(
            now_ms=cluster.clock.now_ms(), max_transaction_timeout_ms=MINUTE_MS
        )
    return Seen(
        producers={
            (Place(*place(where)), one.producer_id): in_numbers(one)
            for where, told in producers.items()
            if not isinstance(told, ClientError)
            for one in told
        },
        transactions={
            name: facts(one) for name, one in described.items() if not isinstance(one, ClientError)
        },
        hanging={
            (
                Place(*place(one.partition)),
                one.producer.producer_id,
                one.producer.txn_start_offset or 0,
            )
            for one in hanging
        },
    )


def in_numbers(one: ProducerState) -> tuple[int, int, int, int, int]:
    return (
        one.producer_epoch,
        one.last_sequence,
        one.last_timestamp_ms,
        -1 if one.coordinator_epoch is None else one.coordinator_epoch,
        -1 if one.txn_start_offset is None else one.txn_start_offset,
    )


def facts(one: TransactionDescription) -> tuple[int, int, str, int, int, tuple[Place, ...]]:
    return (
        one.producer_id,
        one.producer_epoch,
        one.state,
        one.timeout_ms,
        -1 if one.start_time_ms is None else one.start_time_ms,
        tuple(sorted(Place(*place(each)) for each in one.partitions)),
    )


def place(where: TopicPartition) -> tuple[str, int]:
    return where.topic, where.partition


def test_groups_have_their_positions(stage: Stage, server: TxnsimServer) -> None:
    assert stage.offsets
    for group in sorted({one.group for one in stage.offsets}):
        wanted = {one.place: one.offset for one in stage.offsets if one.group == group}
        consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group})
        found = consumer.committed([Assigned(*one) for one in wanted], timeout=30)
        assert {Place(one.topic, one.partition): one.offset for one in found} == wanted
        consumer.close()


# The practice


def test_a_repair_is_practised_and_readers_go_on(
    stage: Stage, disks: Corpus, tmp_path: Path
) -> None:
    hung = {one.place: one.start_offset for one in stage.open if one.verdict == "hanging"}
    with serving(stage, disks) as server:
        before = read_committed(server.bootstrap, hung)
        assert {where: before[where] for where in hung} == shown_once(stage, hung)
        # What was decided about some of them can no longer be known.
        assert operate(server, "repair", "--yes", "--guess", "abort", cwd=tmp_path) == 0
        assert operate(server, "find-hanging", "--all", cwd=tmp_path) == 0
        after = read_committed(server.bootstrap, hung)
    assert all(after[where][: len(before[where])] == before[where] for where in hung)
    assert sum(map(len, after.values())) > sum(map(len, before.values())), "what stood behind them"


def operate(server: TxnsimServer, *command: str, cwd: Path) -> int:
    """The status of a command of ours on everything that is older than a minute."""
    words = ("txns", "--bootstrap-server", server.bootstrap, *command)
    limit = ("--max-transaction-timeout", "1")
    done = subprocess.run([str(installed_txnsim()), *words, *limit], cwd=cwd, check=False)
    return done.returncode


def shown_once(stage: Stage, hung: dict[Place, int]) -> dict[Place, Read]:
    """What read_committed had shown of these partitions while their brokers ran."""
    known = {one.place: one for topic in stage.topics for one in topic.partitions}
    return {
        where: [
            (one.offset, one.key, one.value)
            for one in known[where].records
            if one.committed and one.offset < start
        ]
        for where, start in hung.items()
    }


def read_committed(bootstrap: str, places: dict[Place, int]) -> dict[Place, Read]:
    """All that librdkafka shows, until it says that there is no more."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "practice",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([Assigned(*one, 0) for one in places])
    found: dict[Place, Read] = {one: [] for one in places}
    ended: set[Place] = set()
    while len(ended) < len(places):
        message: Message | None = consumer.poll(30)
        assert message is not None, f"no end of {set(places) - ended}"
        where = Place(message.topic() or "", message.partition() or 0)
        error = message.error()
        if error is None:
            found[where].append((message.offset() or 0, message.key(), message.value()))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(where)
    consumer.close()
    return found


def test_a_damaged_disk_is_told_by_the_command(disks: Corpus) -> None:
    arguments = ("--load", *map(str, disks.brokers("torn")))
    with TxnsimServer(brokers=2, arguments=arguments) as running:
        assert len(running.ready["loaded"]["losses"]) == len(disks.stage("torn").damage)
