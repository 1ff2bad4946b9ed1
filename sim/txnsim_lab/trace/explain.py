"""Why the last stable offset of a partition is where it is, and what happened to a transaction.
Everything comes from a trace, in the words of the judge (``txnsim.verdict``).
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
from txnsim.txn.open_txn_verdict import PROGRAM, OpenTxnStatus
from txnsim.txn.past_decision import DecisionEvidence
from txnsim.verdict.judge import (
    OpenTxnVerdict,
    PartitionVerdict,
    Verdict,
    judge_cluster,
    judge_partition,
)
from txnsim.verdict.reader_standing import Cause
from txnsim.verdict.words import RealKafkaAdvice, holder_mark, ignorance_headline, real_kafka_advice
from txnsim_lab.trace._faults_and_decisions import partition_of
from txnsim_lab.trace.cause_chains import by_position, causes_of_event
from txnsim_lab.trace.followed_trace import FollowedTrace
from txnsim_lab.trace.state import TraceState, owed_by

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
    """All that is to be said: reasons, advice and remarks."""
    reasons: tuple[str, ...]
    """The sentences that say why, without ``verdict.advice`` and without remarks."""
    remarks: tuple[str, ...]
    """The sentences about the recording."""
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
    verdict: PartitionVerdict
    """What the judge says; the fields above are kept for programs that read them."""
    on_real_kafka: RealKafkaAdvice | None = None
    """What to do about it on a real cluster; None if nothing hangs."""


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
    decided: DecisionEvidence | None = None
    """The decision whose marker the hanging transaction lacks; None for all other transactions."""
    mark: str
    """What a picture has at its first batch."""


def explain_lso(recording: Recording, partition: str, *, at: int | None = None) -> LsoExplanation:
    """Why the last stable offset of a partition is what it is.

    Raises:
        BadInputError: The trace has nothing about that partition, or has no such event.
    """
    return lso_of(FollowedTrace.of_recording(recording, at=at), partition)


def lso_of(
    followed_trace: FollowedTrace, partition: str, *, program: ShellText = PROGRAM
) -> LsoExplanation:
    """Explain the last stable offset of a partition after the last followed event.

    Raises:
        BadInputError: The trace tells nothing of such a partition.
    """
    partition_facts = followed_trace.facts(partition)
    if partition not in followed_trace.state.logs or not partition_facts.partitions:
        known_partitions = ", ".join(sorted(followed_trace.state.logs)) or "none"
        raise BadInputError(
            f"the trace tells nothing of {partition} up to #{followed_trace.position}; it has"
            f" {known_partitions}"
        )
    return lso_explanation(
        followed_trace,
        judge_partition(partition_facts.partitions[0], partition_facts, program=program),
        partition_facts.ignorance,
    )


def lso_explanation(
    followed_trace: FollowedTrace, verdict: PartitionVerdict, ignorance: str | None = None
) -> LsoExplanation:
    """The judge's verdict on a partition, with its evidence in the trace."""
    log = followed_trace.state.logs[verdict.partition]
    is_brief = followed_trace.state.level != TraceLevel.FULL
    remarks: tuple[str, ...] = ()
    if is_brief and log["replicas"] != 1 and verdict.cause is not Cause.OFFLINE:
        remarks = (BRIEF_REMARK,)
    sentences = verdict.sentences
    if ignorance is not None:
        sentences = (f"{ignorance_headline(ignorance)}.", *sentences)
    holding_verdict = verdict.holder
    is_hanging = holding_verdict is not None and holding_verdict.status is OpenTxnStatus.HANGING
    evidence_positions_found = set(
        _evidence_positions(followed_trace, verdict.partition, log, holding_verdict)
    )
    marker = (
        holding_verdict.decided.decision.marker or None
        if holding_verdict is not None and is_hanging and holding_verdict.decided is not None
        else None
    )
    return LsoExplanation(
        partition=verdict.partition,
        at=followed_trace.position,
        cause=str(verdict.cause),
        last_stable_offset=log["lso"],
        high_watermark=max(log["end"], log["lso"]) if is_brief else log["hw"],
        sentences=(*sentences, *remarks),
        reasons=tuple(
            sentence
            for sentence in sentences
            if not (verdict.advice and sentence.startswith(verdict.advice))
        ),
        remarks=remarks,
        evidence=tuple(sorted(evidence_positions_found)),
        repair=holding_verdict.ends.command if holding_verdict is not None and is_hanging else None,
        marker=marker,
        verdict=verdict,
        on_real_kafka=(
            real_kafka_advice(
                partition_of(verdict.partition), log["lso"], is_commit=marker == "COMMIT"
            )
            if is_hanging
            else None
        ),
    )


def mismatches(verdict: Verdict, followed_trace: FollowedTrace) -> Iterator[Mismatch]:
    """Every open transaction of a verdict, as leader and coordinator see it."""
    for partition in verdict.partitions:
        for open_txn in partition.open_txns:
            transaction = (
                None
                if open_txn.transactional_id is None
                else followed_trace.state.transactions.get(open_txn.transactional_id)
            )
            yield Mismatch(
                partition=partition.partition,
                producer_id=open_txn.producer_id,
                epoch=open_txn.producer_epoch,
                first=open_txn.first_offset,
                verdict=open_txn.status,
                reason=open_txn.reason,
                transactional_id=open_txn.transactional_id,
                coordinator=None if transaction is None else transaction["node"],
                state=open_txn.coordinator_state,
                coordinator_epoch=None if transaction is None else transaction["epoch"],
                is_two_phase=open_txn.is_two_phase,
                decided=open_txn.decided,
                mark=holder_mark(is_hanging=open_txn.status is OpenTxnStatus.HANGING),
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


def explain_txn(
    recording: Recording, transactional_id: str, *, at: int | None = None
) -> TxnExplanation:
    """What happened to a transactional id, and the causes of its last transition.

    Raises:
        BadInputError: The trace has nothing about the id, or has no such event.
    """
    events = recording.events_through(at)
    followed_trace = FollowedTrace.of(events, recording.nodes, level=recording.level)
    state = followed_trace.state
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        known_ids = ", ".join(sorted(state.transactions)) or "none"
        raise BadInputError(
            f"no coordinator of this trace has {transactional_id!r}; transactional ids: {known_ids}"
        )
    events_by_position = by_position(events)
    event_chain = (
        [events_by_position[transaction["i"]]] if transaction["i"] in events_by_position else []
    )
    event_chain = cause_path(events_by_position, event_chain[0]) if event_chain else []
    sentences = [_state_line(transactional_id, transaction)]
    if len(event_chain) > 1:
        sentences.append(f"That is due to {_root_words(event_chain[-1], recording.nodes)}.")
    evidence_positions = [transaction["i"]]
    for owed_key, owed_marker in state.owed.items():
        owner_id, partition = owed_by(owed_key)
        if owner_id == transactional_id:
            sentences.append(_owed_line(partition, owed_marker))
            evidence_positions.append(owed_marker["i"])
    for mismatch in mismatches(judge_cluster(followed_trace.facts()), followed_trace):
        if mismatch.transactional_id == transactional_id:
            decision_text = "" if mismatch.decided is None else f" {mismatch.decided}."
            sentences.append(
                f"On {mismatch.partition} the transaction of epoch {mismatch.epoch} is open"
                " since offset"
                f" {mismatch.first}: {mismatch.verdict}; {mismatch.reason}.{decision_text}"
            )
            evidence_positions.append(
                state.logs[mismatch.partition]["producers"][str(mismatch.producer_id)]["i"]
            )
    application = followed_trace.applications.view_of(transactional_id)
    if application is not None:
        sentences.append(application.sentence)
    return TxnExplanation(
        transactional_id=transactional_id,
        at=events[-1].i,
        sentences=tuple(sentences),
        chain=tuple(event.i for event in event_chain),
        evidence=tuple(sorted(position for position in set(evidence_positions) if position >= 0)),
    )


def cause_path(events: dict[int, Event], event: Event) -> list[Event]:
    """The event and its causes, up to the root, without events that only pass a value on."""
    event_chain = list(causes_of_event(events, event))
    return [
        chain_event
        for index, chain_event in enumerate(event_chain)
        if index in (0, len(event_chain) - 1) or chain_event.k not in COPYING_KINDS
    ]


# Parts


def _evidence_positions(
    followed_trace: FollowedTrace,
    partition: str,
    log: Mapping[str, Any],
    open_txn: OpenTxnVerdict | None,
) -> Iterator[int]:
    if open_txn is None:
        return
    state = followed_trace.state
    opening_position = log["producers"][str(open_txn.producer_id)]["i"]
    yield from (opening_position,) if opening_position >= 0 else ()
    if open_txn.transactional_id is not None:
        yield state.transactions[open_txn.transactional_id]["i"]
        for owed_key, owed_marker in state.owed.items():
            if owed_by(owed_key) == (open_txn.transactional_id, partition):
                yield owed_marker["i"]
    if open_txn.status is OpenTxnStatus.HANGING:
        return  # whatever is held now, no marker of this one is on its way
    held_messages = followed_trace.faults_and_decisions.held_strikes(
        open_txn.transactional_id, open_txn.producer_id, partition
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
    event_fields = event.d if isinstance(event.d, Mapping) else {}
    node_name = node_label(nodes[event.n])
    match event.k:
        case "client.call":
            return f"{node_name}, who was asked to {event_fields.get('call')} (#{event.i})"
        case "msg.recv":
            peer_label = node_label(str(event_fields.get("peer")))
            return f"{event_fields.get('api')} of {peer_label} (#{event.i})"
        case "timer.fire":
            return f"the timer {event_fields.get('timer')} of {node_name} (#{event.i})"
        case "input":
            return f"the user: {event_fields.get('do')} (#{event.i})"
    return f"{event.k} at {node_name} (#{event.i})"
