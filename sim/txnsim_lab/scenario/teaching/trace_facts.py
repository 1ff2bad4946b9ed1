"""Facts of a trace: the answers to the questions of lessons, and the conditions of their goals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from txnsim.errors import BadInputError, ConfigError
from txnsim.trace.trace_file import Recording
from txnsim_lab.scenario.teaching.outside_facts import OUTSIDE_FACTS
from txnsim_lab.trace.explain import lso_of
from txnsim_lab.trace.followed_trace import FollowedTrace
from txnsim_lab.trace.state import TraceState, state_at

NOTHING_TEXT: Final = "nothing"
_ABORTED_FIELDS: Final = {"committed": False}

EventPayload = Mapping[str, Any]


def fact(recording: Recording, fact_words: str) -> str:
    """Read a fact from a trace, after its last event.

    Args:
        recording: The trace.
        fact_words: The name of a fact (``FACTS``) and its subject: ``lso payments-0``.

    Raises:
        ConfigError: There is no such fact.
        BadInputError: The trace has nothing about the subject.
    """
    fact_name, _, subject = fact_words.partition(" ")
    words_and_reader = TRACE_FACTS.get(fact_name)
    if words_and_reader is None:
        raise ConfigError(f"there is no fact {fact_name!r}: expected {', '.join(TRACE_FACTS)}")
    return words_and_reader[1](recording, subject)


def fact_text(fact_words: str) -> str:
    fact_name, _, subject = fact_words.partition(" ")
    phrase = TRACE_FACTS[fact_name][0] if fact_name in TRACE_FACTS else OUTSIDE_FACTS[fact_name][0]
    return f"{phrase} {subject}"


def is_fact(fact_words: str) -> bool:
    """Whether the fact exists, and the words name its subject."""
    fact_name, _, subject = fact_words.partition(" ")
    return fact_name in TRACE_FACTS and bool(subject)


def _trace_state(recording: Recording) -> TraceState:
    return state_at(recording.events, recording.nodes, level=recording.level)


def _read_lso(recording: Recording, partition: str) -> str:
    lso_answer = lso_of(FollowedTrace.of_recording(recording), partition)
    return str(lso_answer.last_stable_offset)


def _withheld_records(recording: Recording, partition: str) -> str:
    lso_answer = lso_of(FollowedTrace.of_recording(recording), partition)
    return str(lso_answer.high_watermark - lso_answer.last_stable_offset)


def _lso_cause(recording: Recording, partition: str) -> str:
    return lso_of(FollowedTrace.of_recording(recording), partition).cause


def _at_coordinator(recording: Recording, transactional_id: str) -> EventPayload:
    transaction_entry = _trace_state(recording).transactions.get(transactional_id)
    if transaction_entry is None:
        raise BadInputError(f"the trace tells nothing of {transactional_id}")
    return transaction_entry


def _last_refusal(recording: Recording, partition: str) -> str:
    """The error of the last batch that the log or the verification refused."""
    return _last_error(recording, ("log.reject", "verify.answer"), partition)


def _marker_refused(recording: Recording, partition: str) -> str:
    return _last_error(recording, ("marker.refused",), partition)


def _last_error(recording: Recording, kinds: Sequence[str], partition: str) -> str:
    error_texts = [
        str(payload["error"])
        for payload in _payloads_of(recording, kinds, partition)
        if payload.get("error")
    ]
    return error_texts[-1] if error_texts else NOTHING_TEXT


def _known_epoch(recording: Recording, partition: str) -> str:
    """The highest epoch that a partition has for the producer of the transactional id."""
    state = _trace_state(recording)
    log = state.logs.get(partition)
    producer_ids = {
        str(transaction_entry["pid"]) for transaction_entry in state.transactions.values()
    }
    epochs = (
        [
            producer["epoch"]
            for producer_id, producer in log["producers"].items()
            if producer_id in producer_ids
        ]
        if log
        else []
    )
    if not epochs:
        raise BadInputError(f"{partition} knows no producer of a transactional id")
    return str(max(epochs))


def _read_markers(recording: Recording, partition: str) -> str:
    """Decisions of the markers in the log, in order."""
    decisions = (
        "COMMIT" if payload["committed"] else "ABORT"
        for payload in _markers_by_offset(recording, partition)
    )
    return ", ".join(decisions) or NOTHING_TEXT


def _markers_by_offset(recording: Recording, partition: str) -> Sequence[EventPayload]:
    """Markers of a partition by offset, once each: replicas report the same ones."""
    by_offset = {
        payload["offset"]: payload
        for payload in _payloads_of(recording, ("marker.written",), partition)
    }
    return [by_offset[offset] for offset in sorted(by_offset)]


def _readable_offsets(recording: Recording, partition: str) -> str:
    """Offsets of the records that a read_committed consumer gets from the start."""
    log = _trace_state(recording).logs.get(partition)
    if log is None:
        raise BadInputError(f"the trace tells nothing of {partition}")
    markers = _markers_by_offset(recording, partition)
    batches = {
        payload["base"]: payload for payload in _payloads_of(recording, ("log.append",), partition)
    }
    offsets_given: list[str] = []
    for base_offset, payload in sorted(batches.items()):
        end_markers = (
            marker
            for marker in markers
            if marker["pid"] == payload["pid"] and marker["offset"] > base_offset
        )
        if payload.get("control") or (
            payload["txn"] and not next(end_markers, _ABORTED_FIELDS)["committed"]
        ):
            continue
        last_offset = min(payload["last"], log["lso"] - 1)
        offsets_given += map(str, range(max(base_offset, log["start"]), last_offset + 1))
    return ", ".join(offsets_given) or NOTHING_TEXT


def _last_call_error(recording: Recording, call_name: str) -> str:
    """The error of the last answered call of that name; NONE if it succeeded."""
    error_payloads = [
        payload
        for _, payload in _payloads_of_kinds(recording, ("client.result",))
        if payload.get("call") == call_name
    ]
    if not error_payloads:
        raise BadInputError(f"no call {call_name!r} was answered")
    return str(error_payloads[-1].get("error", "NONE"))


def _delivered_records(recording: Recording, partition: str) -> str:
    """Number of records that the last read_uncommitted reader of a partition got."""
    record_count, is_wanted_read = 0, False
    for kind, payload in _payloads_of_kinds(recording, ("client.call", "client.deliver")):
        if kind == "client.deliver":
            record_count += is_wanted_read and payload["tp"] == partition
        elif payload["call"] == "read":
            args = payload["args"]
            is_wanted_read = (
                args.get("tp") == partition and args.get("isolation") == "read_uncommitted"
            )
            record_count = 0 if is_wanted_read else record_count
    return str(record_count)


def _strike_count(recording: Recording, rule_id: str) -> str:
    """How often an armed rule has struck."""
    rule_state = _trace_state(recording).faults.get(rule_id)
    if rule_state is None:
        raise BadInputError(f"no rule {rule_id} is armed")
    return str(rule_state["struck"])


def _payloads_of(
    recording: Recording, kinds: Sequence[str], partition: str
) -> Iterator[EventPayload]:
    return (
        payload for _, payload in _payloads_of_kinds(recording, kinds) if payload["tp"] == partition
    )


def _payloads_of_kinds(
    recording: Recording, kinds: Sequence[str]
) -> Iterator[tuple[str, EventPayload]]:
    for event in recording.events:
        if event.k in kinds and isinstance(event.d, Mapping):
            yield event.k, event.d


TRACE_FACTS: Final[Mapping[str, tuple[str, Callable[[Recording, str], str]]]] = {
    "lso": ("last stable offset of", _read_lso),
    "withheld": ("offsets withheld at the end of", _withheld_records),
    "cause": ("what holds readers back on", _lso_cause),
    "gets": ("what consumers get of", _readable_offsets),
    "delivered": ("records that the last reader got of", _delivered_records),
    "markers": ("markers of", _read_markers),
    "known-epoch": ("epoch known to", _known_epoch),
    "refused": ("what is refused on", _last_refusal),
    "marker-refused": ("marker that is refused on", _marker_refused),
    "state": ("coordinator's state of", lambda run, name: str(_at_coordinator(run, name)["state"])),
    "epoch": ("coordinator's epoch of", lambda run, name: str(_at_coordinator(run, name)["epoch"])),
    "answer": ("answer to", _last_call_error),
    "struck": ("strikes of the fault rule", _strike_count),
}
"""Fact -> its description, and the function that reads it from a trace."""
