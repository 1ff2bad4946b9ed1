"""The two forms in which the events of a trace are kept: lines and rows.

``TraceLines`` are for a trace that is kept whole: the lines of events as the file has them.

``TraceRows`` are for a ring, which drops nearly all events before they are read: the noted values
as MessagePack. Packing takes a third of the time of making lines, and 60 % of their memory. The
lines are made when a reader asks for them. A row is bytes like a line: no event refers to an object
that could change later, the garbage collector has nothing to visit, and the size of the kept events
is known.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One line of the trace; the field names are those of the file."""

    i: int
    t: int
    n: int
    l: int  # noqa: E741 - the file's name of the Lamport clock
    p: tuple[int, ...]
    k: str
    tx: str = ""
    d: object = None
    w: int | None = None


Payload = Mapping[str, object] | msgspec.Struct | None
LaterPayload = tuple[Callable[..., Payload], *tuple[Any, ...]]
"""A function and its arguments, all of them values: called for the payload when the event is
encoded.
"""
Transaction = str | tuple[str, int, int]
"""Transactional id, producer id and epoch, as a tuple or already as one text; empty for none."""
NotedEvent = tuple[int, int, tuple[int, ...], str, Transaction, Payload | LaterPayload, int | None]
"""An event as ``emit`` notes it: time, node, parents, kind, transaction, payload, importance."""
Row = tuple[int, int, Sequence[int], str, str | Sequence[Any], object, int | None]
"""An event as a row: the same values, with the payload made."""

_decode_event: Final = msgspec.json.Decoder(Event).decode
_encoder: Final = msgspec.json.Encoder(order="deterministic")
_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(list[Row]).decode


def rows_of(noted_events: Sequence[NotedEvent]) -> list[Row]:
    """The noted events as rows: payloads that were postponed are made now."""
    return [
        (
            event_time,
            node_index,
            parents,
            kind,
            tx,
            data[0](*data[1:]) if type(data) is tuple else data,
            importance,
        )
        for event_time, node_index, parents, kind, tx, data, importance in noted_events
    ]


class TraceLines:
    """Encodes events as lines at once."""

    def __init__(self, start_ns: int | None) -> None:
        """Start with the first event of the trace; ``start_ns`` as in ``Tracer``."""
        self._start_ns = start_ns
        self._clock_by_node: dict[int, int] = {}
        self._lamport = array("Q")

    def kept(self, rows: Sequence[Row], start_index: int) -> bytes:
        """Encode events as lines with Lamport clocks; ``start_index`` is the index of the first
        event.
        """
        clock_by_node, lamport_clocks = self._clock_by_node, self._lamport
        for _, node_index, parents, *_ in rows:
            node_clock = clock_by_node.get(node_index, 0)
            for parent in parents:
                if lamport_clocks[parent] > node_clock:
                    node_clock = lamport_clocks[parent]
            clock_by_node[node_index] = node_clock + 1
            lamport_clocks.append(node_clock + 1)
        return _copy_exactly(
            _encode_lines(rows, start_index, lamport_clocks[start_index:], self._start_ns)
        )

    def lines(self, encoded: bytes, first_index: int) -> bytes:  # noqa: ARG002 - as Rows has it
        """The kept lines, unchanged; each ends with a newline."""
        return encoded

    def packed(self, encoded: bytes, first_index: int) -> bytes:  # noqa: ARG002 - as Rows has it
        """The kept lines as rows in MessagePack, for a reader in another process. A row has an
        additional value, its Lamport clock, which may differ from the one that ``TraceRows``
        computes.
        """
        return _pack(
            [
                (event.t, event.n, event.p, event.k, event.tx, event.d, event.w, event.l)
                for event in map(_decode_event, encoded.splitlines())
            ]
        )

    @property
    def rows_start_ns(self) -> None:
        """None: the times of rows are microseconds of the run, as in the lines."""


class TraceRows:
    """Packs events, and makes lines when they are read.

    A Lamport clock must grow along nodes and causes. The clock of an event is at most the number of
    events so far. So the clocks of a batch start at the index of its first event: no event before
    it has a greater clock, and a batch can be read without the earlier ones.
    """

    def __init__(self, start_ns: int | None) -> None:
        """Start with the first event of the trace; ``start_ns`` as in ``Tracer``."""
        self._start_ns = start_ns

    def kept(self, rows: Sequence[Row], start_index: int) -> bytes:  # noqa: ARG002 - as Lines has it
        """The rows as MessagePack."""
        return _copy_exactly(_pack(rows))

    def lines(self, encoded: bytes, first_index: int) -> bytes:
        """The lines of packed rows, with Lamport clocks."""
        rows = _unpack(encoded)
        clock_by_node: dict[int, int] = {}
        lamport_clocks: list[int] = []
        for _, node_index, parents, *_ in rows:
            node_clock = clock_by_node.get(node_index, first_index)
            for parent in parents:
                if parent >= first_index and lamport_clocks[parent - first_index] > node_clock:
                    node_clock = lamport_clocks[parent - first_index]
            clock_by_node[node_index] = node_clock + 1
            lamport_clocks.append(node_clock + 1)
        return _encode_lines(rows, first_index, lamport_clocks, self._start_ns)

    def packed(self, encoded: bytes, first_index: int) -> bytes:  # noqa: ARG002 - as Lines has it
        """The packed rows, unchanged."""
        return encoded

    @property
    def rows_start_ns(self) -> int | None:
        """Start of the run in nanoseconds, if rows have nanoseconds; None if they have the times of
        the lines.
        """
        return self._start_ns


StoredForm = TraceLines | TraceRows
"""How a trace keeps its events: as lines or as packed rows."""


def _encode_lines(
    rows: Sequence[Row], first_index: int, lamport_clocks: Sequence[int], start_ns: int | None
) -> bytes:
    return _encoder.encode_lines(
        [
            Event(
                event_index,
                event_time if start_ns is None else (event_time - start_ns) // 1_000,
                node_index,
                lamport_clock,
                tuple(parents),
                kind,
                tx if type(tx) is str else name_of(tx),
                data,
                importance,
            )
            for event_index, lamport_clock, (
                event_time,
                node_index,
                parents,
                kind,
                tx,
                data,
                importance,
            ) in zip(range(first_index, first_index + len(rows)), lamport_clocks, rows, strict=True)
        ]
    )


def _copy_exactly(encoded: bytes) -> bytes:
    """A copy of exactly the encoded bytes: an encoder's result keeps its whole buffer, half as
    large again.
    """
    return bytes(memoryview(encoded))


def name_of(transaction: Sequence[Any]) -> str:
    """The name of a transaction in the trace, made of transactional id, producer id and epoch."""
    transactional_id, producer_id, epoch = transaction
    return f"{transactional_id}/{producer_id}:{epoch}"
