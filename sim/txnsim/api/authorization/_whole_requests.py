"""Rights that a whole request needs.

If it needs several, they are checked in this order, and the first missing one gives the error.
Kafka's counterpart: KafkaApis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from txnsim.api._access import FORBIDDEN, Access
from txnsim.api._groups import sync_group
from txnsim.api._records import produce, share_requests
from txnsim.api._transactions import add_partitions_to_txn
from txnsim.api.request import Request
from txnsim.errors import ErrorCode
from txnsim.security.acls import AclOperation, ResourceType

Check = Callable[[Request, Access], ErrorCode | None]

_NO_CLUSTER: Final = FORBIDDEN[ResourceType.CLUSTER]
_TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID


def refusal(request: Request, access: Access) -> ErrorCode | None:
    """The error that refuses the whole request; None if no right is missing."""
    for check in CHECKS.get(request.api_key, ()):
        error = check(request, access)
        if error is not None:
            return error
    return None


def _cluster_check(*operations: AclOperation) -> tuple[Check]:
    def check(_request: Request, access: Access) -> ErrorCode | None:
        return None if any(map(access.may_cluster, operations)) else _NO_CLUSTER

    return (check,)


def _group_check(operation: AclOperation) -> Check:
    """A check that the client may do ``operation`` on the request's group."""

    def check(request: Request, access: Access) -> ErrorCode | None:
        return access.denial(operation, ResourceType.GROUP, request.message.group_id)

    return check


def _check_sync_group(request: Request, access: Access) -> ErrorCode | None:
    """Require READ on the group; the handler refuses an incomplete request before that."""
    return _READ_GROUP(request, access) if sync_group.names_its_protocol(request) else None


def _check_transactional_id(request: Request, access: Access) -> ErrorCode | None:
    """Require WRITE on the transactional id."""
    return access.denial(AclOperation.WRITE, _TRANSACTIONAL_ID, request.message.transactional_id)


def _check_produce(request: Request, access: Access) -> ErrorCode | None:
    """Require WRITE on the transactional id, only if a batch is transactional."""
    message = request.message
    if message.transactional_id is None or not produce.carries_transactions(message):
        return None
    return _check_transactional_id(request, access)


def _check_init_producer_id(request: Request, access: Access) -> ErrorCode | None:
    """Require WRITE on the transactional id; without an id, a right to write idempotently."""
    message = request.message
    transactional_id = message.transactional_id
    if transactional_id is not None:
        error = _check_transactional_id(request, access)
        if error is None and getattr(message, "enable2_pc", False):
            return access.denial(AclOperation.TWO_PHASE_COMMIT, _TRANSACTIONAL_ID, transactional_id)
        return error
    may_produce = access.may_cluster(AclOperation.IDEMPOTENT_WRITE) or access.may_on_some(
        AclOperation.WRITE, ResourceType.TOPIC
    )
    return None if may_produce else _NO_CLUSTER


def _check_add_partitions(request: Request, access: Access) -> ErrorCode | None:
    """Up to v3 check the producer's rights, from v4 on the broker's."""
    if request.api_version >= add_partitions_to_txn.BATCHED_FROM:
        return None if access.may_cluster(AclOperation.CLUSTER_ACTION) else _NO_CLUSTER
    transactional_id = request.message.v3_and_below_transactional_id
    return access.denial(AclOperation.WRITE, _TRANSACTIONAL_ID, transactional_id)


_READ_GROUP: Final = _group_check(AclOperation.READ)


def _check_share(request: Request, access: Access) -> ErrorCode | None:
    """Require READ on the group; if share groups are disabled or the group is missing, the handler
    refuses first.
    """
    is_refused = not share_requests.is_on(request) or request.message.group_id is None
    return None if is_refused else _READ_GROUP(request, access)


CHECKS: Final[Mapping[int, tuple[Check, ...]]] = {
    0: (_check_produce,),  # Produce
    8: (_READ_GROUP,),  # OffsetCommit
    11: (_READ_GROUP,),  # JoinGroup
    12: (_READ_GROUP,),  # Heartbeat
    13: (_READ_GROUP,),  # LeaveGroup
    14: (_check_sync_group,),  # SyncGroup
    22: (_check_init_producer_id,),  # InitProducerId
    24: (_check_add_partitions,),  # AddPartitionsToTxn
    25: (_check_transactional_id, _READ_GROUP),  # AddOffsetsToTxn
    26: (_check_transactional_id,),  # EndTxn
    27: _cluster_check(AclOperation.ALTER, AclOperation.CLUSTER_ACTION),  # WriteTxnMarkers
    28: (_check_transactional_id, _READ_GROUP),  # TxnOffsetCommit
    29: _cluster_check(AclOperation.DESCRIBE),  # DescribeAcls
    30: _cluster_check(AclOperation.ALTER),  # CreateAcls
    31: _cluster_check(AclOperation.ALTER),  # DeleteAcls
    34: _cluster_check(AclOperation.ALTER),  # AlterReplicaLogDirs
    35: _cluster_check(AclOperation.DESCRIBE),  # DescribeLogDirs
    43: _cluster_check(AclOperation.ALTER),  # ElectLeaders
    45: _cluster_check(AclOperation.ALTER),  # AlterPartitionReassignments
    46: _cluster_check(AclOperation.DESCRIBE),  # ListPartitionReassignments
    47: (_group_check(AclOperation.DELETE),),  # OffsetDelete
    48: _cluster_check(AclOperation.DESCRIBE_CONFIGS),  # DescribeClientQuotas
    49: _cluster_check(AclOperation.ALTER_CONFIGS),  # AlterClientQuotas
    50: _cluster_check(AclOperation.DESCRIBE),  # DescribeUserScramCredentials
    51: _cluster_check(AclOperation.ALTER),  # AlterUserScramCredentials
    55: _cluster_check(AclOperation.DESCRIBE),  # DescribeQuorum
    57: _cluster_check(AclOperation.ALTER),  # UpdateFeatures
    64: _cluster_check(AclOperation.ALTER),  # UnregisterBroker
    68: (_READ_GROUP,),  # ConsumerGroupHeartbeat
    74: _cluster_check(AclOperation.DESCRIBE_CONFIGS),  # ListConfigResources
    76: (_READ_GROUP,),  # ShareGroupHeartbeat
    78: (_check_share,),  # ShareFetch
    79: (_check_share,),  # ShareAcknowledge
    83: _cluster_check(AclOperation.CLUSTER_ACTION),  # InitializeShareGroupState
    84: _cluster_check(AclOperation.CLUSTER_ACTION),  # ReadShareGroupState
    85: _cluster_check(AclOperation.CLUSTER_ACTION),  # WriteShareGroupState
    86: _cluster_check(AclOperation.CLUSTER_ACTION),  # DeleteShareGroupState
    87: _cluster_check(AclOperation.CLUSTER_ACTION),  # ReadShareGroupStateSummary
    88: (_READ_GROUP,),  # StreamsGroupHeartbeat
    91: (_READ_GROUP,),  # AlterShareGroupOffsets
    92: (_group_check(AclOperation.DELETE),),  # DeleteShareGroupOffsets
    93: (_READ_GROUP,),  # StreamsGroupTopologyDescriptionUpdate
}
"""API key -> the checks that come before all others."""
