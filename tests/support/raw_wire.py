"""One connection to a broker, frame by frame: any request in any version, good or bad.

A client library would choose versions, retry and hide answers; comparing brokers needs every frame
as it is. Messages are built from plain values by field name: values that a version has no field for
are left out, fields that are not given get zero, empty or the schema's default.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final

from tests.support.lived import Lived
from tests.support.world import world
from txnsim.wire import codec
from txnsim.wire._schema import ENTITY, REQUIRED, FieldRow, describe
from txnsim.wire.messages.write_txn_markers_kip_664 import WriteTxnMarkersRequest
from txnsim.wire.registry import versions

Values = dict[str, Any]

_ANSWER_TIMEOUT_S: Final = 20.0
_SILENCE_S: Final = 0.7
_PIECE_BYTES: Final = 1 << 16
_ZEROS: Final[dict[str, object]] = {"string": "", "bool": False, "bytes": b"", "records": b""}


class Outcome(Enum):
    """What a broker may do instead of answering."""

    CLOSED = "the connection was closed"
    SILENT = "no answer, the connection stays"


class RawConnection(Lived):
    """A blocking connection; ``ask`` sends one request and reads its answer."""

    def __init__(
        self,
        address: str,
        *,
        client_id: str | None = "differ",
        answer_timeout_s: float = _ANSWER_TIMEOUT_S,
    ) -> None:
        host, port = address.rsplit(":", 1)
        self._answer_timeout_s = answer_timeout_s
        self._socket = world().connect(host, int(port), timeout_s=answer_timeout_s)
        self._correlation_id = 0
        self._client_id = client_id

    def _left(self, exc: BaseException | None) -> None:
        self._socket.close()

    def ask(self, api_key: int, api_version: int, **values: Any) -> Any:
        """Send one request; its decoded answer, or what happened instead."""
        try:
            self.send(api_key, api_version, **values)
        except ConnectionError:  # closed since the last answer: sending or receiving tells it first
            return Outcome.CLOSED
        return self.receive(api_key, api_version)

    def send(self, api_key: int, api_version: int, **values: Any) -> None:
        """Send one request without waiting."""
        self._correlation_id += 1
        cls = codec.request_class(api_key, api_version)
        self._socket.sendall(
            codec.encode_request(
                api_key,
                api_version,
                self._correlation_id,
                self._client_id,
                message_from(cls, values),
            )
        )

    def receive(self, api_key: int, api_version: int) -> Any:
        """The next frame, decoded as the answer of that API and version."""
        frame = self.receive_frame()
        if isinstance(frame, Outcome):
            return frame
        correlation_id, message = codec.read_response(api_key, api_version, frame)
        assert correlation_id == self._correlation_id
        return message

    def ask_often(self, api_key: int, api_version: int, times: int, **values: Any) -> Iterator[Any]:
        """Send one request many times at once; the answers, the last one first."""
        cls = codec.request_class(api_key, api_version)
        message = message_from(cls, values)
        frame = codec.encode_request(
            api_key, api_version, self._correlation_id, self._client_id, message
        )
        self.send_bytes(frame * times)
        for answer in reversed(self._receive_frames(times)):
            yield codec.read_response(api_key, api_version, answer)[1]

    def _receive_frames(self, count: int) -> list[bytes]:
        """So many frames, read in large pieces."""
        self._socket.settimeout(self._answer_timeout_s)
        data = bytearray()
        frames: list[bytes] = []
        at = 0
        while len(frames) < count:
            while len(data) - at >= 4:
                end = at + 4 + int.from_bytes(data[at : at + 4], "big")
                if len(data) < end:
                    break
                frames.append(bytes(data[at + 4 : end]))
                at = end
            if len(frames) < count:
                piece = self._socket.recv(_PIECE_BYTES)
                assert piece, "the connection was closed between answers"
                data += piece
        assert at == len(data), "more answers than requests"
        return frames

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def receive_frame(self, *, timeout_s: float | None = None) -> bytes | Outcome:
        """The next frame, or what happened instead."""
        self._socket.settimeout(self._answer_timeout_s if timeout_s is None else timeout_s)
        try:
            head = self._read(4)
            if len(head) < 4:
                return Outcome.CLOSED
            size = struct.unpack(">i", head)[0]
            frame = self._read(size)
        except TimeoutError:
            return Outcome.SILENT
        except ConnectionError:
            return Outcome.CLOSED
        return frame if len(frame) == size else Outcome.CLOSED

    def silence(self) -> bytes | Outcome:
        """What comes within a short while where nothing, or the end, is expected."""
        return self.receive_frame(timeout_s=_SILENCE_S)

    def _read(self, size: int) -> bytes:
        pieces = []
        while size > 0:
            piece = self._socket.recv(size)
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


_described = cache(describe)


def message_from(cls: Any, values: Values) -> Any:
    """A message of that class from plain values; dicts become the classes of their fields.

    Raises:
        TypeError: No version of the message has a field of that name there.
    """
    refuse_unknown(cls, values)
    return _made(cls, values)


def refuse_unknown(cls: Any, values: Mapping[str, Any]) -> None:
    """Refuse a field that no version of the message has: a slip of the pen would be left out.

    Raises:
        TypeError: With the field and those that there are.
    """
    _refuse((cls, *_siblings(cls)), values, cls.__name__)


@cache
def _siblings(cls: Any) -> tuple[Any, ...]:
    """The message in every version that there is, and in the layout of KIP-664."""
    is_request = cls.__header_schema__.__name__ == "RequestHeader"
    find = codec.request_class if is_request else codec.response_class
    by_text = (WriteTxnMarkersRequest,) if cls.__name__ == "WriteTxnMarkersRequest" else ()
    return (*by_text, *(find(cls.__api_key__, one) for one in versions(cls.__api_key__)))


def _refuse(classes: Iterable[Any], values: Mapping[str, Any], place: str) -> None:
    rows: dict[str, list[FieldRow]] = {}
    for cls in classes:
        found = _described(cls)
        for row in (*found.plain, *found.tagged):
            rows.setdefault(row.name, []).append(row)
    for name, value in values.items():
        if name not in rows:
            raise TypeError(f"{place} has no field {name}; it has {', '.join(sorted(rows))}")
        inner = [row.entity for row in rows[name] if row.kind == ENTITY]
        if inner:
            for one in value if isinstance(value, list | tuple) else [value]:
                if isinstance(one, Mapping):
                    _refuse(inner, one, f"{place}.{name}")


def _made(cls: Any, values: Values) -> Any:
    rows = _described(cls)
    fields = {}
    for row in (*rows.plain, *rows.tagged):
        if row.name in values:
            fields[row.name] = _field(row, values[row.name])
        elif row.default is REQUIRED:
            fields[row.name] = _zero(row)
    return codec.build(cls, **fields)


def _field(row: FieldRow, value: Any) -> Any:
    if value is None or row.kind != ENTITY:
        return tuple(value) if row.array and value is not None else value
    if row.array:
        return tuple(_made(row.entity, one) for one in value)
    return _made(row.entity, value)


def _zero(row: FieldRow) -> Any:
    if row.array:
        return ()
    if row.nullable or row.kind == "uuid":
        return None
    return _made(row.entity, {}) if row.kind == ENTITY else _ZEROS.get(row.kind, 0)
