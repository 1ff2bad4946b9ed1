"""Typed requests between brokers: the API, the version, the command and the reply of each.

The shells of a broker use it in front of ``Network.ask``. It knows the version of each request
(``releases.interbroker_versions``), and sends commands of ``txnsim.interbroker``. Kafka's
counterparts: InterBrokerSendThread and NodeToControllerChannelManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from txnsim.errors import PeerDisconnectedError
from txnsim.interbroker.dead_letters import DeadLettersCommand, DeadLettersReply
from txnsim.interbroker.lifecycle import (
    BrokerHeartbeatCommand,
    BrokerHeartbeatReply,
    BrokerRegistrationCommand,
    BrokerRegistrationReply,
)
from txnsim.interbroker.replication import (
    NO_REPLICA,
    AlterPartitionCommand,
    AlterPartitionReply,
    ReplicaFetchCommand,
    ReplicaFetchReply,
    ReplicaOffsetCommand,
    ReplicaOffsetReply,
)
from txnsim.interbroker.share_state import (
    DeleteShareState,
    InitializeShareState,
    ReadShareState,
    ShareState,
    ShareStateError,
    ShareStateSummary,
    WriteShareState,
)
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    AddPartitionsToTxnReply,
    AllocateProducerIdsCommand,
    AllocateProducerIdsReply,
    WriteTxnMarkersCommand,
    WriteTxnMarkersReply,
)
from txnsim.releases import Fleet, interbroker_versions
from txnsim.releases.interbroker_versions import FOLLOWER_FETCH, FOLLOWER_LIST_OFFSETS
from txnsim.runtime.environment import Network
from txnsim.runtime.tasks import Pending
from txnsim.types import BrokerId, TopicPartition

FETCH: Final = FOLLOWER_FETCH.api_key
LIST_OFFSETS: Final = FOLLOWER_LIST_OFFSETS.api_key
PRODUCE: Final = interbroker_versions.DEAD_LETTERS.api_key
ADD_PARTITIONS_TO_TXN: Final = interbroker_versions.ADD_PARTITIONS_TO_TXN.api_key
WRITE_TXN_MARKERS: Final = interbroker_versions.WRITE_TXN_MARKERS.api_key
ALTER_PARTITION: Final = interbroker_versions.ALTER_PARTITION.api_key
BROKER_REGISTRATION: Final = interbroker_versions.BROKER_REGISTRATION.api_key
BROKER_HEARTBEAT: Final = interbroker_versions.BROKER_HEARTBEAT.api_key
ALLOCATE_PRODUCER_IDS: Final = interbroker_versions.ALLOCATE_PRODUCER_IDS.api_key
SHARE_STATE: Final = tuple(exchange.api_key for exchange in interbroker_versions.SHARE_STATE)
(
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    WRITE_SHARE_GROUP_STATE,
    DELETE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
) = SHARE_STATE
ShareCommand = InitializeShareState | ReadShareState | WriteShareState | DeleteShareState
ShareAnswer = ShareStateError | ShareState | ShareStateSummary

BROKER_EPOCHS_FROM: Final = 15
"""First version of Fetch with the follower's broker epoch (KIP-903).

Version 18 also has the high watermark that the follower knows (KIP-1166); below that, the leader's
session remembers the one that it sent last.
"""
CLEAN_SHUTDOWNS_FROM: Final = 3
"""First version of BrokerRegistration with the broker epoch before a clean shutdown (KIP-966)."""
VERIFICATION_FROM: Final = 4
"""First version of AddPartitionsToTxn with verification (KIP-890)."""
COMPLETE_COUNTS_FROM: Final = 1
"""First version of WriteShareGroupState with the delivery complete count;
ReadShareGroupStateSummary returns it from the same version on (KIP-1226).
"""
TRANSACTION_VERSION_FROM: Final = 2
"""First version of WriteTxnMarkers with the transaction version (KIP-1228); the newest."""

CONTROLLER_ID: Final = BrokerId(3000)
"""The controller's id in the network between brokers. Clients never see it (KRaft shows them a
random broker instead).
"""


class Peers:
    """The requests of one broker to other brokers and to the controller.

    Each method returns a future, so that a caller may await it or add a callback without a task of
    its own. A future fails with ``PeerError`` if no reply came.
    """

    __slots__ = (
        *("_broker_id", "_change_count", "_fleet", "_list_offsets_version", "_network"),
        *("_timeout_ms", "_version_by_peer_and_api", "replica_fetch_version"),
    )

    def __init__(
        self,
        *,
        network: Network,
        broker_id: BrokerId,
        request_timeout_ms: int,
        fleet: Fleet | None = None,
    ) -> None:
        self._fleet = fleet or Fleet()
        self._network: Network | _StoppedNetwork = network
        self._broker_id = broker_id
        self._timeout_ms = request_timeout_ms
        self._version_by_peer_and_api: dict[tuple[BrokerId, int], int] = {}
        self._change_count = self._fleet.changes
        self.replica_fetch_version = FOLLOWER_FETCH.levels[-1][1]
        """Version of Fetch that this broker sends as a follower."""
        self._list_offsets_version = FOLLOWER_LIST_OFFSETS.levels[-1][1]

    def apply(self, metadata_version: int) -> None:
        """Set the follower's request versions by the cluster's level of ``metadata.version``."""
        self.replica_fetch_version = FOLLOWER_FETCH.at_level(metadata_version)
        self._list_offsets_version = FOLLOWER_LIST_OFFSETS.at_level(metadata_version)

    def close(self) -> None:
        """Make every later request fail, because the broker is gone."""
        self._network = _StoppedNetwork()

    def add_partitions_to_txn(
        self, broker_id: BrokerId, version: int, command: AddPartitionsToTxnCommand
    ) -> Pending[AddPartitionsToTxnReply]:
        """Ask the coordinator on ``broker_id`` to verify or add partitions; the version is at least
        ``VERIFICATION_FROM``.
        """
        return self._network.ask(
            self._broker_id,
            broker_id,
            ADD_PARTITIONS_TO_TXN,
            version,
            command,
            timeout_ms=self._timeout_ms,
        )

    def write_txn_markers(
        self, broker_id: BrokerId, command: WriteTxnMarkersCommand
    ) -> Pending[WriteTxnMarkersReply]:
        """Ask ``broker_id`` to write markers on partitions that it leads.

        Below v2 the request has no transaction version: the leader assumes 0.
        """
        version = self.version(broker_id, WRITE_TXN_MARKERS)
        if version < TRANSACTION_VERSION_FROM:
            own_version = self.version(self._broker_id, WRITE_TXN_MARKERS)
            release_rules = self._fleet.release_of(self._broker_id).rules
            if own_version > version and not interbroker_versions.WRITE_TXN_MARKERS.follows_peer(
                release_rules
            ):
                return _disconnected_answer(
                    f"broker {broker_id} closes the connection: it has no v{own_version}"
                )
            command = _without_transaction_versions(command)
        return self._network.ask(
            self._broker_id,
            broker_id,
            WRITE_TXN_MARKERS,
            version,
            command,
            timeout_ms=self._timeout_ms,
        )

    def allocate_producer_ids(
        self, command: AllocateProducerIdsCommand
    ) -> Pending[AllocateProducerIdsReply]:
        """Ask the controller for a block of producer ids."""
        return self._ask_controller(ALLOCATE_PRODUCER_IDS, command, self._timeout_ms)

    def replica_fetch(
        self, broker_id: BrokerId, command: ReplicaFetchCommand
    ) -> Pending[ReplicaFetchReply]:
        """Fetch new batches from the leader on ``broker_id``."""
        return self._network.ask(
            self._broker_id,
            broker_id,
            FETCH,
            self.replica_fetch_version,
            command,
            timeout_ms=self._timeout_ms,
        )

    def replica_offset(
        self, broker_id: BrokerId, command: ReplicaOffsetCommand
    ) -> Pending[ReplicaOffsetReply]:
        """Ask the leader on ``broker_id`` for its log start or log end."""
        return self._network.ask(
            self._broker_id,
            broker_id,
            LIST_OFFSETS,
            self._list_offsets_version,
            command,
            timeout_ms=self._timeout_ms,
        )

    def latest_offset(
        self, broker_id: BrokerId, topic_partition: TopicPartition
    ) -> Pending[ReplicaOffsetReply]:
        """Ask the leader on ``broker_id`` for its high watermark, as a consumer does."""
        command = ReplicaOffsetCommand(
            replica_id=NO_REPLICA,
            topic_partition=topic_partition,
            current_leader_epoch=-1,
            timestamp_ms=-1,
        )
        return self._network.ask(
            self._broker_id,
            broker_id,
            LIST_OFFSETS,
            self.version(broker_id, LIST_OFFSETS),
            command,
            timeout_ms=self._timeout_ms,
        )

    def dead_letters(
        self, broker_id: BrokerId, command: DeadLettersCommand
    ) -> Pending[DeadLettersReply]:
        """Ask the leader on ``broker_id`` to append a batch of dead letters."""
        return self._network.ask(
            self._broker_id,
            broker_id,
            PRODUCE,
            self.version(broker_id, PRODUCE),
            command,
            timeout_ms=self._timeout_ms,
        )

    def alter_partition(self, command: AlterPartitionCommand) -> Pending[AlterPartitionReply]:
        """Ask the controller to change the ISRs of partitions that this broker leads."""
        return self._ask_controller(ALTER_PARTITION, command, self._timeout_ms)

    def register_broker(
        self, command: BrokerRegistrationCommand, *, timeout_ms: int
    ) -> Pending[BrokerRegistrationReply]:
        """Ask the controller for a broker epoch."""
        if self.version(CONTROLLER_ID, BROKER_REGISTRATION) < CLEAN_SHUTDOWNS_FROM:
            command = msgspec.structs.replace(command, previous_broker_epoch=-1)
        return self._ask_controller(BROKER_REGISTRATION, command, timeout_ms)

    def heartbeat(
        self, command: BrokerHeartbeatCommand, *, timeout_ms: int
    ) -> Pending[BrokerHeartbeatReply]:
        """Send a heartbeat to the controller."""
        return self._ask_controller(BROKER_HEARTBEAT, command, timeout_ms)

    def share_state(
        self, broker_id: BrokerId, api_key: int, commands: Sequence[ShareCommand]
    ) -> Pending[Sequence[ShareAnswer]]:
        """Send commands about share partitions of one group to the share coordinator on
        ``broker_id``.

        Args:
            broker_id: The coordinator's broker.
            api_key: One of ``SHARE_STATE``.
            commands: One for each share partition; the replies are in the same order.
        """
        version = self.version(broker_id, api_key)
        if api_key == WRITE_SHARE_GROUP_STATE and version < COMPLETE_COUNTS_FROM:
            commands = tuple(
                msgspec.structs.replace(command, delivery_complete_count=-1) for command in commands
            )
        return self._network.ask(
            self._broker_id,
            broker_id,
            api_key,
            version,
            tuple(commands),
            timeout_ms=self._timeout_ms,
        )

    # Parts

    def _ask_controller(self, api_key: int, command: object, timeout_ms: int) -> Pending[Any]:
        """Send a request to the controller. Frequent requests go to the network directly, to save a
        call.
        """
        # 2.8 has no AllocateProducerIds and asks the controller all the same (``releases.kafka``).
        version = max(0, self.version(CONTROLLER_ID, api_key))
        return self._network.ask(
            self._broker_id, CONTROLLER_ID, api_key, version, command, timeout_ms=timeout_ms
        )

    def version(self, broker_id: BrokerId, api_key: int) -> int:
        """The highest version that both sides support, as ApiVersions would show."""
        fleet = self._fleet
        if self._change_count != fleet.changes:
            self._change_count = fleet.changes
            self._version_by_peer_and_api.clear()
        version = self._version_by_peer_and_api.get((broker_id, api_key))
        if version is None:
            peer_release = (
                fleet.controller if broker_id == CONTROLLER_ID else fleet.release_of(broker_id)
            )
            own_version = fleet.highest_version(self._broker_id, api_key)
            version = self._version_by_peer_and_api[broker_id, api_key] = min(
                own_version, peer_release.highest_version(api_key)
            )
        return version


class _NoTaskRunner:
    """Stands for a runner of coroutines where the answer is there already, so that no task waits
    for it.
    """

    stepping = False


def _disconnected_answer(reason: str) -> Pending[Any]:
    pending_answer: Pending[Any] = Pending(_NoTaskRunner())
    pending_answer.fail(PeerDisconnectedError(reason))
    return pending_answer


def _without_transaction_versions(command: WriteTxnMarkersCommand) -> WriteTxnMarkersCommand:
    if not any(marker.transaction_version for marker in command.markers):
        return command
    return WriteTxnMarkersCommand(
        markers=tuple(
            msgspec.structs.replace(marker, transaction_version=0) for marker in command.markers
        )
    )


class _StoppedNetwork:
    """The network of a broker that is gone: every request fails."""

    __slots__ = ()

    def ask(
        self, source: BrokerId, _target: BrokerId, *_request: object, **_options: object
    ) -> Pending[Any]:
        """Fail with PeerDisconnectedError."""
        return _disconnected_answer(f"broker {source} is gone")
