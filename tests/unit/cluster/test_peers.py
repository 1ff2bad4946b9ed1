"""What a broker asks of its peers: API, version, target and patience of each request."""

from __future__ import annotations

from typing import cast

from sim.cluster.peers import CONTROLLER_ID, Peers
from sim.runtime.env import Network
from sim.types import (
    AddPartitionsToTxnCommand,
    AllocateProducerIdsCommand,
    AllocateProducerIdsReply,
    BrokerId,
    WriteTxnMarkersCommand,
)
from tests.support.peer_network import RecordingNetwork

ONE, TWO = BrokerId(1), BrokerId(2)


async def test_each_request_has_its_api_its_version_and_the_request_timeout() -> None:
    network = RecordingNetwork()
    peers = Peers(network=cast(Network, network), broker_id=ONE, request_timeout_ms=77)
    peers.add_partitions_to_txn(TWO, AddPartitionsToTxnCommand(transactions=()))
    peers.write_txn_markers(TWO, WriteTxnMarkersCommand(markers=()))
    peers.allocate_producer_ids(AllocateProducerIdsCommand(broker_id=ONE, broker_epoch=4))
    assert [(sent.target, sent.api_key, sent.api_version) for sent in network.sent] == [
        (TWO, 24, 5),
        (TWO, 27, 2),
        (CONTROLLER_ID, 67, 0),
    ]
    assert {(sent.source, sent.timeout_ms) for sent in network.sent} == {(ONE, 77)}


async def test_the_answer_is_the_peers_own() -> None:
    network = RecordingNetwork()
    peers = Peers(network=cast(Network, network), broker_id=ONE, request_timeout_ms=77)
    asked = peers.allocate_producer_ids(AllocateProducerIdsCommand(broker_id=ONE, broker_epoch=4))
    network.sent[0].answer.resolve(AllocateProducerIdsReply(first=1_000, length=1_000))
    assert (await asked).first == 1_000
