"""Why the last stable offset of a partition is where it is, and what happened to a transaction.
Everything comes from a trace, in the words of ``txn.open_txn_verdict``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.runtime.trace import Event, TraceLevel
from txnsim.shell_text import ShellText
from txnsim.trace.story import node_label
from txnsim.trace.trace_file import Recording
from txnsim.txn.open_txn_verdict import PROGRAM, CoordinatedTxn, OpenTxnStatus
from txnsim.txn.past_decision import Decided
from txnsim.types import TopicPartition
from txnsim.verdict.reader_standing import BlockingTxn, Cause, ReaderStanding
from txnsim.verdict.words import standing_sentences
from txnsim_lab.trace.cause_chains import by_position, causes_of_event
from txnsim_lab.trace.faults_and_decisions import FaultsAndDecisions
from txnsim_lab.trace.state import TraceState, owed_by, state_at

COPYING_KINDS: Final = frozenset({"msg.send", "msg.recv", "log.hw", "txn.decide", "txn.prepare"})
"""Kinds of events that only pass a value on. A walk along causes skips them, except for a root."""
_NO_HELD_FAULTS: Final = {"held": 0}
BRIEF_REMARK: Final = (
    "This trace was recorded at brief, without high watermarks: the end of the log is taken"
    " instead."
)


class LsoExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a last stable offset does not advance."""

    partition: str
    at: int
    """Position of the last event that was considered."""
    cause: str
    last_stable_offset: int
    high_watermark: int
    sentences: tuple[str, ...]
    evidence: tuple[int, ...]
    """Positions of the events that prove it: the opening of the transaction, its coordinator's last
    transition, the marker that is owed, and its own messages that are held.
    """
    repair: str | None
    """The command that ends the hanging transaction; None if nothing hangs."""
    marker: str | None
    """The marker that the command writes, ``COMMIT`` or ``ABORT``; None if it is unknown, or if
    nothing hangs.
    """


class TxnExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a transactional id."""

    transactional_id: str
    at: int
    sentences: tuple[str, ...]
    chain: tuple[int, ...]
    """Positions of its last transition and of the causes of that, up to the root."""
    evidence: tuple[int, ...]


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """A producer with an open transaction on a partition, as its leader and as its coordinator see
    it.
    """

    partition: str
    producer_id: int
    epoch: int
    first: int
    """First offset of its open transaction."""
    verdict: OpenTxnStatus
    reason: str
    transactional_id: str | None
    coordinator: str | None
    state: str | None
    coordinator_epoch: int | None
    """The producer's epoch in the coordinator's state."""
    is_two_phase: bool = False
    decided: Decided | None = None
    """The decision whose marker the hanging transaction lacks; None for all other transactions."""


def explain_lso(run: Recording, partition: str, *, at: int | None = None) -> LsoExplanation:
    """Why the last stable offset of a partition is what it is.

    Raises:
        BadInputError: The trace has nothing about that partition, or has no such event.
    """
    events = run.events_through(at)
    state = state_at(events, run.nodes, level=run.level)
    return lso_of(
        state,
        partition,
        at=_last_position(events),
        faults_and_decisions=FaultsAndDecisions.from_events(events),
    )


def _last_position(events: Sequence[Event]) -> int:
    return events[-1].i if events else -1


def lso_of(
    state: TraceState,
    partition: str,
    *,
    at: int,
    faults_and_decisions: FaultsAndDecisions,
    program: ShellText = PROGRAM,
) -> LsoExplanation:
    """Explain the last stable offset of a partition in a given state.

    Raises:
        BadInputError: The state has no such partition.
    """
    log = _log_of(state, partition, at=at)
    topic_partition = _parse_partition(partition)
    stable_offset = log["lso"]
    is_brief = state.level != TraceLevel.FULL
    end_offset = max(log["end"], stable_offset) if is_brief else log["hw"]
    open_transactions = sorted(
        mismatches(state, faults_and_decisions, partition), key=lambda mismatch: mismatch.first
    )
    holder = next(
        (
            mismatch
            for mismatch in open_transactions
            if max(mismatch.first, log["start"]) == stable_offset
        ),
        None,
    )
    if log["leader"] < 0:
        cause = Cause.OFFLINE
    elif holder is not None and end_offset > stable_offset:
        cause = Cause.of_status(holder.verdict)
    else:
        cause_behind = Cause.WRITTEN if is_brief else Cause.UNREPLICATED
        cause = Cause.NOTHING if stable_offset >= end_offset else cause_behind
    reader_standing = ReaderStanding(
        partition=topic_partition,
        cause=cause,
        last_stable_offset=stable_offset,
        high_watermark=end_offset,
        blocking_txn=None if holder is None else _blocking_transaction(state, log, holder),
        later_open_count=len(open_transactions) - 1,
        share_groups=sorted(_share_groups(state, partition)),
        program=program,
    )
    sentences = standing_sentences(reader_standing)
    if is_brief and log["replicas"] != 1:
        sentences = (*sentences, BRIEF_REMARK)
    blocking_transaction = holder if end_offset > stable_offset else None
    evidence = set(_evidence_positions(state, log, blocking_transaction, faults_and_decisions))
    hanging = holder if cause is Cause.HANGING else None
    return LsoExplanation(
        partition=partition,
        at=at,
        cause=str(cause),
        last_stable_offset=stable_offset,
        high_watermark=end_offset,
        sentences=sentences,
        evidence=tuple(sorted(evidence)),
        repair=None
        if hanging is None
        else hanging.verdict.repair_command(topic_partition, program=program),
        marker=None
        if hanging is None or hanging.decided is None
        else hanging.decided.decision.marker or None,
    )


def _log_of(state: TraceState, partition: str, *, at: int) -> Mapping[str, Any]:
    log = state.logs.get(partition)
    if log is None:
        known_partitions = ", ".join(sorted(state.logs)) or "none"
        raise BadInputError(
            f"the trace tells nothing of {partition} up to #{at}; it has {known_partitions}"
        )
    return log


def _share_groups(state: TraceState, partition: str) -> Iterator[tuple[str, int]]:
    """Share groups that skip open transactions, with their start offsets on the partition."""
    for share_key, share in state.shares.items():
        group, _, share_partition = share_key.rpartition(" ")
        if share_partition == partition and share["isolation"] == "read_committed":
            yield group, share["start"]


def mismatches(
    state: TraceState, faults_and_decisions: FaultsAndDecisions, partition: str | None = None
) -> Iterator[Mismatch]:
    """Every open transaction, of one partition or of all, with its verdict."""
    ids_by_producer = {
        transaction["pid"]: transactional_id
        for transactional_id, transaction in state.transactions.items()
        if transaction["pid"] >= 0
    }
    for partition_name, log in state.logs.items():
        if partition not in (None, partition_name):
            continue
        for pid, producer in log["producers"].items():
            if producer["first"] < 0:
                continue
            transactional_id = ids_by_producer.get(int(pid))
            transaction = None if transactional_id is None else state.transactions[transactional_id]
            coordinated = (
                None
                if transactional_id is None or transaction is None
                else _as_coordinated(transactional_id, transaction, partition_name)
            )
            verdict, reason = OpenTxnStatus.judge(
                int(pid), producer["epoch"], transactional_id, coordinated
            )
            yield Mismatch(
                partition=partition_name,
                producer_id=int(pid),
                epoch=producer["epoch"],
                first=producer["first"],
                verdict=verdict,
                reason=reason,
                transactional_id=transactional_id,
                coordinator=None if transaction is None else transaction["node"],
                state=None if transaction is None else transaction["state"],
                coordinator_epoch=None if transaction is None else transaction["epoch"],
                is_two_phase=verdict is OpenTxnStatus.ALIVE
                and coordinated is not None
                and coordinated.is_two_phase,
                decided=faults_and_decisions.decision_of(
                    _parse_partition(partition_name),
                    producer_id=int(pid),
                    producer_epoch=producer["epoch"],
                    first_offset=producer["first"],
                    opened_by=producer["i"],
                    last_timestamp_ms=producer["timestamp"],
                    transaction=transaction,
                )
                if verdict is OpenTxnStatus.HANGING
                else None,
            )


def explained_partitions(state: TraceState, open_transactions: Iterable[Mismatch]) -> list[str]:
    """Partitions to explain: those with hanging transactions first, then with other open ones, then
    other topics of users.
    """
    hanging_first = sorted(
        open_transactions, key=lambda mismatch: mismatch.verdict is not OpenTxnStatus.HANGING
    )
    open_partitions = [
        mismatch.partition
        for mismatch in hanging_first
        if mismatch.verdict is OpenTxnStatus.HANGING or not is_internal(mismatch.partition)
    ]
    return list(
        dict.fromkeys([*open_partitions, *(name for name in state.logs if not is_internal(name))])
    )


def is_internal(partition: str) -> bool:
    """Whether a partition is one of Kafka's own topics."""
    return partition.startswith("__")


def explain_txn(run: Recording, transactional_id: str, *, at: int | None = None) -> TxnExplanation:
    """What happened to a transactional id, and the causes of its last transition.

    Raises:
        BadInputError: The trace has nothing about the id, or has no such event.
    """
    events = run.events_through(at)
    state = state_at(events, run.nodes, level=run.level)
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        known_ids = ", ".join(sorted(state.transactions)) or "none"
        raise BadInputError(
            f"no coordinator of this trace has {transactional_id!r}; transactional ids: {known_ids}"
        )
    events_by_position = by_position(events)
    chain = [events_by_position[transaction["i"]]] if transaction["i"] in events_by_position else []
    chain = cause_path(events_by_position, chain[0]) if chain else []
    sentences = [_state_line(transactional_id, transaction)]
    if len(chain) > 1:
        sentences.append(f"That is due to {_root_words(chain[-1], run.nodes)}.")
    evidence = [transaction["i"]]
    for owed_key, owed_marker in state.owed.items():
        owner_id, partition = owed_by(owed_key)
        if owner_id == transactional_id:
            sentences.append(_owed_line(partition, owed_marker))
            evidence.append(owed_marker["i"])
    for mismatch in mismatches(state, FaultsAndDecisions.from_events(events)):
        if mismatch.transactional_id == transactional_id:
            decided = "" if mismatch.decided is None else f" {mismatch.decided}."
            sentences.append(
                f"On {mismatch.partition} the transaction of epoch {mismatch.epoch} is open"
                " since offset"
                f" {mismatch.first}: {mismatch.verdict}; {mismatch.reason}.{decided}"
            )
            evidence.append(
                state.logs[mismatch.partition]["producers"][str(mismatch.producer_id)]["i"]
            )
    return TxnExplanation(
        transactional_id=transactional_id,
        at=events[-1].i,
        sentences=tuple(sentences),
        chain=tuple(event.i for event in chain),
        evidence=tuple(sorted(position for position in set(evidence) if position >= 0)),
    )


def cause_path(events: dict[int, Event], event: Event) -> list[Event]:
    """The event and its causes, up to the root, without events that only pass a value on."""
    chain = list(causes_of_event(events, event))
    return [
        event_of_chain
        for index, event_of_chain in enumerate(chain)
        if index in (0, len(chain) - 1) or event_of_chain.k not in COPYING_KINDS
    ]


# Parts


def _parse_partition(partition_name: str) -> TopicPartition:
    topic, dash, number = partition_name.rpartition("-")
    if not dash or not number.isdigit():
        raise BadInputError(
            f"{partition_name!r} is no partition: expected TOPIC-PARTITION, as orders-0"
        )
    return TopicPartition(topic, int(number))


def _as_coordinated(
    transactional_id: str, transaction: Mapping[str, Any], partition: str
) -> CoordinatedTxn:
    return CoordinatedTxn(
        transactional_id=transactional_id,
        coordinator_id=_broker_id(transaction["node"]),
        state=transaction["state"],
        producer_id=transaction["pid"],
        producer_epoch=transaction["epoch"],
        lists_partition=partition in transaction["partitions"],
        timeout_ms=transaction.get("timeout_ms", -1),
    )


def _broker_id(node: str) -> int:
    """Id of the broker in a node's name; -1 if no broker has the coordinator's partition."""
    name_parts = node.split("/")
    return int(name_parts[1]) if name_parts[0] == "broker" else -1


def _blocking_transaction(
    state: TraceState, log: Mapping[str, Any], mismatch: Mismatch
) -> BlockingTxn:
    producer = log["producers"][str(mismatch.producer_id)]
    return BlockingTxn(
        producer_id=mismatch.producer_id,
        producer_epoch=mismatch.epoch,
        quiet_ms=state.now_ms - producer["timestamp"],
        verdict=mismatch.verdict,
        reason=mismatch.reason,
        transactional_id=mismatch.transactional_id,
        coordinator_id=None if mismatch.coordinator is None else _broker_id(mismatch.coordinator),
        is_two_phase=mismatch.is_two_phase,
        decided=mismatch.decided,
    )


def _evidence_positions(
    state: TraceState,
    log: Mapping[str, Any],
    mismatch: Mismatch | None,
    faults_and_decisions: FaultsAndDecisions,
) -> Iterator[int]:
    if mismatch is None:
        return
    opening_position = log["producers"][str(mismatch.producer_id)]["i"]
    yield from (opening_position,) if opening_position >= 0 else ()
    if mismatch.transactional_id is not None:
        yield state.transactions[mismatch.transactional_id]["i"]
        for owed_key, owed_marker in state.owed.items():
            if owed_by(owed_key) == (mismatch.transactional_id, mismatch.partition):
                yield owed_marker["i"]
    if mismatch.verdict is OpenTxnStatus.HANGING:
        return  # whatever is held now, no marker of this one is on its way
    held_messages = faults_and_decisions.held_strikes(
        mismatch.transactional_id, mismatch.producer_id, mismatch.partition
    )
    yield from (
        position
        for position, fault_rule in held_messages
        if state.faults.get(fault_rule, _NO_HELD_FAULTS)["held"]
    )


def _state_line(transactional_id: str, transaction: Mapping[str, Any]) -> str:
    pending_phrase = (
        f", on its way to {transaction['pending']}" if transaction.get("pending") else ""
    )
    partitions = ", ".join(transaction["partitions"])
    partitions_phrase = f" with {partitions}" if partitions else ""
    return (
        f"{transactional_id} is {transaction['state']}{pending_phrase}{partitions_phrase}:"
        f" producer id {transaction['pid']}, epoch {transaction['epoch']},"
        f" at the {node_label(transaction['node'])}."
    )


def _owed_line(partition: str, owed_marker: Mapping[str, Any]) -> str:
    marker_type = "COMMIT" if owed_marker["committed"] else "ABORT"
    match owed_marker["how"]:
        case "refused":
            return (
                f"The {marker_type} marker of {partition} was refused with {owed_marker['error']}."
            )
        case "sent":
            return f"The {marker_type} marker of {partition} is on its way and not acknowledged."
    return f"The {marker_type} marker of {partition} is owed."


def _root_words(event: Event, nodes: Sequence[str]) -> str:
    fields = event.d if isinstance(event.d, Mapping) else {}
    node_name = node_label(nodes[event.n])
    match event.k:
        case "client.call":
            return f"{node_name}, who was asked to {fields.get('call')} (#{event.i})"
        case "msg.recv":
            return f"{fields.get('api')} of {node_label(str(fields.get('peer')))} (#{event.i})"
        case "timer.fire":
            return f"the timer {fields.get('timer')} of {node_name} (#{event.i})"
        case "input":
            return f"the user: {fields.get('do')} (#{event.i})"
    return f"{event.k} at {node_name} (#{event.i})"
