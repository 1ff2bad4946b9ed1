"""What a broker asks of its peers: API, version, target and patience of each request."""

from __future__ import annotations

import uuid
from typing import cast

import msgspec

from tests.support.peer_network import RecordingNetwork
from txnsim.errors import PeerDisconnectedError
from txnsim.interbroker.lifecycle import BrokerHeartbeatCommand, BrokerRegistrationCommand
from txnsim.interbroker.replication import ReplicaFetchCommand, ReplicaOffsetCommand
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    AllocateProducerIdsCommand,
    AllocateProducerIdsReply,
    TxnMarker,
    WriteTxnMarkersCommand,
)
from txnsim.node.peers import ADD_PARTITIONS_TO_TXN, CONTROLLER_ID, VERIFICATION_FROM, Peers
from txnsim.releases import Fleet, Rules, fleet_from
from txnsim.releases.kafka import RELEASE_2_8, RELEASE_3_6, RELEASE_4_1, RELEASE_4_2, RELEASE_4_4
from txnsim.runtime.env import Network
from txnsim.types import BrokerId, CoordinatorEpoch, ProducerEpoch, ProducerId, TopicPartition

ONE, TWO = BrokerId(1), BrokerId(2)


async def test_each_request_has_its_api_its_version_and_the_request_timeout() -> None:
    network = RecordingNetwork()
    peers = Peers(network=cast(Network, network), broker_id=ONE, request_timeout_ms=77)
    peers.add_partitions_to_txn(
        TWO, peers.version(TWO, ADD_PARTITIONS_TO_TXN), AddPartitionsToTxnCommand(transactions=())
    )
    peers.write_txn_markers(TWO, WriteTxnMarkersCommand(markers=()))
    peers.allocate_producer_ids(AllocateProducerIdsCommand(broker_id=ONE, broker_epoch=4))
    assert [(sent.target, sent.api_key, sent.api_version) for sent in network.sent] == [
        (TWO, 24, 5),
        (TWO, 27, 2),
        (CONTROLLER_ID, 67, 0),
    ]
    assert {(sent.source, sent.timeout_ms) for sent in network.sent} == {(ONE, 77)}


async def test_a_broker_that_is_gone_sends_no_more_requests() -> None:
    network = RecordingNetwork()
    peers = Peers(network=cast(Network, network), broker_id=ONE, request_timeout_ms=77)
    peers.close()
    asked = peers.write_txn_markers(TWO, WriteTxnMarkersCommand(markers=()))
    assert isinstance(asked.exception(), PeerDisconnectedError)
    assert network.sent == []


async def test_the_answer_is_the_peers_own() -> None:
    network = RecordingNetwork()
    peers = Peers(network=cast(Network, network), broker_id=ONE, request_timeout_ms=77)
    asked = peers.allocate_producer_ids(AllocateProducerIdsCommand(broker_id=ONE, broker_epoch=4))
    network.sent[0].answer.resolve(AllocateProducerIdsReply(first=1_000, length=1_000))
    assert (await asked).first == 1_000


def test_an_older_peer_is_asked_in_versions_that_it_knows() -> None:
    network = RecordingNetwork()
    fleet = Fleet(by_broker={TWO: RELEASE_3_6})
    peers = Peers(network=cast(Network, network), broker_id=ONE, request_timeout_ms=77, fleet=fleet)
    peers.add_partitions_to_txn(
        TWO, peers.version(TWO, ADD_PARTITIONS_TO_TXN), AddPartitionsToTxnCommand(transactions=())
    )
    peers.write_txn_markers(TWO, _markers(transaction_version=2))
    assert [(sent.api_key, sent.api_version) for sent in network.sent] == [(24, 4), (27, 1)]
    assert [marker.transaction_version for marker in network.sent[1].command.markers] == [0]


def test_an_older_broker_asks_in_versions_of_its_own() -> None:
    network = RecordingNetwork()
    peers = Peers(
        network=cast(Network, network),
        broker_id=ONE,
        request_timeout_ms=77,
        fleet=Fleet(by_broker={ONE: RELEASE_3_6}),
    )
    peers.add_partitions_to_txn(
        TWO, peers.version(TWO, ADD_PARTITIONS_TO_TXN), AddPartitionsToTxnCommand(transactions=())
    )
    peers.write_txn_markers(TWO, _markers(transaction_version=0))
    assert [(sent.api_key, sent.api_version) for sent in network.sent] == [(24, 4), (27, 1)]


def test_a_follower_goes_by_the_level_of_the_cluster() -> None:
    network = RecordingNetwork()
    peers = Peers(network=cast(Network, network), broker_id=ONE, request_timeout_ms=77)
    command = cast(ReplicaFetchCommand, None)
    for level in (33, 21, 0):
        peers.apply(level)
        peers.replica_fetch(TWO, command)
        peers.replica_offset(TWO, cast(ReplicaOffsetCommand, None))
    sent = [(sent.api_key, sent.api_version) for sent in network.sent]
    assert sent == [(1, 18), (2, 11), (1, 17), (2, 9), (1, 12), (2, 6)]


def test_the_controller_is_asked_in_versions_that_it_knows() -> None:
    network = RecordingNetwork()
    fleet = fleet_from(("4.4,1=3.6",), brokers=2)
    peers = Peers(network=cast(Network, network), broker_id=TWO, request_timeout_ms=77, fleet=fleet)
    registration = BrokerRegistrationCommand(
        broker_id=TWO,
        cluster_id="c",
        incarnation_id=uuid.UUID(int=1),
        host="h",
        port=1,
        previous_broker_epoch=5,
    )
    peers.register_broker(registration, timeout_ms=77)
    heartbeat = BrokerHeartbeatCommand(broker_id=TWO, broker_epoch=6, metadata_offset=1)
    peers.heartbeat(heartbeat, timeout_ms=77)
    fleet.assign(ONE, RELEASE_4_4)
    peers.register_broker(registration, timeout_ms=77)
    peers.heartbeat(heartbeat, timeout_ms=77)
    told = [(sent.api_key, sent.api_version) for sent in network.sent]
    assert told == [(62, 1), (63, 0), (62, 4), (63, 2)]
    # A registration below version 3 can't say that the broker was shut down in good order.
    assert [sent.command.previous_broker_epoch for sent in network.sent[::2]] == [-1, 5]


def test_verification_is_known_from_3_6_on() -> None:
    fleet = Fleet(by_broker={TWO: RELEASE_2_8})
    peers = Peers(
        network=cast(Network, RecordingNetwork()),
        broker_id=ONE,
        request_timeout_ms=77,
        fleet=fleet,
    )
    assert peers.version(TWO, ADD_PARTITIONS_TO_TXN) < VERIFICATION_FROM
    assert peers.version(ONE, ADD_PARTITIONS_TO_TXN) >= VERIFICATION_FROM
    fleet.assign(TWO, RELEASE_3_6)
    assert peers.version(TWO, ADD_PARTITIONS_TO_TXN) >= VERIFICATION_FROM


def test_before_kafka_20322_markers_went_out_in_a_version_that_old_peers_hang_up_at() -> None:
    rules = Rules(markers_follow_peer_version=False)
    ours = msgspec.structs.replace(RELEASE_4_2, rules=rules)
    network = RecordingNetwork()
    fleet = Fleet(by_broker={ONE: ours, TWO: RELEASE_4_1})
    peers = Peers(network=cast(Network, network), broker_id=ONE, request_timeout_ms=77, fleet=fleet)
    answer = peers.write_txn_markers(TWO, _markers(transaction_version=2))
    assert isinstance(answer.exception(), PeerDisconnectedError)
    assert network.sent == []
    fleet.assign(TWO, RELEASE_4_2)
    assert not peers.write_txn_markers(TWO, _markers(transaction_version=2)).done()


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
