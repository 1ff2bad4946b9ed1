"""``serve --load`` with the disks of real brokers that hold every kind of transaction: shut down,
killed, damaged. The simulator must show what those brokers had answered, and what other real
brokers load from the same disks. A repair is practised there, with a client of librdkafka that goes
on after it.
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
    """One stage of the corpus: the log directories of all brokers."""
    return disks.stage(request.param)


@pytest.fixture(scope="module")
def server(stage: Stage, disks: Corpus) -> Iterator[TxnsimServer]:
    """The simulator on these directories; no test changes their cluster."""
    with serving(stage, disks) as running_server:
        yield running_server


@contextmanager
def serving(stage: Stage, disks: Corpus) -> Iterator[TxnsimServer]:
    """Serve these directories by the simulator, with its clock at the time when their brokers
    stopped.
    """
    directories = disks.brokers(stage.name)
    fingerprint_before_by_path = fingerprint(directories)
    arguments = ("--load", *map(str, directories), "--clock-at", "stopped")
    with TxnsimServer(brokers=len(directories), arguments=arguments) as running_server:
        yield running_server
    assert fingerprint(directories) == fingerprint_before_by_path, "nothing is ever written there"


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
        (int(broker), Place(*topic_and_partition(replica.log.topic_partition))): (
            len(replica.log.local.segments),
            replica.log.log_start_offset,
            replica.log.log_end_offset,
        )
        for broker, logs in load(disks, name).logs.items()
        for replica in logs
    }
    theirs = {
        (replica.broker, replica.place): (replica.segments, replica.start, replica.end)
        for replica in disks.stage(name).loaded
    }
    assert len(theirs) > 100
    assert {key: ours.get(key) for key in theirs} == theirs


def test_what_a_kill_may_leave_is_cut_off_and_told(disks: Corpus) -> None:
    losses = {
        (Path(loss.path).parent.name, Path(loss.path).name) for loss in load(disks, "torn").losses
    }
    damage = disks.stage("torn").damage
    assert damage
    assert losses == {
        (f"{damaged.place.topic}-{damaged.place.partition}", damaged.file) for damaged in damage
    }
    assert load(disks, "killed").losses == ()


# What clients find


class OperatorView(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to an operator's requests about transactions."""

    producers: dict[tuple[Place, int], tuple[int, int, int, int, int]]
    """Epoch, last sequence, last timestamp, coordinator epoch, start of the open transaction."""
    transactions: dict[str, tuple[int, int, str, int, int, tuple[Place, ...]]]
    """Producer id and epoch, state, timeout, start, partitions."""
    hanging: set[tuple[Place, int, int]]
    """Producer id and start."""


def test_operators_find_what_the_real_brokers_had_told(stage: Stage, server: TxnsimServer) -> None:
    view = asyncio.run(look(server.bootstrap, stage))
    told_producers = {
        (producer.place, producer.producer_id): (
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_timestamp_ms,
            producer.coordinator_epoch,
            producer.start_offset,
        )
        for producer in stage.producers
    }
    assert len(told_producers) > 50
    differing_keys = {key for key in told_producers if view.producers[key] != told_producers[key]}
    assert view.producers.keys() == told_producers.keys()
    assert {key[0].topic for key in differing_keys} <= {UNDECIDED}
    assert view.transactions == {
        listed_transaction.transactional_id: (
            listed_transaction.producer_id,
            listed_transaction.producer_epoch,
            listed_transaction.state,
            listed_transaction.timeout_ms,
            listed_transaction.start_time_ms,
            tuple(sorted(listed_transaction.partitions)),
        )
        for listed_transaction in stage.listed
    }
    hanging = {
        (transaction.place, transaction.producer_id, transaction.start_offset)
        for transaction in stage.open
        if transaction.verdict == "hanging"
    }
    assert view.hanging == hanging
    assert view.hanging >= {
        (transaction.place, transaction.producer_id, transaction.start_offset)
        for transaction in stage.find_hanging
    }


async def look(bootstrap: str, stage: Stage) -> OperatorView:
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        admin = Admin(cluster)
        log_places = sorted({producer.place for producer in stage.producers})
        producers_by_partition = await admin.describe_producers(
            [TopicPartition(*log_place) for log_place in log_places]
        )
        description_by_id = await admin.describe_transactions(
            [listed_transaction.transactional_id for listed_transaction in stage.listed]
        )
        hanging_transactions = await admin.find_hanging(
            now_ms=cluster.clock.now_ms(), max_transaction_timeout_ms=MINUTE_MS
        )
    return OperatorView(
        producers={
            (Place(*topic_and_partition(partition_text)), state.producer_id): in_numbers(state)
            for partition_text, states in producers_by_partition.items()
            if not isinstance(states, ClientError)
            for state in states
        },
        transactions={
            name: facts(description)
            for name, description in description_by_id.items()
            if not isinstance(description, ClientError)
        },
        hanging={
            (
                Place(*topic_and_partition(hanging_transaction.partition)),
                hanging_transaction.producer.producer_id,
                hanging_transaction.producer.txn_start_offset or 0,
            )
            for hanging_transaction in hanging_transactions
        },
    )


def in_numbers(state: ProducerState) -> tuple[int, int, int, int, int]:
    return (
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp_ms,
        -1 if state.coordinator_epoch is None else state.coordinator_epoch,
        -1 if state.txn_start_offset is None else state.txn_start_offset,
    )


def facts(description: TransactionDescription) -> tuple[int, int, str, int, int, tuple[Place, ...]]:
    return (
        description.producer_id,
        description.producer_epoch,
        description.state,
        description.timeout_ms,
        -1 if description.start_time_ms is None else description.start_time_ms,
        tuple(
            sorted(Place(*topic_and_partition(partition)) for partition in description.partitions)
        ),
    )


def topic_and_partition(topic_partition: TopicPartition) -> tuple[str, int]:
    return topic_partition.topic, topic_partition.partition


def test_groups_have_their_positions(stage: Stage, server: TxnsimServer) -> None:
    assert stage.offsets
    for group in sorted({position.group for position in stage.offsets}):
        expected_by_partition = {
            position.place: position.offset for position in stage.offsets if position.group == group
        }
        consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group})
        committed_partitions = consumer.committed(
            [Assigned(*log_place) for log_place in expected_by_partition], timeout=30
        )
        assert {
            Place(position.topic, position.partition): position.offset
            for position in committed_partitions
        } == expected_by_partition
        consumer.close()


# The practice


def test_a_repair_is_practised_and_readers_go_on(
    stage: Stage, disks: Corpus, tmp_path: Path
) -> None:
    hung_by_partition = {
        transaction.place: transaction.start_offset
        for transaction in stage.open
        if transaction.verdict == "hanging"
    }
    with serving(stage, disks) as server:
        read_before_by_partition = read_committed(server.bootstrap, hung_by_partition)
        assert {
            log_place: read_before_by_partition[log_place] for log_place in hung_by_partition
        } == recorded_reads(stage, hung_by_partition)
        # What was decided about some of them can no longer be known.
        assert operate(server, "repair", "--yes", "--guess", "abort", cwd=tmp_path) == 0
        assert operate(server, "find-hanging", "--all", cwd=tmp_path) == 0
        read_after_by_partition = read_committed(server.bootstrap, hung_by_partition)
    assert all(
        read_after_by_partition[log_place][: len(read_before_by_partition[log_place])]
        == read_before_by_partition[log_place]
        for log_place in hung_by_partition
    )
    assert sum(map(len, read_after_by_partition.values())) > sum(
        map(len, read_before_by_partition.values())
    ), "what stood behind them"


def operate(server: TxnsimServer, *command: str, cwd: Path) -> int:
    """Run one of our commands on all transactions older than a minute, and return its exit
    status.
    """
    arguments = ("txns", "--bootstrap-server", server.bootstrap, *command)
    limit = ("--max-transaction-timeout", "1")
    process = subprocess.run([str(installed_txnsim()), *arguments, *limit], cwd=cwd, check=False)
    return process.returncode


def recorded_reads(stage: Stage, hung_by_partition: dict[Place, int]) -> dict[Place, Read]:
    """The records that read_committed readers got while the partitions' brokers ran."""
    partition_by_partition = {
        partition.place: partition for topic in stage.topics for partition in topic.partitions
    }
    return {
        log_place: [
            (record.offset, record.key, record.value)
            for record in partition_by_partition[log_place].records
            if record.committed and record.offset < start
        ]
        for log_place, start in hung_by_partition.items()
    }


def read_committed(bootstrap: str, log_place_by_partition: dict[Place, int]) -> dict[Place, Read]:
    """Read all records that librdkafka delivers with read_committed, up to each partition's end."""
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
    consumer.assign([Assigned(*log_place, 0) for log_place in log_place_by_partition])
    reads_by_partition: dict[Place, Read] = {log_place: [] for log_place in log_place_by_partition}
    ended_places: set[Place] = set()
    while len(ended_places) < len(log_place_by_partition):
        message: Message | None = consumer.poll(30)
        assert message is not None, f"no end of {set(log_place_by_partition) - ended_places}"
        message_place = Place(message.topic() or "", message.partition() or 0)
        error = message.error()
        if error is None:
            reads_by_partition[message_place].append(
                (message.offset() or 0, message.key(), message.value())
            )
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended_places.add(message_place)
    consumer.close()
    return reads_by_partition


def test_a_damaged_disk_is_told_by_the_command(disks: Corpus) -> None:
    arguments = ("--load", *map(str, disks.brokers("torn")))
    with TxnsimServer(brokers=2, arguments=arguments) as running_server:
        assert len(running_server.ready["loaded"]["losses"]) == len(disks.stage("torn").damage)
