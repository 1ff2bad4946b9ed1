"""What a cluster is, as its disks and the snapshot in a trace say."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.support.clusters import (
    VirtualCluster,
    begin_transaction,
    client_of,
    real_cluster,
    run_cluster,
    values,
)
from tests.support.log_dirs import write_disk
from tests.support.logs import LogDriver, plain
from tests.support.metadata_logs import (
    config,
    feature,
    partition,
    register_broker,
    topic,
    write_metadata_log,
)
from tests.support.within_environment import within
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.controller.controller import TopicToCreate
from txnsim.coordinators.group._offset_trace import OffsetTrace, PositionNow
from txnsim.errors import ConfigError
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.metadata.image import ClusterImage, PartitionImage, TopicImage
from txnsim.releases import Fleet
from txnsim.runtime.environment import Environment
from txnsim.runtime.trace import TraceLevel
from txnsim.server import _trace_snapshot as trace_snapshot
from txnsim.server.cluster import SimCluster
from txnsim.server.disk_loading import LoadedReplicaLog, image_of_disks, with_new_leaders
from txnsim.server.log_dirs import LogDirsCut, log_dir_of
from txnsim.server.member import MemberLifeState
from txnsim.server.snapshot import restore_image
from txnsim.settings import DEFAULTS, Settings
from txnsim.storage.disks import Disks, find_disks
from txnsim.storage.metadata_files import MetaProperties, decode_partition_metadata
from txnsim.types import BrokerId, TopicPartition

# What a cluster is and who leads, as its disks say.


ORDERS: Final = TopicPartition("orders", 0)
TOPIC_ID: Final = uuid.UUID(int=11)
B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)


def disks_of(
    tmp_path: Path,
    partitions_by_node: Mapping[int, tuple[tuple[str, int], ...]],
    *records: bytes,
    ids: Mapping[str, uuid.UUID] | None = None,
) -> Disks:
    """Directories of these brokers, with a metadata log if there are records."""
    paths = []
    for node_id, partitions in partitions_by_node.items():
        path = tmp_path / f"broker-{node_id}"
        write_disk(
            path,
            {topic_partition: LogDriver().log for topic_partition in partitions},
            node_id=node_id,
            topic_ids=ids or {"orders": TOPIC_ID},
        )
        if records:
            write_metadata_log(path / "__cluster_metadata-0", records)
        paths.append(path)
    return find_disks(paths)


def image_of(disks: Disks, settings: Settings = DEFAULTS) -> ClusterImage:
    return image_of_disks(disks, settings=settings, fleet=Fleet())


def orders_in(image: ClusterImage) -> PartitionImage:
    partition = image.partition(ORDERS)
    assert partition is not None
    return partition


OF_ORDERS = (("orders", 0),)


# With the metadata log


def test_the_metadata_log_is_believed_as_far_as_brokers_are_here(tmp_path: Path) -> None:
    disks = disks_of(
        tmp_path,
        {1: OF_ORDERS, 2: OF_ORDERS},
        *(register_broker(node_id) for node_id in (1, 2, 3)),
        feature("transaction.version", 1),
        topic("orders", TOPIC_ID),
        partition(TOPIC_ID, replicas=(3, 2, 1), isr=(3, 2), leader=3, epoch=6),
        config("min.insync.replicas", "2", resource_name="orders"),
        topic("elsewhere", uuid.UUID(int=12)),
        partition(uuid.UUID(int=12), replicas=(3,)),
    )
    image = image_of(disks)
    assert list(image.topics) == ["orders"]
    assert image.topic_names == {TOPIC_ID: "orders"}
    assert image.topics["orders"].configs == {"min.insync.replicas": "2"}
    assert image.features["transaction.version"] == 1
    assert image.features["group.version"] == 0
    assert (orders_in(image).replicas, orders_in(image).isr) == ((2, 1), (2,))


def test_a_partition_whose_in_sync_replicas_are_all_missing_is_refused(tmp_path: Path) -> None:
    disks = disks_of(
        tmp_path,
        {1: OF_ORDERS},
        topic("orders", TOPIC_ID),
        partition(TOPIC_ID, replicas=(3, 2, 1), isr=(3, 2)),
    )
    with pytest.raises(ConfigError, match=r"^orders-0: .* in sync \(3, 2\) is among"):
        image_of(disks)


def test_an_eligible_leader_is_enough(tmp_path: Path) -> None:
    disks = disks_of(
        tmp_path,
        {1: OF_ORDERS},
        topic("orders", TOPIC_ID),
        partition(TOPIC_ID, replicas=(1, 2), isr=(2,), elr=(1,)),
    )
    image = image_of(disks)
    log = LoadedReplicaLog(topic_id=TOPIC_ID, log=LogDriver().log, high_watermark=0)
    image_after = orders_in(with_new_leaders(image, {B1: {ORDERS: log}}, knows_isr=True))
    assert (image_after.leader, image_after.isr, image_after.elr) == (1, (1,), ())


def test_levels_that_the_release_does_not_know_are_refused(tmp_path: Path) -> None:
    disks = disks_of(tmp_path, {1: OF_ORDERS}, feature("transaction.version", 9))
    with pytest.raises(ConfigError, match=r"broker 1: .*finalized version 9 of trans"):
        image_of(disks)


# Without it


def test_folders_have_to_say_what_there_is(tmp_path: Path) -> None:
    internal = ("__transaction_state", 0)
    disks = disks_of(tmp_path, {1: (*OF_ORDERS, ("orders", 1)), 2: (*OF_ORDERS, internal)})
    image = image_of(disks, Settings(transaction_version=1))
    assert image.cluster_id == "abc"
    assert image.features["transaction.version"] == 1
    assert image.topics["orders"].topic_id == TOPIC_ID
    assert [partition.replicas for partition in image.topics["orders"].partitions] == [(1, 2), (1,)]
    assert image.topics["__transaction_state"].configs["cleanup.policy"] == "compact"
    assert image.topics["__transaction_state"].is_internal


def test_a_topic_without_an_id_gets_the_same_one_each_time(tmp_path: Path) -> None:
    disks = disks_of(tmp_path, {1: OF_ORDERS})
    (tmp_path / "broker-1" / "orders-0" / "partition.metadata").unlink()
    disks = find_disks([tmp_path / "broker-1"])
    assert image_of(disks).topics["orders"].topic_id == image_of(disks).topics["orders"].topic_id


def test_two_ids_of_one_topic_are_refused(tmp_path: Path) -> None:
    disks_of(tmp_path, {1: OF_ORDERS})
    disks_of(tmp_path, {2: OF_ORDERS}, ids={"orders": uuid.UUID(int=12)})
    disks = find_disks([tmp_path / "broker-1", tmp_path / "broker-2"])
    with pytest.raises(ConfigError, match="broker-2/orders-0: topic orders has the id"):
        image_of(disks)


def test_a_partition_that_nobody_has_is_refused(tmp_path: Path) -> None:
    disks = disks_of(tmp_path, {1: (("orders", 0), ("orders", 2))})
    with pytest.raises(ConfigError, match=r"^orders-1: no directory to load holds a"):
        image_of(disks)


# Who leads


def loaded_log_of(count: int, *, epoch: int = 0, high_watermark: int = 0) -> LoadedReplicaLog:
    driver = LogDriver(leader_epoch=epoch)
    for _ in range(count):
        driver.append(plain())
    return LoadedReplicaLog(topic_id=TOPIC_ID, log=driver.log, high_watermark=high_watermark)


def test_the_leader_stays_under_the_next_epoch(tmp_path: Path) -> None:
    disks = disks_of(
        tmp_path,
        {1: OF_ORDERS, 2: OF_ORDERS},
        topic("orders", TOPIC_ID),
        partition(TOPIC_ID, replicas=(1, 2), leader=2, epoch=6),
    )
    logs_by_broker_id = {B1: {ORDERS: loaded_log_of(9)}, B2: {ORDERS: loaded_log_of(2)}}
    image_after = orders_in(with_new_leaders(image_of(disks), logs_by_broker_id, knows_isr=True))
    assert (
        image_after.leader,
        image_after.leader_epoch,
        image_after.partition_epoch,
    ) == (2, 7, 7)
    assert image_after.isr == (1, 2)


def test_the_first_in_sync_replica_leads_where_the_leader_is_missing(tmp_path: Path) -> None:
    disks = disks_of(
        tmp_path,
        {1: OF_ORDERS, 2: OF_ORDERS},
        topic("orders", TOPIC_ID),
        partition(TOPIC_ID, replicas=(1, 3, 2), isr=(3, 2), leader=3, epoch=6),
    )
    # A copy of the metadata log that is older than the logs.
    logs_by_broker_id = {B1: {}, B2: {ORDERS: loaded_log_of(1, epoch=9)}}
    image_after = orders_in(with_new_leaders(image_of(disks), logs_by_broker_id, knows_isr=True))
    assert (image_after.leader, image_after.leader_epoch) == (2, 10)


def test_without_metadata_the_longest_log_of_the_newest_epoch_leads(tmp_path: Path) -> None:
    disks = disks_of(tmp_path, {1: OF_ORDERS, 2: OF_ORDERS, 3: OF_ORDERS})
    logs_by_broker_id = {
        B1: {ORDERS: loaded_log_of(9, epoch=3)},
        B2: {ORDERS: loaded_log_of(5, epoch=4, high_watermark=4)},
        B3: {ORDERS: loaded_log_of(4, epoch=4)},
    }
    image_after = orders_in(with_new_leaders(image_of(disks), logs_by_broker_id, knows_isr=False))
    assert (image_after.leader, image_after.leader_epoch, image_after.isr) == (
        2,
        5,
        (2, 3),
    )
    logs_by_broker_id[B3] = {ORDERS: loaded_log_of(3, epoch=4)}
    assert orders_in(with_new_leaders(image_of(disks), logs_by_broker_id, knows_isr=False)).isr == (
        2,
    )
    logs_by_broker_id[B3] = {ORDERS: loaded_log_of(5, epoch=4)}
    assert (
        orders_in(with_new_leaders(image_of(disks), logs_by_broker_id, knows_isr=False)).leader == 2
    )


# What a recording that begins in the middle opens with.


class Reader:
    """A reader of the trace that starts from the snapshot and follows full events."""

    def __init__(self) -> None:
        self.brokers: dict[str, str] = {}
        self.faults: dict[str, Mapping[str, Any]] = {}
        self.partitions: dict[str, dict[str, Any]] = {}
        self.open: dict[str, dict[int, int]] = {}
        self.transactions: dict[str, Mapping[str, Any]] = {}

    def read(self, cluster: VirtualCluster) -> Reader:
        for line in cluster.env.tracer.lines():
            event = msgspec.json.decode(line)
            self._take_event(event, event.get("d", {}))
        return self

    def _take_event(self, event: Mapping[str, Any], event_fields: Mapping[str, Any]) -> None:
        match event["k"]:
            case "snapshot":
                self._begin_state(event_fields)
            case "log.append":
                self._partition(event_fields)["end"] = event_fields["last"] + 1
            case "marker.written":
                self._partition(event_fields)["end"] = event_fields["offset"] + 1
            case "log.hw" | "log.lso":
                self._partition(event_fields)[event["k"][len("log.") :]] = event_fields["to"]
            case "pid.open":
                self.open.setdefault(event_fields["tp"], {})[event_fields["pid"]] = event_fields[
                    "first"
                ]
            case "pid.close":
                self.open.get(event_fields["tp"], {}).pop(event_fields["pid"], None)
            case "txn.complete":
                self.transactions[event["tx"].split("/")[0]] = event_fields

    def _partition(self, event_fields: Mapping[str, Any]) -> dict[str, Any]:
        """Of one that a later part of the snapshot tells, nothing needs to be right yet."""
        return self.partitions.setdefault(event_fields["tp"], {})

    def _begin_state(self, event_fields: Mapping[str, Any]) -> None:
        self.brokers.update(
            {broker["node"]: broker["state"] for broker in event_fields.get("brokers", ())}
        )
        self.faults.update({fault["rule"]: fault for fault in event_fields.get("faults", ())})
        for partition_entry in event_fields["partitions"]:
            self.partitions[partition_entry["tp"]] = partition_entry
            self.open[partition_entry["tp"]] = {
                producer["pid"]: producer["first"]
                for producer in partition_entry.get("producers", ())
            }
        for transaction in event_fields["transactions"]:
            self.transactions[transaction["tx"].split("/")[0]] = transaction["d"]


def agrees(reader: Reader, cluster: VirtualCluster) -> None:
    """Check that the reader has the state that leaders and coordinators have."""
    for broker in cluster.sim.brokers.values():
        for topic_partition, log in broker.replicas.led.items():
            if not topic_partition.topic.startswith("__"):
                partition = reader.partitions[str(topic_partition)]
                assert partition["leader"] == broker.broker_id
                assert partition.get("end", 0) == log.log_end_offset
                assert partition.get("hw", 0) == log.high_watermark
                assert partition.get("lso", 0) == log.last_stable_offset
                assert reader.open[str(topic_partition)] == {
                    producer.producer_id: producer.txn_first_offset
                    for producer in log.producers.open_producers()
                }
        for txn in broker.coordinator.entries():
            transaction_entry = reader.transactions[txn.transactional_id]
            assert transaction_entry["state"] == txn.state.wire_name
            assert transaction_entry["epoch"] == txn.producer_epoch
            assert sorted(transaction_entry["partitions"]) == sorted(map(str, txn.partitions))


@pytest.mark.parametrize("things_per_part", [3, trace_snapshot.ITEMS_PER_PART])
def test_a_reader_can_start_from_it(things_per_part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_snapshot, "ITEMS_PER_PART", things_per_part)

    async def main(cluster: VirtualCluster) -> None:
        tracer = cluster.env.tracer
        async with (
            cluster.client() as client,
            Producer(client, transactional_id="ended") as ended_producer,
            Producer(client, transactional_id="open") as unended_producer,
        ):
            for producer in (ended_producer, unended_producer):
                await producer.init_transactions()
                producer.begin()
                await producer.send("orders", 0, b"x")
                await producer.send("orders", 1, b"x")
            await ended_producer.commit()
            await asyncio.sleep(0.1)
            cluster.arm(Hold(), FaultPoint.LOG_APPEND, "F1", topic="nowhere")
            tracer.level = TraceLevel.FULL
            if things_per_part < 10:
                ended_producer.begin()  # while the snapshot is still being told
                await ended_producer.send("orders", 2, b"x")
            await asyncio.sleep(1)
            reader = Reader().read(cluster)
            agrees(reader, cluster)
            assert reader.brokers == {f"broker/{broker_id}": "running" for broker_id in (1, 2, 3)}
            assert reader.faults["F1"]["point"] == "log.append"
            assert reader.transactions["open"]["state"] == "Ongoing"
            parts = [event.d for event in tracer.events() if event.k == "snapshot"]
            assert [part["last"] for part in parts] == [False] * (len(parts) - 1) + [True]  # type: ignore[index]
            assert (len(parts) > 2) == (things_per_part == 3)
            if things_per_part > 10:
                ended_producer.begin()
            await unended_producer.commit()
            await ended_producer.send("orders", 2, b"y")
            await ended_producer.abort()
            await asyncio.sleep(1)
            agrees(Reader().read(cluster), cluster)

    run_cluster(main)


@within(run_cluster)
async def test_a_broker_that_is_down_and_a_partition_without_leader_are_told(
    cluster: VirtualCluster,
) -> None:
    leader = cluster.leader(TopicPartition("orders", 0))
    for broker_id in (1, 2, 3):
        if broker_id != leader:
            await cluster.sim.stop_broker(broker_id)  # type: ignore[arg-type]
    await cluster.sim.kill_broker(leader)
    await asyncio.sleep(60)
    cluster.env.tracer.level = TraceLevel.BRIEF
    await asyncio.sleep(1)
    reader = Reader().read(cluster)
    assert set(reader.brokers.values()) == {"down"}
    assert reader.partitions["orders-0"]["leader"] == -1
    assert "end" not in reader.partitions["orders-0"]


@within(run_cluster)
async def test_a_cluster_that_has_not_started_has_nothing_to_tell(cluster: VirtualCluster) -> None:
    environment: Environment = cluster.env
    other_cluster = SimCluster(environment, cluster.sim.options)
    assert list(trace_snapshot.snapshot_parts(other_cluster)) == []


def test_positions_of_groups_are_told_in_parts_like_all_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    position = PositionNow(node="broker/1/group/0", group="g", tp="t-0", offset=3)
    monkeypatch.setattr(OffsetTrace, "positions", lambda _: iter([position] * 5))
    monkeypatch.setattr(trace_snapshot, "ITEMS_PER_PART", 4)

    async def main(cluster: VirtualCluster) -> None:
        parts: list[Any] = list(trace_snapshot.snapshot_parts(cluster.sim))
        positions = [
            position_told
            for snapshot_part in parts
            for position_told in snapshot_part.get("positions", ())
        ]
        assert positions == [position] * 5 * len(cluster.sim.brokers)
        sizes = [
            sum(
                len(snapshot_part.get(name, ()))
                for name in ("partitions", "transactions", "positions")
            )
            for snapshot_part in parts
        ]
        assert set(sizes[:-1]) == {4}
        assert sizes[-1] < 4
        assert [part["last"] for part in parts] == [False] * (len(parts) - 1) + [True]

    run_cluster(main)


# A cluster taken back to a state it was in: what is the same afterwards, and what is not.


def create(sim: SimCluster, name: str, **changes: object) -> TopicImage:
    created_topic = sim.metadata.create_topic(
        msgspec.convert({"name": name, **changes}, TopicToCreate)
    )
    assert isinstance(created_topic, TopicImage)
    return created_topic


@within(run_cluster)
async def test_topics_come_back_empty_with_other_ids_and_their_own_configs(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    topic_before = create(
        sim, "kept", partition_count=2, replication_factor=3, configs={"cleanup.policy": "compact"}
    )
    snapshot = sim.snapshot()
    create(sim, "later")
    async with cluster.client() as app_cluster, Producer(app_cluster) as producer:
        await producer.send("kept", 0, b"v", key=b"k")
    sim.move_leader(TopicPartition("kept", 0), topic_before.partitions[0].replicas[1])
    await sim.reset(snapshot)
    image = sim.metadata.image
    assert sorted(image.topics) == ["kept", "orders"]
    topic_after = image.topics["kept"]
    assert topic_after.configs == {"cleanup.policy": "compact"}
    assert topic_after.topic_id != topic_before.topic_id
    assert [partition.leader for partition in topic_after.partitions] == [
        partition.replicas[0] for partition in topic_before.partitions
    ]
    async with cluster.client() as app_cluster:
        assert await values(app_cluster, "kept", partitions=2) == []


@within(run_cluster, brokers=1)
async def test_what_was_held_is_thrown_away(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    snapshot = sim.snapshot()
    cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST, api="Produce")
    async with cluster.client() as app_cluster:
        producer = Producer(app_cluster, delivery_timeout_ms=400, request_timeout_ms=300)
        late_send_future = producer.send("orders", 0, b"late")
        await cluster.wait_until_struck()
        with pytest.raises(ClientError):
            await late_send_future
        await producer.close()
        assert sim.injector.rules()[0].held_crossings
        await sim.reset(snapshot)
        assert sim.injector.rules() == ()
        assert await values(app_cluster, "orders") == []


@within(run_cluster)
async def test_ids_are_never_given_out_twice(cluster: VirtualCluster) -> None:
    producer_ids = []
    snapshot = cluster.sim.snapshot()
    for _ in range(3):
        async with cluster.client() as app_cluster:
            producer = Producer(app_cluster, transactional_id="app")
            producer_ids.append((await producer.init_transactions()).producer_id)
            await producer.close()
        await cluster.sim.reset(snapshot)
    assert len(set(producer_ids)) == 3


@within(run_cluster)
async def test_metadata_never_looks_older_than_before(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    snapshot = sim.snapshot()
    for topic_number in range(5):
        create(sim, f"t{topic_number}")
    image_before = sim.metadata.image
    await sim.reset(snapshot)
    image_after = sim.metadata.image
    assert image_after.offset > image_before.offset
    assert image_after.features_epoch >= image_before.features_epoch


@within(run_cluster, as_version=("4.2",))
async def test_features_and_releases_are_those_of_the_snapshot(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    snapshot = sim.snapshot()
    sim.metadata.publish(sim.metadata.image.with_feature("transaction.version", 1))
    await sim.stop_broker(BrokerId(3))
    await sim.start_broker(BrokerId(3), as_version="4.3")
    await sim.reset(snapshot)
    assert sim.metadata.image.features["transaction.version"] == 2
    assert sim.fleet.release_of(BrokerId(3)).name == "4.2"
    async with cluster.client() as app_cluster:
        producer = await begin_transaction(app_cluster, "app")
        await producer.send("orders", 0, b"v")
        await producer.commit()
        await producer.close()


@within(run_cluster)
async def test_every_broker_runs_afterwards_whatever_became_of_it(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    snapshot = sim.snapshot()
    await sim.stop_broker(BrokerId(2))
    await sim.kill_broker(BrokerId(1))
    starting_task = asyncio.get_running_loop().create_task(sim.start_broker(BrokerId(1)))
    await asyncio.sleep(0.5)
    sim.isolate(BrokerId(3), from_clients=True)
    cluster.advance(1_000)
    await sim.reset(snapshot)
    await asyncio.wait([starting_task])
    assert starting_task.exception() is not None, "it was killed while it started"
    assert {member.state for member in sim.members.values()} == {MemberLifeState.RUNNING}
    assert cluster.env.clock.advanced_ms == 0
    await asyncio.sleep(60)
    assert all(broker.alive for broker in sim.metadata.image.brokers.values())
    async with cluster.client() as app_cluster, Producer(app_cluster) as producer:
        await producer.send("orders", 0, b"v")


@within(run_cluster)
async def test_a_reassignment_that_was_under_way_is_forgotten(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    snapshot = sim.snapshot()
    orders_partition = TopicPartition("orders", 0)
    partition = sim.metadata.image.partition(orders_partition)
    assert partition is not None
    moving_partition = msgspec.structs.replace(
        partition, replicas=(1, 2, 3), adding=(BrokerId(3),), removing=(BrokerId(1),)
    )
    snapshot_before = msgspec.structs.replace(
        snapshot, image=snapshot.image.with_partition(orders_partition, moving_partition)
    )
    image = restore_image(
        sim.metadata.image, snapshot_before, new_topic_id=sim.metadata.new_topic_id
    )
    partition_image = image.partition(orders_partition)
    assert partition_image is not None
    assert (partition_image.replicas, partition_image.is_reassigning) == ((1, 2), False)


async def test_ports_stay_bound_and_clients_are_disconnected() -> None:
    async with real_cluster() as sim:
        snapshot, bootstrap = sim.snapshot(), sim.bootstrap
        async with (
            client_of(sim.environment, sim) as app_cluster,
            Producer(app_cluster) as producer,
        ):
            for record_number in range(3):
                await producer.send("orders", 0, b"%d" % record_number)
                assert sum(len(listener.connections) for listener in sim.listeners) > 0
                await sim.reset(snapshot)
                assert sum(len(listener.connections) for listener in sim.listeners) == 0
                assert sim.bootstrap == bootstrap
            assert await values(app_cluster, "orders") == []


async def test_a_port_that_somebody_else_has_by_now_changes_nothing() -> None:
    async with real_cluster() as sim:
        snapshot = sim.snapshot()
        await sim.kill_broker(BrokerId(1))
        endpoint = sim.members[BrokerId(1)].endpoints[0]
        thieving_server = await asyncio.start_server(lambda *_: None, endpoint.host, endpoint.port)
        with pytest.raises(OSError, match=str(endpoint.port)):
            await sim.reset(snapshot)
        assert sim.members[BrokerId(2)].state is MemberLifeState.RUNNING
        thieving_server.close()
        await thieving_server.wait_closed()
        await sim.reset(snapshot)
        assert sim.members[BrokerId(1)].state is MemberLifeState.RUNNING


# What lies on a broker's disk, as files.


@within(run_cluster)
async def test_each_broker_has_what_it_stores_under_an_id_that_stays(
    cluster: VirtualCluster,
) -> None:
    files = {file.path: b"".join(file.parts) for file in log_dir_of(cluster.sim, BrokerId(2))}
    meta = MetaProperties.decode(files["meta.properties"].decode(), error_prefix="")
    assert (meta.node_id, meta.cluster_id) == (2, cluster.sim.metadata.image.cluster_id)
    files_again = {file.path: b"".join(file.parts) for file in log_dir_of(cluster.sim, BrokerId(2))}
    assert files == files_again
    folders = {path.split("/")[0] for path in files if "/" in path}
    assert folders == {"__cluster_metadata-0"} | {
        f"{topic.name}-{partition_index}"
        for topic in cluster.sim.metadata.image.topics.values()
        for partition_index, partition in enumerate(topic.partitions)
        if 2 in partition.replicas
    }
    topic = next(iter(cluster.sim.metadata.image.topics.values()))
    stored_id = decode_partition_metadata(
        files[f"{topic.name}-0/partition.metadata"].decode(), error_prefix=""
    )
    assert isinstance(stored_id, uuid.UUID)
    assert stored_id == topic.topic_id


@within(run_cluster)
async def test_a_broker_that_is_not_there_has_none(cluster: VirtualCluster) -> None:
    with pytest.raises(ConfigError, match="no broker 9"):
        log_dir_of(cluster.sim, BrokerId(9))


@within(run_cluster, topics=(("wide", 2_500),))
async def test_it_is_of_one_moment_though_others_come_between(cluster: VirtualCluster) -> None:
    expected_files = log_dir_of(cluster.sim, BrokerId(1))
    steps = LogDirsCut.of_cluster(cluster.sim, [BrokerId(1)]).files_in_steps(BrokerId(1))
    cluster.sim.metadata.create_topic(
        TopicToCreate(name="later", partition_count=1, replication_factor=1, configs={})
    )
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            files = end.value
            break
        count += 1
    assert files == expected_files
    assert count >= 3, "2,500 partitions are a step for each 1,000 of their records"
