"""FindCoordinator (key 10): which broker coordinates a group or a transactional id.

Versions: 1 brings transactions, 4 asks for several keys at once, 6 share groups. Asking creates
the topic that coordinators write to, where it does not exist yet. Kafka's counterpart:
KafkaApis.handleFindCoordinatorRequest.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, Final

import msgspec

from txnsim.api._access import TEXTS, Access
from txnsim.api._fault_subjects import subject_of_transactions
from txnsim.api.request import INVALID_REQUEST_TEXT, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import NO_SUBJECT, Subject
from txnsim.interbroker.share_state import ShareKey
from txnsim.metadata.image import BrokerImage
from txnsim.security.acls import AclOperation
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TransactionalId,
    uuid_from,
    uuid_text,
)

API_KEY: Final = 10

BATCHED_FROM: Final = 4
SHARE_FROM: Final = 6
_INT_PATTERN: Final = re.compile(r"[+-]?[0-9]{1,10}")

_ERROR_TEXTS: Final = {
    ErrorCode.none: "NONE",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.invalid_request: INVALID_REQUEST_TEXT,
    **TEXTS,
}
"""Kafka's messages (Errors): v1 to v3 always send one, later versions only if the whole request
fails.
"""


class KeyType(IntEnum):
    """What a key identifies: a group, a transactional id or a share partition."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class FoundCoordinator(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator of a key, or the error."""

    error: ErrorCode
    broker: BrokerImage | None = None
    message: str = ""
    """The error message that Kafka gives in a batch."""


async def handle(request: Request) -> Reply:
    """Find the coordinator of each key."""
    message = request.message
    key_type = getattr(message, "key_type", KeyType.GROUP)
    if key_type not in list(KeyType):
        return refuse(request, ErrorCode.invalid_request)
    if request.api_version >= BATCHED_FROM:
        coordinator_keys = message.coordinator_keys
        coordinators = await request.map_each(
            lambda coordinator_key: (
                coordinator_key,
                _find_coordinator(request, key_type, coordinator_key),
            ),
            coordinator_keys,
        )
        return _answer(request, coordinators)
    return _answer(request, [(message.key, _find_coordinator(request, key_type, message.key))])


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every key."""
    message = request.message
    coordinator_keys = (
        message.coordinator_keys if request.api_version >= BATCHED_FROM else (message.key,)
    )
    error_text = _ERROR_TEXTS.get(error, error.name)
    return _answer(
        request,
        [
            (coordinator_key, FoundCoordinator(error=error, message=error_text))
            for coordinator_key in coordinator_keys
        ],
    )


def subject(request: Request) -> Subject:
    """For fault rules: each requested transactional id."""
    message = request.message
    if getattr(message, "key_type", KeyType.GROUP) != KeyType.TRANSACTION:
        return NO_SUBJECT
    coordinator_keys = (
        message.coordinator_keys if request.api_version >= BATCHED_FROM else (message.key,)
    )
    return subject_of_transactions(coordinator_keys)


def _find_coordinator(request: Request, key_type: int, coordinator_key: str) -> FoundCoordinator:
    broker = request.broker
    if request.access is not None:
        denial = _denial(request, request.access, key_type, coordinator_key)
        if denial is not None:
            return denial
    if key_type == KeyType.GROUP:
        topic = CONSUMER_OFFSETS_TOPIC
        group_broker = broker.group_host.coordinator_of(coordinator_key)
    elif key_type == KeyType.TRANSACTION:
        topic = TRANSACTION_STATE_TOPIC
        group_broker = broker.transaction_coordinator_of(TransactionalId(coordinator_key))
    else:
        share_key = _share_key(coordinator_key) if request.api_version >= SHARE_FROM else None
        if share_key is None:
            return FoundCoordinator(error=ErrorCode.invalid_request)
        topic = SHARE_STATE_TOPIC
        group_broker = broker.share_host.coordinator_of(share_key.coordinator_key)
    broker.make_coordinators_topic(topic)
    if group_broker is None:
        return FoundCoordinator(error=ErrorCode.coordinator_not_available)
    return FoundCoordinator(error=ErrorCode.none, broker=broker.image.brokers[group_broker])


def _denial(
    request: Request, access: Access, key_type: int, coordinator_key: str
) -> FoundCoordinator | None:
    if key_type == KeyType.GROUP and not access.may_group(AclOperation.DESCRIBE, coordinator_key):
        return FoundCoordinator(error=ErrorCode.group_authorization_failed)
    if key_type == KeyType.TRANSACTION and not access.may_transactional_id(
        AclOperation.DESCRIBE, coordinator_key
    ):
        return FoundCoordinator(error=ErrorCode.transactional_id_authorization_failed)
    if (
        key_type == KeyType.SHARE
        and request.api_version >= SHARE_FROM
        and not access.may_cluster(AclOperation.CLUSTER_ACTION)
    ):
        # Share coordinators are for brokers. The error is one of the whole request, so it has a
        # text in a batch as well.
        error = ErrorCode.cluster_authorization_failed
        return FoundCoordinator(error=error, message=TEXTS[error])
    return None


def _share_key(key_text: str) -> ShareKey | None:
    """``group:topicId:partition``; the group may have colons (SharePartitionKey.getInstance)."""
    group_id, _, partition = key_text.rstrip(":").rpartition(":")
    group_id, _, topic_id = group_id.rpartition(":")
    if (
        not group_id.strip()
        or not _INT_PATTERN.fullmatch(partition)
        or not _is_int32(int(partition))
    ):
        return None
    try:
        return ShareKey(group_id, uuid_text(uuid_from(topic_id)), int(partition))
    except ValueError:
        return None


def _is_int32(number: int) -> bool:
    return -(2**31) <= number < 2**31


def _answer(request: Request, coordinators: list[tuple[str, FoundCoordinator]]) -> Reply:
    schema = request.schema
    if request.api_version >= BATCHED_FROM:
        return request.answer(
            coordinators=tuple(
                schema.Coordinator(
                    key=coordinator_key,
                    error_code=coordinator.error,
                    error_message=coordinator.message,
                    **_coordinator_address(request, coordinator),
                )
                for coordinator_key, coordinator in coordinators
            )
        )
    coordinator = coordinators[0][1]
    error_text = _ERROR_TEXTS.get(coordinator.error, coordinator.message)
    return request.answer(
        error_code=coordinator.error,
        error_message=error_text,
        **_coordinator_address(request, coordinator),
    )


def _coordinator_address(request: Request, coordinator: FoundCoordinator) -> dict[str, Any]:
    if coordinator.broker is None:
        return {"node_id": -1, "host": "", "port": -1}
    return {"node_id": coordinator.broker.broker_id, **request.address_of(coordinator.broker)}
