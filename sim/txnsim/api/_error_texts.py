"""Kafka's error messages, from Errors and CoordinatorOperationExceptionHelper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from txnsim.api._access import TEXTS as OF_RIGHTS
from txnsim.api.request import INVALID_REQUEST_TEXT
from txnsim.errors import ErrorCode, Rejection

_E = ErrorCode

TEXTS: Final[Mapping[ErrorCode, str]] = {
    **OF_RIGHTS,
    _E.unknown_server_error: "The server experienced an unexpected error when processing the "
    "request.",
    _E.unknown_topic_or_partition: "This server does not host this topic-partition.",
    _E.leader_not_available: "There is no leader for this topic-partition as we are in the middle "
    "of a leadership election.",
    _E.not_leader_or_follower: "For requests intended only for the leader, this error indicates "
    "that the broker is not the current leader. For requests intended for any replica, this error "
    "indicates that the broker is not a replica of the topic partition.",
    _E.request_timed_out: "The request timed out.",
    _E.network_exception: "The server disconnected before a response was received.",
    _E.coordinator_load_in_progress: "The coordinator is loading and hence can't process requests.",
    _E.coordinator_not_available: "The coordinator is not available.",
    _E.not_coordinator: "This is not the correct coordinator.",
    _E.invalid_group_id: "The group id is invalid.",
    _E.policy_violation: "Request parameters do not satisfy the configured policy.",
    _E.unsupported_version: "The version of API is not supported.",
    _E.invalid_request: INVALID_REQUEST_TEXT,
    _E.non_empty_group: "The group is not empty.",
    _E.group_id_not_found: "The group id does not exist.",
    _E.fenced_leader_epoch: "The leader epoch in the request is older than the epoch on the "
    "broker.",
    _E.fenced_state_epoch: "The share coordinator rejected the request because the share-group "
    "state epoch did not match.",
}


def text_of(error: ErrorCode) -> str | None:
    """Kafka's message for an error, or the error's name."""
    return None if error is ErrorCode.none else TEXTS.get(error, error.name)


_WITHOUT_REASON: Final = frozenset(
    {
        _E.not_coordinator,
        _E.coordinator_not_available,
        _E.coordinator_load_in_progress,
        _E.invalid_group_id,
        _E.unknown_server_error,
    }
)


def reason_of(refusal: Rejection) -> str | None:
    """The message if the group itself refused; None if the coordinator or the group id was wrong,
    or the log refused the records.
    """
    return None if refusal.error in _WITHOUT_REASON else refusal.reason
