"""The trace as a story: the events that matter, each as one sentence with its time and node.

A story needs nothing but the trace, so it can be told of a trace file from elsewhere. This module
decides which kinds of events get a sentence; ``runtime.trace_kinds`` says what they carry. Events
that a reader can infer are left out: a state on the way to the next one, batches outside
transactions, and offsets that only follow the batches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from txnsim.runtime.trace import Event

NARRATOR: Final = "scenario"
"""Name of the node whose notes are the story's own sentences."""
ONLOOKER_SUFFIX: Final = "-answered"
"""Suffix in the id of a fault rule that only counts what another rule has struck."""

_PRODUCER_AND_EPOCH: Final = re.compile(r"-?[0-9]+:-?[0-9]+")
"""Producer id and epoch, the end of a transaction's name in the trace. The transactional id before
them may contain slashes, too.
"""

Data = Mapping[str, Any]


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a story."""

    at_ms: int
    """Milliseconds since the run began."""
    who: str
    text: str
    is_narrated: bool = False
    """Whether the sentence is a note of the story itself, and describes no event."""


def story(events: Iterable[Event], nodes: Sequence[str]) -> tuple[Sentence, ...]:
    """Tell the events of a run in sentences, in order."""
    teller = _Teller(nodes)
    for event in events:
        teller.add_event(event)
    return tuple(sentence for sentence in teller.sentences if sentence is not None)


def node_label(node: str) -> str:
    """Describe a node of the trace for readers: ``coordinator (broker 1)``."""
    match node.split("/", 3):
        case ["broker", broker, "txn", _]:
            return f"coordinator (broker {broker})"
        case ["broker", broker, "log", partition]:
            return f"{partition} (broker {broker})"
        case [kind, name]:
            return f"{kind} {name}"
    return node


def transactional_id_of(tx_name: str) -> str:
    """The transactional id from a transaction's name, which may lack the producer's id and
    epoch.
    """
    transactional_id, slash, producer = tx_name.rpartition("/")
    return transactional_id if slash and _PRODUCER_AND_EPOCH.fullmatch(producer) else tx_name


class _Teller:
    """Takes the events in order and makes sentences of them."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.sentences: list[Sentence | None] = []
        """The sentences so far; None where one was retracted."""
        self._nodes = nodes
        self._prepared_indexes: dict[str, int] = {}
        """Transactional id -> index of the sentence about its last PrepareCommit or
        PrepareAbort.
        """
        self._released_indexes: set[int] = set()
        """Indexes of the events that follow from the release of a held crossing."""
        self._strike_counts: dict[str, int] = {}
        self._marker_indexes: dict[int, int] = {}
        """Node -> index of the sentence about a marker, until another log event of the node
        follows.
        """

    def add_event(self, event: Event) -> None:
        """Add the sentence of an event, if it has one."""
        event_data = event.d if isinstance(event.d, Mapping) else {}
        if event.k == "fault.release" or not self._released_indexes.isdisjoint(event.p):
            self._released_indexes.add(event.i)
        match event.k:
            case "txn.complete":
                self._tell_transaction(event, event_data)
            case "fault.hit":
                self._tell_strike(event, event_data)
            case "log.lso":
                self._add_stable_offset(event, event_data)
            case kind if kind in _SENTENCE_MAKERS:
                if kind == "marker.written":
                    self._marker_indexes[event.n] = len(self.sentences)
                elif kind.startswith("log."):
                    self._marker_indexes.pop(event.n, None)
                text = _SENTENCE_MAKERS[kind](
                    event_data, is_released=event.i in self._released_indexes
                )
                if text:
                    self._add_sentence(event, text)

    def _add_sentence(self, event: Event, text: str) -> None:
        node = self._nodes[event.n]
        sentence = Sentence(
            at_ms=event.t // 1000,
            who=node_label(node),
            text=text,
            is_narrated=event.k == "note" and node == NARRATOR,
        )
        sentence_before = self.sentences[-1] if self.sentences else None
        if sentence_before is None or (sentence_before.who, sentence_before.text) != (
            sentence.who,
            sentence.text,
        ):
            # Several attempts have the same outcome: once is enough.
            self.sentences.append(sentence)

    def _tell_transaction(self, event: Event, event_data: Data) -> None:
        state, transactional_id = str(event_data.get("state")), transactional_id_of(event.tx)
        if state == "Empty":
            # Without a history it is only there; else InitProducerId has given it a new epoch.
            if event_data.get("last_epoch", -1) >= 0:
                self._add_sentence(
                    event, f"{transactional_id} goes on with epoch {event_data.get('epoch')}"
                )
            return
        index_before = self._prepared_indexes.pop(transactional_id, None)
        if state.startswith("Complete") and index_before is not None:
            self.sentences[index_before] = None
        if state.startswith("Prepare"):
            self._prepared_indexes[transactional_id] = len(self.sentences)
        partitions = event_data.get("partitions") or ()
        partitions_text = f" with {', '.join(map(str, partitions))}" if partitions else ""
        self._add_sentence(
            event,
            f"{transactional_id}{_producer_text(event_data)} is {state}{partitions_text}",
        )

    def _tell_strike(self, event: Event, event_data: Data) -> None:
        rule, action = str(event_data.get("rule")), str(event_data.get("action"))
        if rule.endswith(ONLOOKER_SUFFIX) or action == "pass":
            return
        self._strike_counts[rule] = self._strike_counts.get(rule, 0) + 1
        is_first = self._strike_counts[rule] == 1
        if "api" in event_data:
            source_name = str(event_data.get("source")).removeprefix("client/")
            self._add_sentence(
                event,
                f"{action}{'' if is_first else ' another'} {event_data['api']} of {source_name}",
            )
        elif "target" in event_data:
            again_text = "" if is_first else " again"
            point_text = f"{event_data.get('point')} of {node_label(str(event_data['target']))}"
            self._add_sentence(event, f"{action}{again_text} at {point_text}")
        else:
            self._add_sentence(event, action)

    def _add_stable_offset(self, event: Event, event_data: Data) -> None:
        """Add a new last stable offset to the sentence about the marker that moved it."""
        marker_index = self._marker_indexes.pop(event.n, None)
        marker = None if marker_index is None else self.sentences[marker_index]
        if marker_index is not None and marker is not None:
            self.sentences[marker_index] = msgspec.structs.replace(
                marker, text=f"{marker.text}; the last stable offset is {event_data.get('to')}"
            )


class _MakeSentence(Protocol):
    """Makes the sentence of an event; "" if the event gets none."""

    def __call__(self, event_data: Data, *, is_released: bool) -> str: ...


def _note_text(event_data: Data, *, is_released: bool) -> str:  # noqa: ARG001 - called by table
    return " ".join(str(event_data.get("text", "")).split())


def _marker_text(event_data: Data, *, is_released: bool) -> str:  # noqa: ARG001 - called by table
    marker_type = "COMMIT" if event_data.get("committed") else "ABORT"
    return f"{marker_type} marker{_producer_text(event_data)} at offset {event_data.get('offset')}"


def _marker_refusal_text(event_data: Data, *, is_released: bool) -> str:  # noqa: ARG001 - called by table
    return f"refuses a marker{_producer_text(event_data)}: {event_data.get('error')}"


def _append_text(event_data: Data, *, is_released: bool) -> str:
    if not event_data.get("txn"):
        return ""
    predicate = "opens a transaction" if event_data.get("opened") else "is"
    batch_text = _batch_text(event_data, is_released=is_released)
    return f"{batch_text} {predicate} at offset {event_data.get('base')}"


def _duplicate_text(event_data: Data, *, is_released: bool) -> str:
    return (
        f"{_batch_text(event_data, is_released=is_released)} is there already, at offset"
        f" {event_data.get('base')}"
    )


def _rejection_text(event_data: Data, *, is_released: bool) -> str:
    batch = _batch_text(event_data, is_released=is_released)
    return f"{batch} is refused with {event_data.get('error')}: {event_data.get('reason')}"


def _verification_text(event_data: Data, *, is_released: bool) -> str:
    error = event_data.get("error")
    if error == "NONE":
        return ""
    return (
        f"{_batch_text(event_data, is_released=is_released)} for {event_data.get('tp')} is"
        " refused: asked, the"
        f" coordinator says {error}"
    )


def _batch_text(event_data: Data, *, is_released: bool) -> str:
    return f"{'the released' if is_released else 'a'} batch{_producer_text(event_data)}"


def _producer_text(event_data: Data) -> str:
    return (
        f" (producer {event_data.get('pid')}, epoch {event_data.get('epoch')})"
        if "pid" in event_data
        else ""
    )


_SENTENCE_MAKERS: Final[Mapping[str, _MakeSentence]] = {
    "note": _note_text,
    "marker.written": _marker_text,
    "marker.refused": _marker_refusal_text,
    "log.append": _append_text,
    "log.duplicate": _duplicate_text,
    "log.reject": _rejection_text,
    "verify.answer": _verification_text,
}
"""Kind of event -> function that makes its sentence, from the event's data and from whether a
release has led to the event.
"""
