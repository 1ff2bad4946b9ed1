"""Why the last stable offset of a partition is where it is, and what happened to a transaction.
Everything comes from a trace, in the words of ``txn.open_txn_verdict``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.runtime.trace import Event, TraceLevel
from txnsim.trace.story import node_label
from txnsim.trace.trace_file import Recording
from txnsim.txn.open_txn_verdict import (
    BlockingTxn,
    Cause,
    CoordinatedTxn,
    OpenTxnStatus,
    ReaderStanding,
    program_at,
)
from txnsim.txn.past_decision import Decided
from txnsim.types import TopicPartition
from txnsim_lab.trace.cause_chains import by_position, causes
from txnsim_lab.trace.faults_and_decisions import Remembered
from txnsim_lab.trace.state import TraceState, owed_by, state_at

COPIES: Final = frozenset({"msg.send", "msg.recv", "log.hw", "txn.decide", "txn.prepare"})
"""Kinds of events that only pass a value on. A walk along causes skips them, except for a root."""
_NO_FAULT: Final = {"held": 0}
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
    events = run.through(at)
    state = state_at(events, run.nodes, level=run.level)
    return lso_of(
        state, partition, at=_last_position(events), remembered=Remembered.from_events(events)
    )


def _last_position(events: Sequence[Event]) -> int:
    return events[-1].i if events else -1


def lso_of(
    state: TraceState,
    partition: str,
    *,
    at: int,
    remembered: Remembered,
    program: str = program_at(None),
) -> LsoExplanation:
    """Like ``explain_lso``, for a given state.

    Raises:
        BadInputError: The state has no such partition.
    """
    log = state.logs.get(partition)
    if log is None:
        partitions = ", ".join(sorted(state.logs)) or "none"
        raise BadInputError(
            f"the trace tells nothing of {partition} up to #{at}; it has {partitions}"
        )
    where = _partition(partition)
    stable = log["lso"]
    is_brief = state.level != TraceLevel.FULL
    end = max(log["end"], stable) if is_brief else log["hw"]
    open_ones = sorted(
        mismatches(state, remembered, partition), key=lambda mismatch: mismatch.first
    )
    holder = next(
        (mismatch for mismatch in open_ones if max(mismatch.first, log["start"]) == stable), None
    )
    if log["leader"] < 0:
        cause = Cause.OFFLINE
    elif holder is not None and end > stable:
        cause = Cause.of_status(holder.verdict)
    else:
        cause_behind = Cause.WRITTEN if is_brief else Cause.UNREPLICATED
        cause = Cause.NOTHING if stable >= end else cause_behind
    standing = ReaderStanding(
        partition=where,
        cause=cause,
        last_stable_offset=stable,
        high_watermark=end,
        blocking_txn=None if holder is None else _holder(state, log, holder),
        later_open_count=len(open_ones) - 1,
        share_groups=sorted(_share_groups(state, partition)),
        program=program,
    )
    sentences = standing.sentences()
    if is_brief and log["replicas"] != 1:
        sentences = (*sentences, BRIEF_REMARK)
    hanging = holder if cause is Cause.HANGING else None
    return LsoExplanation(
        partition=partition,
        at=at,
        cause=str(cause),
        last_stable_offset=stable,
        high_watermark=end,
        sentences=sentences,
        evidence=tuple(
            sorted(set(_evidence(state, log, holder if end > stable else None, remembered)))
        ),
        repair=None if hanging is None else hanging.verdict.repair_command(where, program=program),
        marker=None
        if hanging is None or hanging.decided is None
        else hanging.decided.decision.marker or None,
    )


def _share_groups(state: TraceState, partition: str) -> Iterator[tuple[str, int]]:
    """Share groups that skip open transactions, with their start offsets on the partition."""
    for name, share in state.shares.items():
        group, _, where = name.rpartition(" ")
        if where == partition and share["isolation"] == "read_committed":
            yield group, share["start"]


def mismatches(
    state: TraceState, remembered: Remembered, partition: str | None = None
) -> Iterator[Mismatch]:
    """Every open transaction, of one partition or of all, with its verdict."""
    ids = {entry["pid"]: name for name, entry in state.transactions.items() if entry["pid"] >= 0}
    for tp, log in state.logs.items():
        if partition not in (None, tp):
            continue
        for pid, producer in log["producers"].items():
            if producer["first"] < 0:
                continue
            name = ids.get(int(pid))
            entry = None if name is None else state.transactions[name]
            coordinated = (
                None if name is None or entry is None else _as_coordinated(name, entry, tp)
            )
            verdict, reason = OpenTxnStatus.judge(int(pid), producer["epoch"], name, coordinated)
            yield Mismatch(
                partition=tp,
                producer_id=int(pid),
                epoch=producer["epoch"],
                first=producer["first"],
                verdict=verdict,
                reason=reason,
                transactional_id=name,
                coordinator=None if entry is None else entry["node"],
                state=None if entry is None else entry["state"],
                coordinator_epoch=None if entry is None else entry["epoch"],
                is_two_phase=verdict is OpenTxnStatus.ALIVE
                and coordinated is not None
                and coordinated.is_two_phase,
                decided=remembered.decision_of(
                    _partition(tp),
                    producer_id=int(pid),
                    producer_epoch=producer["epoch"],
                    first_offset=producer["first"],
                    opened_by=producer["i"],
                    last_timestamp_ms=producer["timestamp"],
                    entry=entry,
                )
                if verdict is OpenTxnStatus.HANGING
                else None,
            )


def places(state: TraceState, open_ones: Iterable[Mismatch]) -> list[str]:
    """Partitions to explain: those with hanging transactions first, then with other open ones, then
    other topics of users.
    """
    worst_first = sorted(
        open_ones, key=lambda mismatch: mismatch.verdict is not OpenTxnStatus.HANGING
    )
    opened = [
        mismatch.partition
        for mismatch in worst_first
        if mismatch.verdict is OpenTxnStatus.HANGING or not is_internal(mismatch.partition)
    ]
    return list(dict.fromkeys([*opened, *(name for name in state.logs if not is_internal(name))]))


def is_internal(partition: str) -> bool:
    """Whether a partition is one of Kafka's own topics."""
    return partition.startswith("__")


def explain_txn(run: Recording, transactional_id: str, *, at: int | None = None) -> TxnExplanation:
    """What happened to a transactional id, and the causes of its last transition.

    Raises:
        BadInputError: The trace has nothing about the id, or has no such event.
    """
    events = run.through(at)
    state = state_at(events, run.nodes, level=run.level)
    entry = state.transactions.get(transactional_id)
    if entry is None:
        ids = ", ".join(sorted(state.transactions)) or "none"
        raise BadInputError(
            f"no coordinator of this trace has {transactional_id!r}; transactional ids: {ids}"
        )
    known_events = by_position(events)
    chain = [known_events[entry["i"]]] if entry["i"] in known_events else []
    chain = walk(known_events, chain[0]) if chain else []
    lines = [_state_line(transactional_id, entry)]
    if len(chain) > 1:
        lines.append(f"That is due to {_root_words(chain[-1], run.nodes)}.")
    evidence = [entry["i"]]
    for key, owed in state.owed.items():
        whose, partition = owed_by(key)
        if whose == transactional_id:
            lines.append(_owed_line(partition, owed))
            evidence.append(owed["i"])
    for mismatch in mismatches(state, Remembered.from_events(events)):
        if mismatch.transactional_id == transactional_id:
            decided = "" if mismatch.decided is None else f" {mismatch.decided}."
            lines.append(
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
        sentences=tuple(lines),
        chain=tuple(event.i for event in chain),
        evidence=tuple(sorted(position for position in set(evidence) if position >= 0)),
    )


def walk(events: dict[int, Event], event: Event) -> list[Event]:
    """The event and its causes, up to the root, without events that only pass a value on."""
    chain = list(causes(events, event))
    return [
        event_of_chain
        for index, event_of_chain in enumerate(chain)
        if index in (0, len(chain) - 1) or event_of_chain.k not in COPIES
    ]


# Parts


def _partition(name: str) -> TopicPartition:
    topic, dash, number = name.rpartition("-")
    if not dash or not number.isdigit():
        raise BadInputError(f"{name!r} is no partition: expected TOPIC-PARTITION, as orders-0")
    return TopicPartition(topic, int(number))


def _as_coordinated(name: str, entry: Mapping[str, Any], partition: str) -> CoordinatedTxn:
    return CoordinatedTxn(
        transactional_id=name,
        coordinator_id=_broker(entry["node"]),
        state=entry["state"],
        producer_id=entry["pid"],
        producer_epoch=entry["epoch"],
        lists_partition=partition in entry["partitions"],
        timeout_ms=entry.get("timeout_ms", -1),
    )


def _broker(node: str) -> int:
    """Id of the broker in a node's name; -1 if no broker has the coordinator's partition."""
    parts = node.split("/")
    return int(parts[1]) if parts[0] == "broker" else -1


def _holder(state: TraceState, log: Mapping[str, Any], mismatch: Mismatch) -> BlockingTxn:
    producer = log["producers"][str(mismatch.producer_id)]
    return BlockingTxn(
        producer_id=mismatch.producer_id,
        producer_epoch=mismatch.epoch,
        quiet_ms=state.now_ms - producer["timestamp"],
        verdict=mismatch.verdict,
        reason=mismatch.reason,
        transactional_id=mismatch.transactional_id,
        coordinator_id=None if mismatch.coordinator is None else _broker(mismatch.coordinator),
        is_two_phase=mismatch.is_two_phase,
        decided=mismatch.decided,
    )


def _evidence(
    state: TraceState, log: Mapping[str, Any], mismatch: Mismatch | None, remembered: Remembered
) -> Iterator[int]:
    if mismatch is None:
        return
    opened = log["producers"][str(mismatch.producer_id)]["i"]
    yield from (opened,) if opened >= 0 else ()
    if mismatch.transactional_id is not None:
        yield state.transactions[mismatch.transactional_id]["i"]
        for key, owed in state.owed.items():
            if owed_by(key) == (mismatch.transactional_id, mismatch.partition):
                yield owed["i"]
    if mismatch.verdict is OpenTxnStatus.HANGING:
        return  # whatever is held now, no marker of this one is on its way
    held_crossings = remembered.held_strikes(
        mismatch.transactional_id, mismatch.producer_id, mismatch.partition
    )
    yield from (
        position for position, rule in held_crossings if state.faults.get(rule, _NO_FAULT)["held"]
    )


def _state_line(transactional_id: str, entry: Mapping[str, Any]) -> str:
    pending = f", on its way to {entry['pending']}" if entry.get("pending") else ""
    partitions = ", ".join(entry["partitions"])
    where = f" with {partitions}" if partitions else ""
    return (
        f"{transactional_id} is {entry['state']}{pending}{where}: producer id {entry['pid']}, epoch"
        f" {entry['epoch']}, at the {node_label(entry['node'])}."
    )


def _owed_line(partition: str, owed: Mapping[str, Any]) -> str:
    kind = "COMMIT" if owed["committed"] else "ABORT"
    match owed["how"]:
        case "refused":
            return f"The {kind} marker of {partition} was refused with {owed['error']}."
        case "sent":
            return f"The {kind} marker of {partition} is on its way and not acknowledged."
    return f"The {kind} marker of {partition} is owed."


def _root_words(event: Event, nodes: Sequence[str]) -> str:
    data = event.d if isinstance(event.d, Mapping) else {}
    who = node_label(nodes[event.n])
    match event.k:
        case "client.call":
            return f"{who}, who was asked to {data.get('call')} (#{event.i})"
        case "msg.recv":
            return f"{data.get('api')} of {node_label(str(data.get('peer')))} (#{event.i})"
        case "timer.fire":
            return f"the timer {data.get('timer')} of {who} (#{event.i})"
        case "input":
            return f"the user: {data.get('do')} (#{event.i})"
    return f"{event.k} at {who} (#{event.i})"
