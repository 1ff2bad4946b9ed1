"""Faults on the wire over a whole transaction: nothing is lost or doubled, a seed repeats them, and
they strike the same over TCP and where brokers send each other bytes.
"""

from __future__ import annotations

import pytest

from tests.support.clusters import VirtualCluster, client_of, real_cluster, run_cluster, values
from txnsim.client.cluster import Cluster
from txnsim.client.producer import Producer
from txnsim.faults.actions import (
    Corrupt,
    Delay,
    Disconnect,
    Drop,
    DropAnswer,
    Duplicate,
    Pass,
    Reorder,
    Stall,
    Throttle,
)
from txnsim.faults.crossings import DamagedPart
from txnsim.faults.plan import Action, FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.injection.injector import Injector
from txnsim.runtime.trace import TraceLevel
from txnsim.types import BrokerId, TopicPartition

CLIENT = FaultPoint.CLIENT_REQUEST, FaultPoint.CLIENT_RESPONSE
PEER = FaultPoint.PEER_REQUEST, FaultPoint.PEER_RESPONSE
RECORDS = [f"record {number}".encode() for number in range(12)]
P0 = TopicPartition("orders", 0)


def arm(injector: Injector, action: Action, point: FaultPoint, **more: object) -> None:
    count = len(injector.rules())
    injector.arm(FaultRule(id=f"rule {count}", point=point, action=action, **more))  # type: ignore[arg-type]


def arm_bad_weather(injector: Injector) -> None:
    """A bit of everything, by chance; each rule three times at most."""
    luck = {"client_id": "app", "probability": 0.15, "limit": 3}
    for point in CLIENT:
        for action in (Delay(delay_ms=40), Drop(), Disconnect(), Stall(stall_ms=30)):
            arm(injector, action, point, **luck)
        arm(injector, Throttle(throttle_ms=25), point, **luck)
    arm(injector, DropAnswer(), CLIENT[0], **luck)
    for api in ("Produce", "EndTxn"):  # an InitProducerId that comes twice fences its own producer
        arm(injector, Duplicate(times=2), CLIENT[0], **{**luck, "api": api})
    arm(injector, Corrupt(what=DamagedPart.CRC), CLIENT[0], **{**luck, "api": "Produce"})
    between: dict[str, object] = {"probability": 0.1, "limit": 3}
    for point in PEER:
        for between_action in (Delay(delay_ms=40), Disconnect(), Stall(stall_ms=30), Reorder()):
            arm(injector, between_action, point, **between)
    arm(injector, Duplicate(), PEER[0], **between)


async def transact(client: Cluster) -> None:
    """Three transactions of four records; a client that has to try again, tries again."""
    async with Producer(client, transactional_id="tx", request_timeout_ms=2_000) as producer:
        await producer.init_transactions()
        for start in range(0, len(RECORDS), 4):
            producer.begin()
            for number, value in enumerate(RECORDS[start : start + 4]):
                await producer.send("orders", number % 3, value)
            await producer.commit()


async def bad_weather(cluster: VirtualCluster) -> tuple[str, list[int]]:
    injector = cluster.sim.injector
    async with cluster.client(request_timeout_ms=2_000) as client:
        arm_bad_weather(injector)  # our client asks once for its first metadata
        await transact(client)
        struck = [state.struck for state in injector.rules()]
        injector.disarm_all()
        found = await values(client, "orders")
    assert sorted(value for value in found if value) == sorted(RECORDS)
    return cluster.env.tracer.hash, struck


def story(seed: int) -> tuple[str, list[int]]:
    return run_cluster(bad_weather, seed=seed, trace_level=TraceLevel.FULL)


def test_bad_weather_loses_nothing_and_doubles_nothing(seed: int) -> None:
    _, struck = story(seed)
    assert sum(struck) > 5


@pytest.mark.slow
def test_the_same_seed_strikes_the_same_crossings() -> None:
    assert story(3) == story(3)
    assert story(3)[1] != story(4)[1]


def test_a_followers_fetch_is_matched_by_any_topic_of_its_session() -> None:
    async def main(cluster: VirtualCluster) -> None:
        if cluster.leader(P0) != 1:
            cluster.sim.move_leader(P0, BrokerId(1))
        async with cluster.client() as client, Producer(client) as producer:
            await producer.send("orders", 0, b"the sessions are there")
            for topic, expected in (("orders", True), ("no-such-topic", False)):
                seen = FaultRule(
                    id=topic, point=PEER[0], action=Pass(), api="Fetch", broker=1,
                    source="broker/2", topic=topic, partition=0,
                )  # fmt: skip
                state = cluster.sim.injector.arm(seen)
                await producer.send("orders", 0, b"one more")
                assert (state.struck > 0) is expected

    run_cluster(main)


async def test_they_strike_over_tcp_as_well() -> None:
    async with real_cluster() as sim:
        injector = sim.injector
        actions: tuple[Action, ...] = (
            Duplicate(),
            Corrupt(what=DamagedPart.CRC),
            Throttle(throttle_ms=5),
        )
        for nth, action in enumerate(actions, 1):
            arm(injector, action, CLIENT[0], api="Produce", client_id="app", nth=nth, limit=1)
        arm(injector, Disconnect(), CLIENT[1], api="EndTxn", client_id="app", limit=1)
        arm(injector, Stall(stall_ms=5), PEER[0], api="WriteTxnMarkers", limit=1)
        arm(injector, Delay(delay_ms=5), FaultPoint.CONNECTION_OPEN, limit=1)
        async with client_of(sim.environment, sim) as client:
            await transact(client)
            assert injector.never_struck() == ()
            injector.disarm_all()
            found = await values(client, "orders")
        assert sorted(value for value in found if value) == sorted(RECORDS)
