"""Brokers among each other: what they ask, cross, and load."""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import msgspec
import pytest

from tests.support.peer_network import RecordingNetwork
from tests.support.within_environment import in_virtual_time, within
from txnsim.errors import PeerDisconnectedError
from txnsim.faults.actions import Delay, Drop, Fail, Hold
from txnsim.faults.interception import FaultEffect, SubmitOutcome
from txnsim.faults.plan import Action, FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.injection.injector import Injector
from txnsim.interbroker.lifecycle import BrokerHeartbeatCommand, BrokerRegistrationCommand
from txnsim.interbroker.replication import ReplicaFetchCommand, ReplicaOffsetCommand
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    AllocateProducerIdsCommand,
    AllocateProducerIdsReply,
    TxnMarker,
    WriteTxnMarkersCommand,
)
from txnsim.node.broker_fault_points import (
    BrokerFaultPoints,
    error_in,
    is_lost,
    run_when_due,
    timer_gate,
)
from txnsim.node.coordinator_loading import CoordinatorLoading
from txnsim.node.peers import ADD_PARTITIONS_TO_TXN, CONTROLLER_ID, VERIFICATION_FROM, Peers
from txnsim.releases import Fleet, Rules, fleet_from
from txnsim.releases._kafka import RELEASE_2_8, RELEASE_3_6, RELEASE_4_1, RELEASE_4_2, RELEASE_4_4
from txnsim.runtime.environment import Network
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)

# How long a coordinator loads: not at all, unless somebody declares it.


P3 = TopicPartition(TRANSACTION_STATE_TOPIC, 3)


class PeerBench:
    """The ``CoordinatorLoading`` of one broker, with a fault injector."""

    def __init__(self, env: VirtualEnvironment, min_ms: int) -> None:
        self.injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        env.network.interceptor = self.injector
        self.loading = CoordinatorLoading(
            fault_points=BrokerFaultPoints(node="broker/1", network=env.network, tasks=env.tasks),
            clock=env.clock,
            tasks=env.tasks,
            min_ms=min_ms,
        )
        self.finished: list[bool] = []
        self.steps = 0

    def load(self, *, records: Sequence[int] = ()) -> None:
        """Start a load that reads batches of these numbers of records."""

        def read(*, is_readable: bool) -> Iterator[int]:
            for record_count in records:
                self.steps += 1
                yield record_count
            self.finished.append(is_readable)

        self.loading.load(P3, read)

    def arm(self, action: Action, *, partition: int = 3) -> None:
        self.injector.arm(
            FaultRule(
                id="f",
                point=FaultPoint.COORDINATOR_LOAD,
                action=action,
                broker=1,
                topic=TRANSACTION_STATE_TOPIC,
                partition=partition,
            )
        )


def run(main: Callable[[PeerBench], Awaitable[None]], *, min_ms: int = 0) -> None:
    async def run_with_bench(env: VirtualEnvironment) -> None:
        await main(PeerBench(env, min_ms))
        await env.tasks.close()

    run_virtual(run_with_bench, seed=1)


@within(run)
async def test_a_load_takes_no_time_of_its_own(peer_bench: PeerBench) -> None:
    peer_bench.load()
    assert peer_bench.finished == [True]


@within(run, min_ms=500)
async def test_a_load_takes_as_long_as_the_setting_says(peer_bench: PeerBench) -> None:
    peer_bench.load()
    await asyncio.sleep(0.499)
    assert peer_bench.finished == []
    await asyncio.sleep(0.002)
    assert peer_bench.finished == [True]
    peer_bench.load()
    peer_bench.loading.stop()
    await asyncio.sleep(1)
    assert peer_bench.finished == [True], "a broker that is gone loads nothing"


@within(run)
async def test_a_held_load_ends_when_it_is_released(peer_bench: PeerBench) -> None:
    peer_bench.arm(Hold())
    peer_bench.load()
    await asyncio.sleep(1)
    assert peer_bench.finished == []
    peer_bench.injector.release("f")
    await asyncio.sleep(0)
    assert peer_bench.finished == [True]


@pytest.mark.parametrize(
    ("action", "partition", "expected_results"),
    [
        (Delay(delay_ms=100), 3, [True]),
        (Drop(), 3, []),
        (Fail(error="CORRUPT_MESSAGE"), 3, [False]),
        (Drop(), 4, [True]),
    ],
)
@within(run)
async def test_what_a_fault_makes_of_a_coordinator_load(
    peer_bench: PeerBench, action: Action, partition: int, expected_results: list[bool]
) -> None:
    peer_bench.arm(action, partition=partition)
    peer_bench.load()
    await asyncio.sleep(1)
    assert peer_bench.finished == expected_results


@within(run)
async def test_a_load_that_is_held_for_a_broker_that_is_gone_has_no_effect(
    peer_bench: PeerBench,
) -> None:
    peer_bench.arm(Hold())
    peer_bench.load()
    peer_bench.load()
    peer_bench.loading.stop()
    peer_bench.injector.disarm("f")
    await asyncio.sleep(0)
    assert peer_bench.finished == []


@within(run)
async def test_a_long_log_is_read_in_slices_and_the_next_one_after_it(
    peer_bench: PeerBench,
) -> None:
    peer_bench.load(records=[10] * 20)
    peer_bench.load(records=[1])
    assert (peer_bench.steps, peer_bench.finished) == (7, []), "a slice is 66 records"
    await asyncio.sleep(0.001)
    assert (peer_bench.steps, peer_bench.finished) == (21, [True, True])


@within(run)
async def test_a_broker_that_is_gone_reads_no_further(peer_bench: PeerBench) -> None:
    peer_bench.load(records=[10] * 20)
    peer_bench.loading.stop()
    await asyncio.sleep(0.001)
    assert (peer_bench.steps, peer_bench.finished) == (7, [])


def test_a_log_that_cannot_be_read_keeps_no_other_one_waiting() -> None:
    """This holds for a log whose first slice fails, and for one that fails after a break."""

    def unreadable(*, is_readable: bool) -> Iterator[int]:
        yield 10 if is_readable else 0
        raise ValueError("torn")

    read: list[int] = []

    async def main(peer_bench: PeerBench) -> None:
        peer_bench.load(records=[10] * 20)
        peer_bench.loading.load(P3, unreadable)
        peer_bench.load(records=[1])
        await asyncio.sleep(0.001)
        read.append(len(peer_bench.finished))
        with pytest.raises(ValueError, match="torn"):
            peer_bench.loading.load(P3, unreadable)
        peer_bench.load()
        read.append(len(peer_bench.finished))

    with pytest.raises(ExceptionGroup, match="background tasks failed") as error_info:
        run(main)
    assert read == [2, 3]
    assert error_info.group_contains(ValueError, match="torn"), "it is told as the bug that it is"


@within(run)
async def test_a_broker_that_is_gone_keeps_no_logs(peer_bench: PeerBench) -> None:
    peer_bench.load(records=[10] * 20)
    peer_bench.load(records=[1])
    waiting_log = weakref.ref(peer_bench.loading._waiting_loads[0])
    peer_bench.loading.stop()
    assert waiting_log() is None
    await asyncio.sleep(0.001)
    assert peer_bench.finished == []


@within(run)
async def test_the_end_of_the_run_ends_a_held_load(peer_bench: PeerBench) -> None:
    peer_bench.arm(Hold())
    peer_bench.load()


# What a broker asks of its peers: API, version, target and patience of each request.


B1, B2 = BrokerId(1), BrokerId(2)


async def test_each_request_has_its_api_its_version_and_the_request_timeout() -> None:
    network = RecordingNetwork()
    peers = Peers(network=cast(Network, network), broker_id=B1, request_timeout_ms=77)
    peers.add_partitions_to_txn(
        B2, peers.version(B2, ADD_PARTITIONS_TO_TXN), AddPartitionsToTxnCommand(transactions=())
    )
    peers.write_txn_markers(B2, WriteTxnMarkersCommand(markers=()))
    peers.allocate_producer_ids(AllocateProducerIdsCommand(broker_id=B1, broker_epoch=4))
    assert [
        (sent_request.target, sent_request.api_key, sent_request.api_version)
        for sent_request in network.sent
    ] == [
        (B2, 24, 5),
        (B2, 27, 2),
        (CONTROLLER_ID, 67, 0),
    ]
    assert {(sent_request.source, sent_request.timeout_ms) for sent_request in network.sent} == {
        (B1, 77)
    }


async def test_a_broker_that_is_gone_sends_no_more_requests() -> None:
    network = RecordingNetwork()
    peers = Peers(network=cast(Network, network), broker_id=B1, request_timeout_ms=77)
    peers.close()
    answer_future = peers.write_txn_markers(B2, WriteTxnMarkersCommand(markers=()))
    assert isinstance(answer_future.exception(), PeerDisconnectedError)
    assert network.sent == []


async def test_the_answer_is_the_peers_own() -> None:
    network = RecordingNetwork()
    peers = Peers(network=cast(Network, network), broker_id=B1, request_timeout_ms=77)
    answer_future = peers.allocate_producer_ids(
        AllocateProducerIdsCommand(broker_id=B1, broker_epoch=4)
    )
    network.sent[0].answer.resolve(
        AllocateProducerIdsReply(first_producer_id=1_000, producer_id_count=1_000)
    )
    assert (await answer_future).first_producer_id == 1_000


def test_an_older_peer_is_asked_in_versions_that_it_knows() -> None:
    network = RecordingNetwork()
    fleet = Fleet(releases_by_broker={B2: RELEASE_3_6})
    peers = Peers(network=cast(Network, network), broker_id=B1, request_timeout_ms=77, fleet=fleet)
    peers.add_partitions_to_txn(
        B2, peers.version(B2, ADD_PARTITIONS_TO_TXN), AddPartitionsToTxnCommand(transactions=())
    )
    peers.write_txn_markers(B2, _markers(transaction_version=2))
    assert [(sent_request.api_key, sent_request.api_version) for sent_request in network.sent] == [
        (24, 4),
        (27, 1),
    ]
    assert [marker.transaction_version for marker in network.sent[1].command.markers] == [0]


def test_an_older_broker_asks_in_versions_of_its_own() -> None:
    network = RecordingNetwork()
    peers = Peers(
        network=cast(Network, network),
        broker_id=B1,
        request_timeout_ms=77,
        fleet=Fleet(releases_by_broker={B1: RELEASE_3_6}),
    )
    peers.add_partitions_to_txn(
        B2, peers.version(B2, ADD_PARTITIONS_TO_TXN), AddPartitionsToTxnCommand(transactions=())
    )
    peers.write_txn_markers(B2, _markers(transaction_version=0))
    assert [(sent_request.api_key, sent_request.api_version) for sent_request in network.sent] == [
        (24, 4),
        (27, 1),
    ]


def test_a_follower_goes_by_the_level_of_the_cluster() -> None:
    network = RecordingNetwork()
    peers = Peers(network=cast(Network, network), broker_id=B1, request_timeout_ms=77)
    command = cast(ReplicaFetchCommand, None)
    for level in (33, 21, 0):
        peers.apply(level)
        peers.replica_fetch(B2, command)
        peers.replica_offset(B2, cast(ReplicaOffsetCommand, None))
    sent = [(sent.api_key, sent.api_version) for sent in network.sent]
    assert sent == [(1, 18), (2, 11), (1, 17), (2, 9), (1, 12), (2, 6)]


def test_the_controller_is_asked_in_versions_that_it_knows() -> None:
    network = RecordingNetwork()
    fleet = fleet_from(("4.4,1=3.6",), broker_count=2)
    peers = Peers(network=cast(Network, network), broker_id=B2, request_timeout_ms=77, fleet=fleet)
    registration = BrokerRegistrationCommand(
        broker_id=B2,
        cluster_id="c",
        incarnation_id=uuid.UUID(int=1),
        host="h",
        port=1,
        previous_broker_epoch=5,
    )
    peers.register_broker(registration, timeout_ms=77)
    heartbeat = BrokerHeartbeatCommand(broker_id=B2, broker_epoch=6, metadata_offset=1)
    peers.heartbeat(heartbeat, timeout_ms=77)
    fleet.assign(B1, RELEASE_4_4)
    peers.register_broker(registration, timeout_ms=77)
    peers.heartbeat(heartbeat, timeout_ms=77)
    sent_versions = [
        (sent_request.api_key, sent_request.api_version) for sent_request in network.sent
    ]
    assert sent_versions == [(62, 1), (63, 0), (62, 4), (63, 2)]
    # A registration below version 3 can't say that the broker was shut down in good order.
    assert [sent_request.command.previous_broker_epoch for sent_request in network.sent[::2]] == [
        -1,
        5,
    ]


def test_verification_is_known_from_3_6_on() -> None:
    fleet = Fleet(releases_by_broker={B2: RELEASE_2_8})
    peers = Peers(
        network=cast(Network, RecordingNetwork()),
        broker_id=B1,
        request_timeout_ms=77,
        fleet=fleet,
    )
    assert peers.version(B2, ADD_PARTITIONS_TO_TXN) < VERIFICATION_FROM
    assert peers.version(B1, ADD_PARTITIONS_TO_TXN) >= VERIFICATION_FROM
    fleet.assign(B2, RELEASE_3_6)
    assert peers.version(B2, ADD_PARTITIONS_TO_TXN) >= VERIFICATION_FROM


def test_before_kafka_20322_markers_went_out_in_a_version_that_old_peers_hang_up_at() -> None:
    rules = Rules(markers_follow_peer_version=False)
    own_release = msgspec.structs.replace(RELEASE_4_2, rules=rules)
    network = RecordingNetwork()
    fleet = Fleet(releases_by_broker={B1: own_release, B2: RELEASE_4_1})
    peers = Peers(network=cast(Network, network), broker_id=B1, request_timeout_ms=77, fleet=fleet)
    answer_future = peers.write_txn_markers(B2, _markers(transaction_version=2))
    assert isinstance(answer_future.exception(), PeerDisconnectedError)
    assert network.sent == []
    fleet.assign(B2, RELEASE_4_2)
    assert not peers.write_txn_markers(B2, _markers(transaction_version=2)).done()


def _markers(*, transaction_version: int) -> WriteTxnMarkersCommand:
    marker = TxnMarker(
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(1),
        committed=True,
        coordinator_epoch=CoordinatorEpoch(0),
        transaction_version=transaction_version,
        partitions=(TopicPartition("foo", 0),),
    )
    return WriteTxnMarkersCommand(markers=(marker,))


# The fault points inside of a broker: asking, waiting, and what is left of it when it stops.


P0 = TopicPartition("orders", 0)
ABOUT_P0 = Subject(partitions=(P0,))


class CrossingsBench:
    def __init__(self, env: VirtualEnvironment) -> None:
        self.env = env
        self.injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        env.network.interceptor = self.injector
        self.fault_points = BrokerFaultPoints(node="broker/1", network=env.network, tasks=env.tasks)
        self.told: list[FaultEffect | None] = []

    def arm(self, action: Action, point: FaultPoint, **rule_fields: Any) -> None:
        self.injector.arm(FaultRule(id="f", point=point, action=action, **rule_fields))

    def ask(self, point: FaultPoint = FaultPoint.LOG_APPEND, *, kind: str = "") -> None:
        self.fault_points.go_on(self.told.append, point, ABOUT_P0, kind=kind)


run_of_crossings = in_virtual_time(CrossingsBench)


@within(run_of_crossings)
async def test_no_rule_is_asked_while_nothing_is_armed(peer_bench: CrossingsBench) -> None:
    assert not peer_bench.fault_points.is_armed
    peer_bench.ask()
    assert peer_bench.told == [None]


@within(run_of_crossings)
async def test_another_crossing_goes_on_at_once(peer_bench: CrossingsBench) -> None:
    peer_bench.arm(Hold(), FaultPoint.LOG_APPEND, topic="another")
    assert peer_bench.fault_points.is_armed
    peer_bench.ask()
    assert peer_bench.told == [None]
    assert await peer_bench.fault_points.verdict(FaultPoint.LOG_APPEND, ABOUT_P0) is None


@pytest.mark.parametrize(
    "criteria",
    [
        {"broker": 1},
        {"topic": "orders", "partition": 0},
        {"kind": "marker"},
    ],
)
@within(run_of_crossings)
async def test_a_rule_names_broker_subject_and_kind(
    peer_bench: CrossingsBench, criteria: dict[str, Any]
) -> None:
    peer_bench.arm(Fail(error="KAFKA_STORAGE_ERROR"), FaultPoint.LOG_APPEND, **criteria)
    peer_bench.ask(kind="marker")
    (fault_effect,) = peer_bench.told
    assert error_in(fault_effect) == 56
    assert not is_lost(fault_effect)


@within(run_of_crossings)
async def test_what_is_held_goes_on_with_the_release_and_others_pass_it(
    peer_bench: CrossingsBench,
) -> None:
    peer_bench.arm(Hold(), FaultPoint.LOG_APPEND, limit=1)
    peer_bench.ask()
    assert await peer_bench.fault_points.verdict(FaultPoint.LOG_APPEND, ABOUT_P0) is None
    assert peer_bench.told == []
    peer_bench.injector.release("f")
    await asyncio.sleep(0.001)
    (fault_effect,) = peer_bench.told
    assert fault_effect is not None
    assert fault_effect.outcome is SubmitOutcome.PASS


@within(run_of_crossings)
async def test_a_delay_takes_its_time(peer_bench: CrossingsBench) -> None:
    peer_bench.arm(Delay(delay_ms=700), FaultPoint.METADATA_APPLY)
    before_ms = peer_bench.env.clock.monotonic_ms()
    assert error_in(await peer_bench.fault_points.verdict(FaultPoint.METADATA_APPLY)) == 0
    assert peer_bench.env.clock.monotonic_ms() - before_ms == 700


@within(run_of_crossings)
async def test_a_broker_that_has_stopped_does_nothing_any_more(peer_bench: CrossingsBench) -> None:
    peer_bench.arm(Hold(), FaultPoint.LOG_APPEND)
    peer_bench.ask()
    peer_bench.fault_points.stop()
    peer_bench.injector.release("f")
    await asyncio.sleep(0.001)
    assert peer_bench.told == []
    assert peer_bench.fault_points.is_stopped


@within(run_of_crossings)
async def test_what_is_held_ends_with_the_run(peer_bench: CrossingsBench) -> None:
    peer_bench.arm(Hold(), FaultPoint.LOG_APPEND)
    peer_bench.ask()
    await peer_bench.env.tasks.close()
    assert peer_bench.told == []


@within(run_of_crossings)
async def test_a_scan_that_is_dropped_is_left_out_once(peer_bench: CrossingsBench) -> None:
    happened: list[str] = []
    gate = timer_gate(peer_bench.fault_points)
    peer_bench.arm(Drop(), FaultPoint.CLOCK_TIMER, kind="retention", limit=1)
    for kind in ("cleaner", "retention", "retention"):
        gate(kind, partial(happened.append, kind), partial(happened.append, f"no {kind}"))
    assert happened == ["cleaner", "no retention", "retention"]
    run_when_due("retention", lambda: happened.append("at once"), lambda: happened.append("never"))
    assert happened[3:] == ["at once"]


def test_verdicts_are_read_in_one_place() -> None:
    drop_effect = FaultEffect(outcome=SubmitOutcome.DROP)
    assert (is_lost(None), is_lost(drop_effect)) == (False, True)
    assert (error_in(None), error_in(drop_effect)) == (0, 0)
    assert error_in(FaultEffect(outcome=SubmitOutcome.ERROR, error=6)) == 6
