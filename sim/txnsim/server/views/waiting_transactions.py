"""What a transaction waits for, in sentences, for error messages after a vain wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from txnsim.errors import ConfigError
from txnsim.faults.subjects import Subject
from txnsim.runtime.peer_call import Unanswered
from txnsim.text import unknown_word_message
from txnsim.txn.state import (
    NO_TIMESTAMP,
    PREPARED_STATES,
    WIRE_NAMES,
    TransactionState,
    TxnMetadata,
)
from txnsim.types import BrokerId, TransactionalId
from txnsim.wire.apis import api_name

if TYPE_CHECKING:
    from txnsim.server.cluster import SimCluster

WAIT_MS: Final = 45_000
"""Default time to wait for a state of a transaction: longer than brokers wait for each other
(``request.timeout.ms``, 30 s), so that a lost request has been repeated by then.
"""
POLL_MS: Final = 5
"""Time between two looks at a coordinator's memory."""
NO_BROKER: Final = BrokerId(-1)


def check_states(states: tuple[str, ...]) -> None:
    """Refuse a name that is not a state of a transaction.

    Raises:
        ConfigError: There is such a name, or no state at all; the message names the nearest state
            and all states.
    """
    if not states:
        raise ConfigError(f"no state is given; there are: {', '.join(WIRE_NAMES.values())}")
    for state in states:
        if state not in WIRE_NAMES.values():
            raise ConfigError(
                unknown_word_message("state of a transaction", state, WIRE_NAMES.values())
            )


def coordinated_transaction(
    cluster: SimCluster, transactional_id: str
) -> tuple[BrokerId, TxnMetadata] | None:
    """The broker that coordinates a transactional id, with its transaction; None if no broker knows
    it.
    """
    for broker_id, broker in cluster.brokers.items():
        txn = broker.coordinator.entry(TransactionalId(transactional_id))
        if txn is not None:
            return broker_id, txn
    return None


def wait_reasons(cluster: SimCluster, transactional_id: str) -> tuple[str, ...]:
    """What a transaction waits for, and what ends each wait; empty if nothing is known."""
    coordinated_txn = coordinated_transaction(cluster, transactional_id)
    txn = None if coordinated_txn is None else coordinated_txn[1]
    held_sentences = tuple(_held_reasons(cluster, transactional_id, txn))
    if txn is None:
        return (
            "no coordinator knows it: its producer has not got a producer id (InitProducerId)",
            *held_sentences,
        )
    return (*held_sentences, *_unanswered_reasons(cluster, txn), *_state_reasons(cluster, txn))


def describe_unfinished(cluster: SimCluster, transactional_id: str) -> tuple[str, ...]:
    """The state of a transaction at its coordinator, and what it waits for."""
    coordinated_txn = coordinated_transaction(cluster, transactional_id)
    state = (
        "not known to any coordinator"
        if coordinated_txn is None
        else coordinated_txn[1].state.wire_name
    )
    return (f"{transactional_id} is {state}", *wait_reasons(cluster, transactional_id))


async def until_state(
    cluster: SimCluster, transactional_id: str, states: tuple[str, ...], *, timeout_ms: int
) -> tuple[BrokerId, TxnMetadata]:
    """Wait until a coordinator has a transaction in one of some states.

    Raises:
        ConfigError: One of the names is not a state.
        TimeoutError: The transaction is in none of them within ``timeout_ms`` (monotonic); the
            message tells what it waits for.
    """
    check_states(states)
    clock = cluster.environment.clock
    deadline_ms = clock.monotonic_ms() + timeout_ms
    while True:
        coordinated_txn = coordinated_transaction(cluster, transactional_id)
        if coordinated_txn is not None and coordinated_txn[1].state.wire_name in states:
            return coordinated_txn
        if clock.monotonic_ms() >= deadline_ms:
            raise TimeoutError(waited_in_vain_text(cluster, transactional_id, states, timeout_ms))
        await asyncio.sleep(POLL_MS / 1_000)


def waited_in_vain_text(
    cluster: SimCluster, transactional_id: str, states: tuple[str, ...], waited_ms: int
) -> str:
    """Error message after ``waited_ms`` milliseconds of waiting for one of the states."""
    coordinated_txn = coordinated_transaction(cluster, transactional_id)
    state = "not known" if coordinated_txn is None else coordinated_txn[1].state.wire_name
    message_lines = [
        f"{transactional_id} is {state} after {waited_ms} ms, not {' or '.join(states)}"
    ]
    return "\n  ".join([*message_lines, *wait_reasons(cluster, transactional_id)])


def _held_reasons(
    cluster: SimCluster, transactional_id: str, txn: TxnMetadata | None
) -> Iterator[str]:
    for armed_rule in cluster.injector.rules():
        for held_crossing in armed_rule.held_crossings.values():
            crossing = held_crossing.crossing
            if _concerns(crossing.subject, transactional_id, txn):
                yield (
                    f"the fault rule {armed_rule.rule.id!r} holds {api_name(crossing.api_key)} of "
                    f"{crossing.source} at {crossing.point}: release it"
                )


def _unanswered_reasons(cluster: SimCluster, txn: TxnMetadata) -> Iterator[str]:
    for request in cluster.environment.network.unanswered_requests():
        if not _concerns(request.subject, txn.transactional_id, txn):
            continue
        if request.is_lost:
            yield (
                f"{_request_name(request)} was lost by a fault. Broker {request.source} "
                f"waits for its answer for {request.timeout_ms} ms (request.timeout.ms), of "
                f"which {request.left_ms} ms are left; advance the clock by "
                f"{request.left_ms + 1_000} ms to end that wait now"
            )
        elif request.is_cut:
            yield f"{_request_name(request)} waits for the link between them: it is cut, heal it"


def _request_name(request: Unanswered) -> str:
    return f"{api_name(request.api_key)} from broker {request.source} to broker {request.target}"


def _state_reasons(cluster: SimCluster, txn: TxnMetadata) -> Iterator[str]:
    if txn.state is TransactionState.ONGOING and txn.start_timestamp_ms != NO_TIMESTAMP:
        yield (
            "its producer has neither committed nor aborted it; the coordinator aborts it after "
            f"{txn.txn_timeout_ms} ms (transaction.timeout.ms) and at most "
            f"{cluster.options.settings.transaction_abort_timed_out_cleanup_interval_ms}"
            " ms more, by the cluster clock, which an advance moves"
        )
    if txn.state not in PREPARED_STATES:
        return
    image = cluster.metadata.image
    for topic_partition in sorted(txn.partitions):
        partition = image.partition(topic_partition)
        if partition is not None and partition.leader == NO_BROKER:
            yield (
                f"{topic_partition} has no leader that could write its marker: start a broker that"
                " has it"
            )
        else:
            yield f"{topic_partition} has no marker yet"


def _concerns(subject: Subject, transactional_id: str, txn: TxnMetadata | None) -> bool:
    producer_id = None if txn is None else txn.producer_id
    return any(
        concerned_subject.transactional_id == transactional_id
        or (
            concerned_subject.producer_id is not None
            and concerned_subject.producer_id == producer_id
        )
        for concerned_subject in (subject, *subject.other_subjects)
    )
