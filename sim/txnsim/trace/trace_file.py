"""Reads a trace from a file or from the control port: header, events, trailer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.files import lines_of, problem_of
from txnsim.runtime.trace import SCHEMA_VERSION, Event

SCHEMAS: Final = (1, SCHEMA_VERSION)
_header: Final = msgspec.json.Decoder(dict[str, Any])
_event_of: Final = msgspec.json.Decoder(Event).decode
_encoder: Final = msgspec.json.Encoder()


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A trace that has been read."""

    header: dict[str, Any]
    events: tuple[Event, ...]
    trailer: dict[str, Any]
    """Empty if the file ends without a trailer because its writer was killed."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, by index."""
        return tuple(self.header["nodes"])

    @property
    def level(self) -> str:
        """Trace level; an old file without one counts as ``full``."""
        return str(self.header.get("level", "full"))

    def to_lines(self) -> bytes:
        """Encode the trace as the lines of a file."""
        encode = msgspec.json.encode
        trailer = encode(self.trailer) + b"\n" if self.trailer else b""
        return encode(self.header) + b"\n" + _encoder.encode_lines(self.events) + trailer

    def through(self, last_index: int | None) -> tuple[Event, ...]:
        """The events up to and including the one with index ``last_index``; all events if it is
        None.

        Raises:
            BadInputError: There is no such event.
        """
        if last_index is None:
            return self.events
        events = tuple(event for event in self.events if event.i <= last_index)
        if not events or events[-1].i != last_index:
            first_index, end = (self.events[0].i, self.events[-1].i) if self.events else (0, -1)
            raise self.no_event(last_index, first_index, end)
        return events

    @staticmethod
    def no_event(index: int, first_index: int, end: int) -> BadInputError:
        """The error for an event index that the trace does not have."""
        return BadInputError(f"there is no event {index}: the trace has {first_index} to {end}")

    @staticmethod
    def event_of(line: bytes) -> Event:
        """Decode the event of a line that a tracer has written."""
        return _event_of(line)

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Read a trace file.

        Raises:
            BadInputError: The file can't be read, or a line does not belong in a trace; the message
                names the line.
        """
        try:
            with path.open("rb") as file:
                return cls.of(str(path), lines_of(file))
        except OSError as error:
            raise BadInputError(f"{path}: {problem_of(error)}") from None

    @classmethod
    def of(cls, name: str, lines: Iterable[bytes]) -> Recording:
        """Decode the lines of a trace; ``name`` stands for their source in errors.

        Raises:
            BadInputError: A line does not belong in a trace; the message names the line.
        """
        header: dict[str, Any] = {}
        trailer: dict[str, Any] = {}
        events: list[Event] = []
        nodes = 0
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            where = f"{name}, line {number}"
            if trailer:
                raise BadInputError(f"{where}: something follows the trailer")
            if not header:
                header = _read_header(where, line)
                nodes = len(header["nodes"])
                continue
            if line.startswith(b'{"k":"end"'):
                trailer = _header.decode(line)
                continue
            try:
                event = cls.event_of(line)
            except msgspec.MsgspecError as error:
                raise BadInputError(f"{where}: no event of a trace: {error}") from None
            if not 0 <= event.n < nodes:
                raise BadInputError(f"{where}: node {event.n} is none of the header's {nodes}")
            events.append(event)
        if not header:
            raise BadInputError(f"{name}: it is empty; a trace begins with its header")
        return cls(header=header, events=tuple(events), trailer=trailer)


def _read_header(where: str, line: bytes) -> dict[str, Any]:
    try:
        header = _header.decode(line)
    except msgspec.MsgspecError as error:
        raise BadInputError(f"{where}: a trace begins with its header: {error}") from None
    if header.get("k") != "run" or not isinstance(header.get("nodes"), list):
        raise BadInputError(f'{where}: a trace begins with its header, {{"k":"run",…}}')
    if header.get("schema") not in SCHEMAS:
        known_schemas = " and ".join(map(str, SCHEMAS))
        raise BadInputError(
            f"{where}: schema {header.get('schema')} is unknown here, only {known_schemas}"
        )
    return header
