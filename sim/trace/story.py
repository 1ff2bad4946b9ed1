"""The trace as a story: the events that matter, each as one sentence with its time and place.

Told from the trace alone, so that a story can also be told of a file that somebody sends. Which
kinds are worth a sentence is decided here; what they carry is in ``runtime.trace_kinds``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from sim.runtime.trace import Tracer

Data = Mapping[str, Any]


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a story."""

    at_ms: int
    """Milliseconds since the run began."""
    who: str
    text: str
    told: bool = False
    """Said by the story itself, not by what happened."""


def story(tracer: Tracer) -> tuple[Sentence, ...]:
    """The sentences of a run, in order; repeats of one thing in a row are told once."""
    nodes = tracer.nodes
    sentences: list[Sentence] = []
    for event in tracer.events(0):
        tell = _TELLERS.get(event.k)
        data = event.d if isinstance(event.d, Mapping) else {}
        text = tell(data, event.tx) if tell is not None else None
        if text is None:
            continue
        who = nodes[event.n]
        if sentences and sentences[-1].text == text and sentences[-1].who == who:
            continue
        sentences.append(
            Sentence(at_ms=event.t // 1000, who=who, text=text, told=event.k == "note")
        )
    return tuple(sentences)


def _note(data: Data, _tx: str) -> str | None:
    return str(data.get("text", ""))


def _completed(data: Data, tx: str) -> str | None:
    state = data.get("state")
    if state in ("Empty", None):
        return None
    partitions = data.get("partitions") or ()
    where = f" with {', '.join(map(str, partitions))}" if partitions else ""
    return f"transaction {tx} is {state}{where}"


def _marker(data: Data, _tx: str) -> str | None:
    kind = "COMMIT" if data.get("committed") else "ABORT"
    return (
        f"{kind} marker of producer {data.get('pid')}, epoch {data.get('epoch')}, "
        f"at offset {data.get('offset')}"
    )


def _append(data: Data, _tx: str) -> str | None:
    what = "transactional batch" if data.get("txn") else "batch"
    pid = data.get("pid", -1)
    whose = f" of producer {pid}, epoch {data.get('epoch')}" if data.get("txn") else ""
    opens = ": it opens a transaction" if data.get("opened") else ""
    return f"{what}{whose} at offset {data.get('base')}{opens}"


def _reject(data: Data, _tx: str) -> str | None:
    return (
        f"refuses a batch of producer {data.get('pid')}, epoch {data.get('epoch')}: "
        f"{data.get('error')} ({data.get('reason')})"
    )


def _stable(data: Data, _tx: str) -> str | None:
    return f"last stable offset is {data.get('to')}"


def _answer(data: Data, _tx: str) -> str | None:
    error = data.get("error")
    if error == "NONE":
        return None
    return f"the coordinator does not vouch for {data.get('tp')}: {error}"


def _hit(data: Data, _tx: str) -> str | None:
    if str(data.get("rule", "")).endswith("-answered"):
        return None
    return f"{data.get('action')}: {data.get('api')} from {data.get('source')}"


def _release(data: Data, _tx: str) -> str | None:
    if str(data.get("rule", "")).endswith("-answered") or not data.get("held"):
        return None
    return f"lets go what {data.get('rule')} held"


_TELLERS: Final[Mapping[str, Callable[[Data, str], str | None]]] = {
    "note": _note,
    "txn.complete": _completed,
    "marker.written": _marker,
    "log.append": _append,
    "log.reject": _reject,
    "log.lso": _stable,
    "verify.answer": _answer,
    "fault.hit": _hit,
    "fault.release": _release,
}
