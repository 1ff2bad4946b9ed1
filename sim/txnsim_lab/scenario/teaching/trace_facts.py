"""Facts of a trace: the answers to the questions of lessons, and the conditions of their goals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from txnsim.errors import BadInputError, ConfigError
from txnsim.trace.trace_file import Recording
from txnsim_lab.scenario.teaching.outside_facts import SEEN
from txnsim_lab.trace.explain import lso_of
from txnsim_lab.trace.faults_and_decisions import Remembered
from txnsim_lab.trace.state import TraceState, state_at

NONE: Final = "nothing"
_ABORTED: Final = {"committed": False}

Data = Mapping[str, Any]


def fact(run: Recording, words: str) -> str:
    """Read a fact from a trace, after its last event.

    Args:
        run: The trace.
        words: The name of a fact (``FACTS``) and its subject: ``lso payments-0``.

    Raises:
        ConfigError: There is no such fact.
        BadInputError: The trace has nothing about the subject.
    """
    name, _, subject = words.partition(" ")
    words_and_reader = FACTS.get(name)
    if words_and_reader is None:
        raise ConfigError(f"there is no fact {name!r}: expected {', '.join(FACTS)}")
    return words_and_reader[1](run, subject)


def in_words(words: str) -> str:
    name, _, subject = words.partition(" ")
    phrase = FACTS[name][0] if name in FACTS else SEEN[name][0]
    return f"{phrase} {subject}"


def is_fact(words: str) -> bool:
    """Whether the fact exists, and the words name its subject."""
    name, _, subject = words.partition(" ")
    return name in FACTS and bool(subject)


def _state(run: Recording) -> TraceState:
    return state_at(run.events, run.nodes, level=run.level)


def _lso(run: Recording, partition: str) -> str:
    answer = lso_of(_state(run), partition, at=-1, remembered=Remembered())
    return str(answer.last_stable_offset)


def _withheld(run: Recording, partition: str) -> str:
    answer = lso_of(_state(run), partition, at=-1, remembered=Remembered())
    return str(answer.high_watermark - answer.last_stable_offset)


def _cause(run: Recording, partition: str) -> str:
    return lso_of(_state(run), partition, at=-1, remembered=Remembered()).cause


def _at_coordinator(run: Recording, transactional_id: str) -> Data:
    entry = _state(run).transactions.get(transactional_id)
    if entry is None:
        raise BadInputError(f"the trace tells nothing of {transactional_id}")
    return entry


def _last_refusal(run: Recording, partition: str) -> str:
    """The error of the last batch that the log or the verification refused."""
    return _last_error(run, ("log.reject", "verify.answer"), partition)


def _marker_refused(run: Recording, partition: str) -> str:
    return _last_error(run, ("marker.refused",), partition)


def _last_error(run: Recording, kinds: Sequence[str], partition: str) -> str:
    errors = [
        str(data["error"]) for data in _payloads_of(run, kinds, partition) if data.get("error")
    ]
    return errors[-1] if errors else NONE


def _known_epoch(run: Recording, partition: str) -> str:
    """The highest epoch that a partition has for the producer of the transactional id."""
    state = _state(run)
    log = state.logs.get(partition)
    producer_ids = {str(entry["pid"]) for entry in state.transactions.values()}
    epochs = (
        [producer["epoch"] for pid, producer in log["producers"].items() if pid in producer_ids]
        if log
        else []
    )
    if not epochs:
        raise BadInputError(f"{partition} knows no producer of a transactional id")
    return str(max(epochs))


def _markers(run: Recording, partition: str) -> str:
    """Decisions of the markers in the log, in order."""
    decisions = (
        "COMMIT" if data["committed"] else "ABORT" for data in _markers_by_offset(run, partition)
    )
    return ", ".join(decisions) or NONE


def _markers_by_offset(run: Recording, partition: str) -> Sequence[Data]:
    """Markers of a partition by offset, once each: replicas report the same ones."""
    by_offset = {data["offset"]: data for data in _payloads_of(run, ("marker.written",), partition)}
    return [by_offset[offset] for offset in sorted(by_offset)]


def _gets(run: Recording, partition: str) -> str:
    """Offsets of the records that a read_committed consumer gets from the start."""
    log = _state(run).logs.get(partition)
    if log is None:
        raise BadInputError(f"the trace tells nothing of {partition}")
    markers = _markers_by_offset(run, partition)
    batches = {data["base"]: data for data in _payloads_of(run, ("log.append",), partition)}
    offsets_given: list[str] = []
    for base, data in sorted(batches.items()):
        ends = (
            marker for marker in markers if marker["pid"] == data["pid"] and marker["offset"] > base
        )
        if data.get("control") or (data["txn"] and not next(ends, _ABORTED)["committed"]):
            continue
        last_offset = min(data["last"], log["lso"] - 1)
        offsets_given += map(str, range(max(base, log["start"]), last_offset + 1))
    return ", ".join(offsets_given) or NONE


def _answer(run: Recording, call: str) -> str:
    """The error of the last answered call of that name; NONE if it succeeded."""
    results = [data for _, data in _payloads(run, ("client.result",)) if data.get("call") == call]
    if not results:
        raise BadInputError(f"no call {call!r} was answered")
    return str(results[-1].get("error", "NONE"))


def _delivered_records(run: Recording, partition: str) -> str:
    """Number of records that the last read_uncommitted reader of a partition got."""
    record_count, is_it = 0, False
    for kind, data in _payloads(run, ("client.call", "client.deliver")):
        if kind == "client.deliver":
            record_count += is_it and data["tp"] == partition
        elif data["call"] == "read":
            args = data["args"]
            is_it = args.get("tp") == partition and args.get("isolation") == "read_uncommitted"
            record_count = 0 if is_it else record_count
    return str(record_count)


def _struck(run: Recording, rule: str) -> str:
    """How often an armed rule has struck."""
    rule_state = _state(run).faults.get(rule)
    if rule_state is None:
        raise BadInputError(f"no rule {rule} is armed")
    return str(rule_state["struck"])


def _payloads_of(run: Recording, kinds: Sequence[str], partition: str) -> Iterator[Data]:
    return (data for _, data in _payloads(run, kinds) if data["tp"] == partition)


def _payloads(run: Recording, kinds: Sequence[str]) -> Iterator[tuple[str, Data]]:
    """Kind and payload of the events of the given kinds."""
    for event in run.events:
        if event.k in kinds and isinstance(event.d, Mapping):
            yield event.k, event.d


FACTS: Final[Mapping[str, tuple[str, Callable[[Recording, str], str]]]] = {
    "lso": ("last stable offset of", _lso),
    "withheld": ("offsets withheld at the end of", _withheld),
    "cause": ("what holds readers back on", _cause),
    "gets": ("what consumers get of", _gets),
    "delivered": ("records that the last reader got of", _delivered_records),
    "markers": ("markers of", _markers),
    "known-epoch": ("epoch known to", _known_epoch),
    "refused": ("refused on", _last_refusal),
    "marker-refused": ("marker refused on", _marker_refused),
    "state": ("coordinator's state of", lambda run, name: str(_at_coordinator(run, name)["state"])),
    "epoch": ("coordinator's epoch of", lambda run, name: str(_at_coordinator(run, name)["epoch"])),
    "answer": ("answer to", _answer),
    "struck": ("strikes of the fault rule", _struck),
}
"""Fact -> its description, and the function that reads it from a trace."""
