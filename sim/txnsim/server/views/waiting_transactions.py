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


def entry_of(cluster: SimCluster, transactional_id: str) -> tuple[BrokerId, TxnMetadata] | None:
    """The broker that coordinates a transactional id, with its transaction; None if no broker knows
    it.
    """
    for broker_id, broker in cluster.brokers.items():
        txn = broker.coordinator.entry(TransactionalId(transactional_id))
        if txn is not None:
            return broker_id, txn
    return None


def waits_for(cluster: SimCluster, transactional_id: str) -> tuple[str, ...]:
    """What a transaction waits for, and what ends each wait; empty if nothing is known."""
    entry = entry_of(cluster, transactional_id)
    txn = None if entry is None else entry[1]
    held_sentences = tuple(_held_reasons(cluster, transactional_id, txn))
    if txn is None:
        return (
            "no coordinator knows it: its producer has not got a producer id (InitProducerId)",
            *held_sentences,
        )
    return (*held_sentences, *_unanswered_reasons(cluster, txn), *_of_state(cluster, txn))


def describe_unfinished(cluster: SimCluster, transactional_id: str) -> tuple[str, ...]:
    """The state of a transaction at its coordinator, and what it waits for."""
    entry = entry_of(cluster, transactional_id)
    state = "not known to any coordinator" if entry is None else entry[1].state.wire_name
    return (f"{transactional_id} is {state}", *waits_for(cluster, transactional_id))


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
        entry = entry_of(cluster, transactional_id)
        if entry is not None and entry[1].state.wire_name in states:
            return entry
        if clock.monotonic_ms() >= deadline_ms:
            raise TimeoutError(in_vain(cluster, transactional_id, states, timeout_ms))
        await asyncio.sleep(POLL_MS / 1_000)


def in_vain(cluster: SimCluster, transactional_id: str, states: tuple[str, ...], ms: int) -> str:
    """Error message after ``ms`` milliseconds of waiting for one of the states."""
    entry = entry_of(cluster, transactional_id)
    state = "not known" if entry is None else entry[1].state.wire_name
    lines = [f"{transactional_id} is {state} after {ms} ms, not {' or '.join(states)}"]
    return "\n  ".join([*lines, *waits_for(cluster, transactional_id)])


def _held_reasons(
    cluster: SimCluster, transactional_id: str, txn: TxnMetadata | None
) -> Iterator[str]:
    for armed in cluster.injector.rules():
        for held_crossing in armed.held.values():
            crossing = held_crossing.crossing
            if _concerns(crossing.subject, transactional_id, txn):
                yield (
                    f"the fault rule {armed.rule.id!r} holds {api_name(crossing.api_key)} of "
                    f"{crossing.source} at {crossing.point}: release it"
                )


def _unanswered_reasons(cluster: SimCluster, txn: TxnMetadata) -> Iterator[str]:
    for call in cluster.environment.network.unanswered_requests():
        if not _concerns(call.subject, txn.transactional_id, txn):
            continue
        if call.is_lost:
            yield (
                f"{_request_name(call)} was lost by a fault. Broker {call.source} waits for its "
                f"answer for {call.timeout_ms} ms (request.timeout.ms), of which {call.left_ms} ms "
                f"are left; advance the clock by {call.left_ms + 1_000} ms to end that wait now"
            )
        elif call.is_cut:
            yield f"{_request_name(call)} waits for the link between them: it is cut, heal it"


def _request_name(request: Unanswered) -> str:
    return f"{api_name(request.api_key)} from broker {request.source} to broker {request.target}"


def _of_state(cluster: SimCluster, txn: TxnMetadata) -> Iterator[str]:
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
    for where in sorted(txn.partitions):
        partition = image.partition(where)
        if partition is not None and partition.leader == NO_BROKER:
            yield f"{where} has no leader that could write its marker: start a broker that has it"
        else:
            yield f"{where} has no marker yet"


def _concerns(subject: Subject, transactional_id: str, txn: TxnMetadata | None) -> bool:
    producer_id = None if txn is None else txn.producer_id
    return any(
        crossing.transactional_id == transactional_id
        or (crossing.producer_id is not None and crossing.producer_id == producer_id)
        for crossing in (subject, *subject.other_subjects)
    )
