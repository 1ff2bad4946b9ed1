"""Reads a trace from a file or from the control port: header, events, trailer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
        return _nodes_of(self.header)

    @property
    def level(self) -> str:
        """Trace level; an old file without one counts as ``full``."""
        return _level_of(self.header)

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
        stream = RecordingStream(source_name, event_lines)
        events = tuple(stream.events())
        return cls(header=stream.header, events=events, trailer=stream.trailer)


class RecordingStream:
    """A trace that is read event by event, and need not fit into memory."""

    def __init__(self, source_name: str, lines: Iterable[bytes]) -> None:
        """Read the header.

        Args:
            source_name: Stands for the trace in errors.
            lines: The lines of the trace.

        Raises:
            BadInputError: There is none, or the first line is no header of a trace.
        """
        self._source_name = source_name
        self._numbered_lines = (
            (line_number, line) for line_number, line in enumerate(lines, 1) if line.strip()
        )
        line_number, header_line = next(self._numbered_lines, (0, b""))
        if not header_line:
            raise BadInputError(f"{source_name}: it is empty; a trace begins with its header")
        self.header: Final = _read_header(f"{source_name}, line {line_number}", header_line)
        self.nodes: Final = _nodes_of(self.header)
        self.level: Final = _level_of(self.header)
        self.trailer: dict[str, Any] = {}
        """Empty until all events are read, and if the trace has none."""

    def events(self) -> Iterator[Event]:
        """The events, once.

        Raises:
            BadInputError: A line does not belong in a trace; the message names the line.
        """
        node_count = len(self.header["nodes"])
        for line_number, line in self._numbered_lines:
            line_label = f"{self._source_name}, line {line_number}"
            if self.trailer:
                raise BadInputError(f"{line_label}: something follows the trailer")
            if line.startswith(b'{"k":"end"'):
                self.trailer = _read_trailer(line_label, line)
                continue
            try:
                event = Recording.decode_event(line)
            except (msgspec.MsgspecError, RecursionError) as error:  # nested too deeply
                raise BadInputError(f"{line_label}: no event of a trace: {error}") from None
            if not 0 <= event.n < node_count:
                raise BadInputError(
                    f"{line_label}: node {event.n} is none of the header's {node_count}"
                )
            yield event


def _nodes_of(header: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(header["nodes"])


def _level_of(header: Mapping[str, Any]) -> str:
    return str(header.get("level", "full"))


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
