"""What a producer does about an error code: retry, look up the broker again, abort, or give up.

One table per kind of request, pure. Kafka's counterparts are the ``handleResponse`` methods of
``TransactionManager`` and, for Produce, ``Sender.canRetry`` with
``TransactionManager.maybeTransitionToErrorState``; the tables follow them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from txnsim.errors import ErrorCode


class RequestKind(Enum):
    """The kind of request whose answer has an error."""

    FIND_COORDINATOR = auto()
    INIT_PRODUCER_ID = auto()
    ADD_PARTITIONS = auto()
    COMMIT = auto()
    ABORT = auto()
    PRODUCE_TRANSACTIONAL = auto()
    PRODUCE = auto()
    """Produce of an idempotent or plain producer."""


class Reaction(Enum):
    """What a producer does about the error in an answer."""

    DONE = auto()
    RETRY = auto()
    LOOK_UP = auto()
    """Retry after a new lookup of coordinator or leader."""
    RESTART = auto()
    """For idempotent producers: retry under a bumped epoch, from sequence 0."""
    FAIL = auto()
    """The batch is lost; the producer goes on under a bumped epoch."""
    ABORT = auto()
    """The transaction must be aborted."""
    ABORT_IF_BUMP = auto()
    """The transaction must be aborted, if the epoch can be bumped afterwards; otherwise give up."""
    GIVE_UP = auto()
    """The producer is finished."""


_E = ErrorCode

REFRESHING: Final = frozenset(
    {
        _E.unknown_topic_or_partition,
        _E.leader_not_available,
        _E.not_leader_or_follower,
        _E.replica_not_available,
        _E.network_exception,
        _E.kafka_storage_error,
        _E.listener_not_found,
        _E.fenced_leader_epoch,
        _E.preferred_leader_not_available,
        _E.eligible_leaders_not_available,
        _E.unknown_topic_id,
        _E.inconsistent_topic_id,
    }
)
"""Java's InvalidMetadataException: retriable, and the known leaders are wrong."""

UNSAID: Final = frozenset(
    {
        _E.coordinator_not_available,
        _E.not_coordinator,
        _E.not_leader_or_follower,
        _E.not_enough_replicas_after_append,
        _E.request_timed_out,
        _E.kafka_storage_error,
        _E.unknown_server_error,
    }
)
"""Errors after which it is unknown whether the log has the change. The broker may have written it,
but it was not replicated in time, or the broker has lost the leadership. The next leader may have
it (``TransactionStateManager.appendTransactionToLog``).
"""

_COORDINATOR_MOVED: Final = {
    _E.coordinator_not_available: Reaction.LOOK_UP,
    _E.not_coordinator: Reaction.LOOK_UP,
}
_FENCED: Final = {
    _E.invalid_producer_epoch: Reaction.GIVE_UP,
    _E.producer_fenced: Reaction.GIVE_UP,
}
_OUT_OF_STEP: Final = {
    _E.transactional_id_authorization_failed: Reaction.GIVE_UP,
    _E.invalid_txn_state: Reaction.GIVE_UP,
    _E.invalid_producer_id_mapping: Reaction.GIVE_UP,
}
_PRODUCE_FATAL: Final = {
    _E.cluster_authorization_failed: Reaction.GIVE_UP,
    _E.transactional_id_authorization_failed: Reaction.GIVE_UP,
    _E.producer_fenced: Reaction.GIVE_UP,
    _E.unsupported_version: Reaction.GIVE_UP,
    _E.invalid_producer_id_mapping: Reaction.GIVE_UP,
}

REACTIONS: Final[Mapping[RequestKind, Mapping[ErrorCode, Reaction]]] = {
    RequestKind.FIND_COORDINATOR: {_E.transaction_abortable: Reaction.ABORT},
    RequestKind.INIT_PRODUCER_ID: {
        **_COORDINATOR_MOVED,
        **_FENCED,
        _E.transactional_id_authorization_failed: Reaction.ABORT,
        _E.cluster_authorization_failed: Reaction.ABORT,
        _E.transaction_abortable: Reaction.ABORT,
    },
    RequestKind.ADD_PARTITIONS: {
        **_COORDINATOR_MOVED,
        **_FENCED,
        **_OUT_OF_STEP,
        _E.unknown_producer_id: Reaction.ABORT_IF_BUMP,
    },
    RequestKind.COMMIT: {
        **_COORDINATOR_MOVED,
        **_FENCED,
        **_OUT_OF_STEP,
        _E.unknown_producer_id: Reaction.ABORT_IF_BUMP,
        _E.transaction_abortable: Reaction.ABORT,
    },
    RequestKind.ABORT: {
        **_COORDINATOR_MOVED,
        **_FENCED,
        **_OUT_OF_STEP,
        _E.unknown_producer_id: Reaction.ABORT_IF_BUMP,
        # An abort that asks to be aborted would never end (KIP-1050).
        _E.transaction_abortable: Reaction.GIVE_UP,
    },
    RequestKind.PRODUCE_TRANSACTIONAL: {
        **_PRODUCE_FATAL,
        _E.duplicate_sequence_number: Reaction.DONE,
    },
    RequestKind.PRODUCE: {
        **_PRODUCE_FATAL,
        _E.duplicate_sequence_number: Reaction.DONE,
        _E.out_of_order_sequence_number: Reaction.RESTART,
        _E.unknown_producer_id: Reaction.RESTART,
        _E.invalid_producer_epoch: Reaction.GIVE_UP,
    },
}

OTHERWISE: Final[Mapping[RequestKind, Reaction]] = {
    RequestKind.FIND_COORDINATOR: Reaction.GIVE_UP,
    RequestKind.INIT_PRODUCER_ID: Reaction.GIVE_UP,
    RequestKind.ADD_PARTITIONS: Reaction.ABORT,
    RequestKind.COMMIT: Reaction.GIVE_UP,
    RequestKind.ABORT: Reaction.GIVE_UP,
    RequestKind.PRODUCE_TRANSACTIONAL: Reaction.ABORT,
    RequestKind.PRODUCE: Reaction.FAIL,
}
"""The reaction to errors that have no row and are not retriable."""

_PRODUCES: Final = frozenset({RequestKind.PRODUCE, RequestKind.PRODUCE_TRANSACTIONAL})


def react(operation: RequestKind, error: ErrorCode) -> Reaction:
    """How a producer reacts to an error."""
    if error == ErrorCode.none:
        return Reaction.DONE
    reaction_row = REACTIONS[operation].get(error)
    if reaction_row is not None:
        return reaction_row
    if error.retriable:
        refreshes_metadata = operation in _PRODUCES and error in REFRESHING
        return Reaction.LOOK_UP if refreshes_metadata else Reaction.RETRY
    return OTHERWISE[operation]
