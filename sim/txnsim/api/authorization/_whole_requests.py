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


def _cluster(*operations: AclOperation) -> tuple[Check]:
    def check(_request: Request, access: Access) -> ErrorCode | None:
        return None if any(map(access.may_cluster, operations)) else _NO_CLUSTER

    return (check,)


def _group(operation: AclOperation) -> Check:
    """A check for that right on the request's group."""

    def check(request: Request, access: Access) -> ErrorCode | None:
        return access.denial(operation, ResourceType.GROUP, request.message.group_id)

    return check


def _sync_group(request: Request, access: Access) -> ErrorCode | None:
    """Require READ on the group; the handler refuses an incomplete request before that."""
    return _READ_GROUP(request, access) if sync_group.names_its_protocol(request) else None


def _transactional_id(request: Request, access: Access) -> ErrorCode | None:
    """Require WRITE on the transactional id."""
    return access.denial(AclOperation.WRITE, _TRANSACTIONAL_ID, request.message.transactional_id)


def _produce(request: Request, access: Access) -> ErrorCode | None:
    """Require WRITE on the transactional id, only if a batch is transactional."""
    message = request.message
    if message.transactional_id is None or not produce.carries_transactions(message):
        return None
    return _transactional_id(request, access)


def _init_producer_id(request: Request, access: Access) -> ErrorCode | None:
    """Require WRITE on the transactional id; without an id, a right to write idempotently."""
    message = request.message
    own_id = message.transactional_id
    if own_id is not None:
        error = _transactional_id(request, access)
        if error is None and getattr(message, "enable2_pc", False):
            return access.denial(AclOperation.TWO_PHASE_COMMIT, _TRANSACTIONAL_ID, own_id)
        return error
    may = access.may_cluster(AclOperation.IDEMPOTENT_WRITE) or access.may_some(
        AclOperation.WRITE, ResourceType.TOPIC
    )
    return None if may else _NO_CLUSTER


def _add_partitions(request: Request, access: Access) -> ErrorCode | None:
    """Up to v3 check the producer's rights, from v4 on the broker's."""
    if request.api_version >= add_partitions_to_txn.BATCHED_FROM:
        return None if access.may_cluster(AclOperation.CLUSTER_ACTION) else _NO_CLUSTER
    own_id = request.message.v3_and_below_transactional_id
    return access.denial(AclOperation.WRITE, _TRANSACTIONAL_ID, own_id)


_READ_GROUP: Final = _group(AclOperation.READ)


def _share(request: Request, access: Access) -> ErrorCode | None:
    """Require READ on the group; if share groups are disabled or the group is missing, the handler
    refuses first.
    """
    is_refused = not share_requests.is_on(request) or request.message.group_id is None
    return None if is_refused else _READ_GROUP(request, access)


CHECKS: Final[Mapping[int, tuple[Check, ...]]] = {
    0: (_produce,),  # Produce
    8: (_READ_GROUP,),  # OffsetCommit
    11: (_READ_GROUP,),  # JoinGroup
    12: (_READ_GROUP,),  # Heartbeat
    13: (_READ_GROUP,),  # LeaveGroup
    14: (_sync_group,),  # SyncGroup
    22: (_init_producer_id,),  # InitProducerId
    24: (_add_partitions,),  # AddPartitionsToTxn
    25: (_transactional_id, _READ_GROUP),  # AddOffsetsToTxn
    26: (_transactional_id,),  # EndTxn
    27: _cluster(AclOperation.ALTER, AclOperation.CLUSTER_ACTION),  # WriteTxnMarkers
    28: (_transactional_id, _READ_GROUP),  # TxnOffsetCommit
    29: _cluster(AclOperation.DESCRIBE),  # DescribeAcls
    30: _cluster(AclOperation.ALTER),  # CreateAcls
    31: _cluster(AclOperation.ALTER),  # DeleteAcls
    34: _cluster(AclOperation.ALTER),  # AlterReplicaLogDirs
    35: _cluster(AclOperation.DESCRIBE),  # DescribeLogDirs
    43: _cluster(AclOperation.ALTER),  # ElectLeaders
    45: _cluster(AclOperation.ALTER),  # AlterPartitionReassignments
    46: _cluster(AclOperation.DESCRIBE),  # ListPartitionReassignments
    47: (_group(AclOperation.DELETE),),  # OffsetDelete
    48: _cluster(AclOperation.DESCRIBE_CONFIGS),  # DescribeClientQuotas
    49: _cluster(AclOperation.ALTER_CONFIGS),  # AlterClientQuotas
    50: _cluster(AclOperation.DESCRIBE),  # DescribeUserScramCredentials
    51: _cluster(AclOperation.ALTER),  # AlterUserScramCredentials
    55: _cluster(AclOperation.DESCRIBE),  # DescribeQuorum
    57: _cluster(AclOperation.ALTER),  # UpdateFeatures
    64: _cluster(AclOperation.ALTER),  # UnregisterBroker
    68: (_READ_GROUP,),  # ConsumerGroupHeartbeat
    74: _cluster(AclOperation.DESCRIBE_CONFIGS),  # ListConfigResources
    76: (_READ_GROUP,),  # ShareGroupHeartbeat
    78: (_share,),  # ShareFetch
    79: (_share,),  # ShareAcknowledge
    83: _cluster(AclOperation.CLUSTER_ACTION),  # InitializeShareGroupState
    84: _cluster(AclOperation.CLUSTER_ACTION),  # ReadShareGroupState
    85: _cluster(AclOperation.CLUSTER_ACTION),  # WriteShareGroupState
    86: _cluster(AclOperation.CLUSTER_ACTION),  # DeleteShareGroupState
    87: _cluster(AclOperation.CLUSTER_ACTION),  # ReadShareGroupStateSummary
    88: (_READ_GROUP,),  # StreamsGroupHeartbeat
    91: (_READ_GROUP,),  # AlterShareGroupOffsets
    92: (_group(AclOperation.DELETE),),  # DeleteShareGroupOffsets
    93: (_READ_GROUP,),  # StreamsGroupTopologyDescriptionUpdate
}
"""API key -> the checks that come before all others."""
