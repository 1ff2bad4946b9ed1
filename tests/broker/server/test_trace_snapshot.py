"""What a recording that begins in the middle opens with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within import within
from txnsim.client.producer import Producer
from txnsim.coordinators.group._tracing import OffsetTrace, PositionNow
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.runtime.env import Environment
from txnsim.runtime.trace import TraceLevel
from txnsim.server import _trace_snapshot as trace_snapshot
from txnsim.server.cluster import SimCluster
from txnsim.types import TopicPartition


class Reader:
    """A page that only assigns: it starts from the snapshot and follows events at full."""

    def __init__(self) -> None:
        self.brokers: dict[str, str] = {}
        self.faults: dict[str, Mapping[str, Any]] = {}
        self.partitions: dict[str, dict[str, Any]] = {}
        self.open: dict[str, dict[int, int]] = {}
        self.transactions: dict[str, Mapping[str, Any]] = {}

    def read(self, cluster: VirtualCluster) -> Reader:
        for line in cluster.env.tracer.lines():
            event = msgspec.json.decode(line)
            self._take(event, event.get("d", {}))
        return self

    def _take(self, event: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        match event["k"]:
            case "snapshot":
                self._begin(data)
            case "log.append":
                self._partition(data)["end"] = data["last"] + 1
            case "marker.written":
                self._partition(data)["end"] = data["offset"] + 1
            case "log.hw" | "log.lso":
                self._partition(data)[event["k"][len("log.") :]] = data["to"]
            case "pid.open":
                self.open.setdefault(data["tp"], {})[data["pid"]] = data["first"]
            case "pid.close":
                self.open.get(data["tp"], {}).pop(data["pid"], None)
            case "txn.complete":
                self.transactions[event["tx"].split("/")[0]] = data

    def _partition(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Of one that a later part of the snapshot tells, nothing needs to be right yet."""
        return self.partitions.setdefault(data["tp"], {})

    def _begin(self, data: Mapping[str, Any]) -> None:
        self.brokers.update({one["node"]: one["state"] for one in data.get("brokers", ())})
        self.faults.update({one["rule"]: one for one in data.get("faults", ())})
        for one in data["partitions"]:
            self.partitions[one["tp"]] = one
            self.open[one["tp"]] = {
                producer["pid"]: producer["first"] for producer in one.get("producers", ())
            }
        for one in data["transactions"]:
            self.transactions[one["tx"].split("/")[0]] = one["d"]


def agrees(reader: Reader, cluster: VirtualCluster) -> None:
    """What the reader has is what the leaders and coordinators have."""
    for broker in cluster.sim.brokers.values():
        for place, log in broker.replicas.led.items():
            if not place.topic.startswith("__"):
                told = reader.partitions[str(place)]
                assert told["leader"] == broker.broker_id
                assert told.get("end", 0) == log.log_end_offset
                assert told.get("hw", 0) == log.high_watermark
                assert told.get("lso", 0) == log.last_stable_offset
                assert reader.open[str(place)] == {
                    producer.producer_id: producer.txn_first_offset
                    for producer in log.producers.open()
                }
        for txn in broker.coordinator.entries():
            entry = reader.transactions[txn.transactional_id]
            assert entry["state"] == txn.state.wire_name
            assert entry["epoch"] == txn.producer_epoch
            assert sorted(entry["partitions"]) == sorted(map(str, txn.partitions))


@pytest.mark.parametrize("things_per_part", [3, trace_snapshot.THINGS_PER_PART])
def test_a_reader_can_start_from_it(things_per_part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_snapshot, "THINGS_PER_PART", things_per_part)

    async def main(cluster: VirtualCluster) -> None:
        tracer = cluster.env.tracer
        async with (
            cluster.client() as client,
            Producer(client, transactional_id="ended") as ended,
            Producer(client, transactional_id="open") as left_open,
        ):
            for producer in (ended, left_open):
                await producer.init_transactions()
                producer.begin()
                await producer.send("orders", 0, b"x")
                await producer.send("orders", 1, b"x")
            await ended.commit()
            await asyncio.sleep(0.1)
            cluster.arm(Hold(), FaultPoint.LOG_APPEND, "F1", topic="nowhere")
            tracer.level = TraceLevel.FULL
            if things_per_part < 10:
                ended.begin()  # while the snapshot is still being told
                await ended.send("orders", 2, b"x")
            await asyncio.sleep(1)
            reader = Reader().read(cluster)
            agrees(reader, cluster)
            assert reader.brokers == {f"broker/{one}": "running" for one in (1, 2, 3)}
            assert reader.faults["F1"]["point"] == "log.append"
            assert reader.transactions["open"]["state"] == "Ongoing"
            parts = [event.d for event in tracer.events() if event.k == "snapshot"]
            assert [part["last"] for part in parts] == [False] * (len(parts) - 1) + [True]  # type: ignore[index]
            assert (len(parts) > 2) == (things_per_part == 3)
            if things_per_part > 10:
                ended.begin()
            await left_open.commit()
            await ended.send("orders", 2, b"y")
            await ended.abort()
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
    other = SimCluster(environment, cluster.sim.options)
    assert list(trace_snapshot.parts(other)) == []


def test_positions_of_groups_are_told_in_parts_like_all_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    position = PositionNow(node="broker/1/group/0", group="g", tp="t-0", offset=3)
    monkeypatch.setattr(OffsetTrace, "positions", lambda _: iter([position] * 5))
    monkeypatch.setattr(trace_snapshot, "THINGS_PER_PART", 4)

    async def main(cluster: VirtualCluster) -> None:
        parts: list[Any] = list(trace_snapshot.parts(cluster.sim))
        told = [one for part in parts for one in part.get("positions", ())]
        assert told == [position] * 5 * len(cluster.sim.brokers)
        sizes = [
            sum(len(part.get(name, ())) for name in ("partitions", "transactions", "positions"))
            for part in parts
        ]
        assert set(sizes[:-1]) == {4}
        assert sizes[-1] < 4
        assert [part["last"] for part in parts] == [False] * (len(parts) - 1) + [True]

    run_cluster(main)
