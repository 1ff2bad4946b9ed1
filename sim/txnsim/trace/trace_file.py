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
_header_decoder: Final = msgspec.json.Decoder(dict[str, Any])
_decode_event: Final = msgspec.json.Decoder(Event).decode
_event_encoder: Final = msgspec.json.Encoder()


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
        return encode(self.header) + b"\n" + _event_encoder.encode_lines(self.events) + trailer

    def events_through(self, last_index: int | None) -> tuple[Event, ...]:
        """The events up to and including the one with index ``last_index``; all events if it is
        None.

        Raises:
            BadInputError: There is no such event.
        """
        if last_index is None:
            return self.events
        events = tuple(event for event in self.events if event.i <= last_index)
        if not events or events[-1].i != last_index:
            first_index, newest_index = (
                (self.events[0].i, self.events[-1].i) if self.events else (0, -1)
            )
            raise self.missing_event_error(last_index, first_index, newest_index)
        return events

    @staticmethod
    def missing_event_error(event_index: int, first_index: int, last_index: int) -> BadInputError:
        """The error for an event index that the trace does not have."""
        return BadInputError(
            f"there is no event {event_index}: the trace has {first_index} to {last_index}"
        )

    @staticmethod
    def decode_event(line: bytes) -> Event:
        """Decode the event of a line that a tracer has written."""
        return _decode_event(line)

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Read a trace file.

        Raises:
            BadInputError: The file can't be read, or a line does not belong in a trace; the message
                names the line.
        """
        try:
            with path.open("rb") as file:
                return cls.from_lines(str(path), lines_of(file))
        except OSError as error:
            raise BadInputError(f"{path}: {problem_of(error)}") from None

    @classmethod
    def from_lines(cls, source_name: str, event_lines: Iterable[bytes]) -> Recording:
        """Decode the lines of a trace; ``source_name`` stands for their source in errors.

        Raises:
            BadInputError: A line does not belong in a trace; the message names the line.
        """
        header: dict[str, Any] = {}
        trailer: dict[str, Any] = {}
        events: list[Event] = []
        node_count = 0
        for line_number, line in enumerate(event_lines, 1):
            if not line.strip():
                continue
            line_label = f"{source_name}, line {line_number}"
            if trailer:
                raise BadInputError(f"{line_label}: something follows the trailer")
            if not header:
                header = _read_header(line_label, line)
                node_count = len(header["nodes"])
                continue
            if line.startswith(b'{"k":"end"'):
                trailer = _read_trailer(line_label, line)
                continue
            try:
                event = cls.decode_event(line)
            except (msgspec.MsgspecError, RecursionError) as error:  # nested too deeply
                raise BadInputError(f"{line_label}: no event of a trace: {error}") from None
            if not 0 <= event.n < node_count:
                raise BadInputError(
                    f"{line_label}: node {event.n} is none of the header's {node_count}"
                )
            events.append(event)
        if not header:
            raise BadInputError(f"{source_name}: it is empty; a trace begins with its header")
        return cls(header=header, events=tuple(events), trailer=trailer)


def _read_trailer(line_label: str, line: bytes) -> dict[str, Any]:
    try:
        return _header_decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadInputError(f"{line_label}: no trailer of a trace: {error}") from None


def _read_header(line_label: str, line: bytes) -> dict[str, Any]:
    try:
        header = _header_decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:  # nested too deeply
        raise BadInputError(f"{line_label}: a trace begins with its header: {error}") from None
    if header.get("k") != "run" or not isinstance(header.get("nodes"), list):
        raise BadInputError(f'{line_label}: a trace begins with its header, {{"k":"run",…}}')
    if header.get("schema") not in SCHEMAS:
        known_schemas = " and ".join(map(str, SCHEMAS))
        raise BadInputError(
            f"{line_label}: schema {header.get('schema')} is unknown here, only {known_schemas}"
        )
    return header
