"""Encodes and decodes Kafka messages: request headers, request and response bodies, whole frames.

Schemas come from kio (or ``wire.messages``, where kio has none), one class per API and version,
loaded on first use. The encodings are Kafka's, including its two exceptions: the client id in a
header always has the old string encoding, and an ApiVersions response always has header v0
(``ApiMessageType.responseHeaderVersion``). Bytes after the end of a body are ignored, as a broker
does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from io import BytesIO
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from types import ModuleType
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from txnsim.errors import MalformedFrameError, UnsupportedRequestError
from txnsim.wire import registry
from txnsim.wire.apis import (
    API_VERSIONS,
    FLEXIBLE_FROM,
    HEADER_V3_FROM,
    NEVER,
    RESPONSE_HEADER_V1_FROM,
    api_name,
    is_flexible,
)
from txnsim.wire.decoder import DecodeFaultError, Reader, read_in_steps, reader
from txnsim.wire.encoder import maker, write_in_steps, writer
from txnsim.wire.varint import read_uvarint

_READ_REQUEST_HEADER: Final = Struct(">hhih").unpack_from
_PACK_RESPONSE_HEAD_V0: Final = Struct(">ii").pack
_PACK_RESPONSE_HEAD_V1: Final = Struct(">iix").pack
_REQUEST_HEAD: Final = Struct(">ihhih")
_CORRELATION_ID: Final = Struct(">i")
HEADER_TAGS_MAX: Final = 1_000
"""Most tagged fields in the header of a request; Kafka has one, from header v3 on."""
_CLIENT_INSTANCE_ID_TAG: Final = 0
_UUID_BYTES: Final = 16


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """A request's header; the body starts at ``body_offset`` of the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int
    client_instance_id: UUID | None = None
    """In header v3 only. None if the client left it out, which an id of zeros says as well."""


# Headers


def read_request_header(frame: bytes) -> RequestHeader:
    """Read header v1, or v2 or v3 if the request is flexible.

    Unknown versions are read like the newest one. Unknown API keys are read as v1: the caller
    decides whether a handler exists.

    Raises:
        MalformedFrameError: The frame is too short, or its tagged fields are malformed.
    """
    try:
        api_key, api_version, correlation_id, length = _READ_REQUEST_HEADER(frame)
    except StructError:
        raise MalformedFrameError(
            f"request header: {len(frame)} bytes are fewer than the smallest header of 10"
        ) from None
    position = 10
    client_id: str | None = None
    if length >= 0:
        position += length
        if position > len(frame):
            raise MalformedFrameError(
                f"request header of {api_name(api_key)} v{api_version}: client id of {length} bytes"
                f" at byte 10 ends after the frame of {len(frame)} bytes"
            )
        client_id = frame[10:position].decode("utf-8", "replace")
    if api_version >= FLEXIBLE_FROM.get(api_key, NEVER):
        if position < len(frame) and frame[position] == 0:
            position += 1
        else:
            tag_start = position
            position = _skip_tags(frame, tag_start)
            if api_version >= HEADER_V3_FROM.get(api_key, NEVER):
                client_instance_id = _client_instance_id(frame, tag_start)
                return RequestHeader(
                    api_key, api_version, correlation_id, client_id, position, client_instance_id
                )
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def _client_instance_id(frame: bytes, position: int) -> UUID | None:
    """The client instance id among the tagged fields at ``position``, which are sound; None if
    there is none.

    Raises:
        MalformedFrameError: It has another size than a UUID.
    """
    tag_count, position = read_uvarint(frame, position)
    for _ in range(tag_count):
        tag, position = read_uvarint(frame, position)
        tag_size, position = read_uvarint(frame, position)
        if tag == _CLIENT_INSTANCE_ID_TAG:
            if tag_size != _UUID_BYTES:
                raise MalformedFrameError(
                    f"header: client instance id of {tag_size} bytes at byte {position}"
                )
            client_instance_id = UUID(bytes=frame[position : position + _UUID_BYTES])
            return client_instance_id if client_instance_id.int else None
        position += tag_size
    return None


def _skip_tags(frame: bytes, position: int) -> int:
    """Skip the tagged fields of a header (KIP-482)."""
    try:
        tag_count, position = read_uvarint(frame, position)
        if tag_count > HEADER_TAGS_MAX:
            raise ValueError(f"{tag_count} of them, more than {HEADER_TAGS_MAX}")
        for _ in range(tag_count):
            _, position = read_uvarint(frame, position)
            tag_size, position = read_uvarint(frame, position)
            position += tag_size
    except (IndexError, ValueError) as error:
        raise MalformedFrameError(f"header: tagged fields at byte {position}: {error}") from None
    if position > len(frame):
        raise MalformedFrameError(
            f"header: tagged fields end at byte {position}, the frame has {len(frame)} bytes"
        )
    return position


# Schemas

_request_classes: dict[tuple[int, int], Any] = {}
_response_classes: dict[tuple[int, int], Any] = {}


def request_schema(api_key: int, api_version: int) -> ModuleType:
    """The module with the classes of a request: the message itself and its parts.

    Raises:
        UnsupportedRequestError: There is no such API key or version.
    """
    return registry.load_schema(api_key, api_version, part="request")


def response_schema(api_key: int, api_version: int) -> ModuleType:
    """The module with the classes of a response: the message itself and its parts.

    Raises:
        UnsupportedRequestError: There is no such API key or version.
    """
    return registry.load_schema(api_key, api_version, part="response")


def request_class(api_key: int, api_version: int) -> Any:
    """The class of a request.

    Raises:
        UnsupportedRequestError: There is no such API key or version.
    """
    message_class = _request_classes.get((api_key, api_version))
    if message_class is None:
        message_class = getattr(request_schema(api_key, api_version), api_name(api_key) + "Request")
        _request_classes[api_key, api_version] = message_class
    return message_class


def response_class(api_key: int, api_version: int) -> Any:
    """The class of a response.

    Raises:
        UnsupportedRequestError: There is no such API key or version.
    """
    message_class = _response_classes.get((api_key, api_version))
    if message_class is None:
        message_class = getattr(
            response_schema(api_key, api_version), api_name(api_key) + "Response"
        )
        _response_classes[api_key, api_version] = message_class
    return message_class


# Bodies

REQUEST_ELEMENTS_MAX: Final = 20_000
"""Most elements in all arrays of a request; a request with more can't be read.

Kafka has no such limit; it limits what most of them could ask for (10,000 new partitions).
"""
COUNTED_FROM_BYTES: Final = REQUEST_ELEMENTS_MAX
"""Size of a frame from which elements are counted: a smaller one can't have too many, as an element
takes at least a byte.
"""

T = TypeVar("T")
Decoding = Generator[int, None, Any]
"""Decodes a message in steps; yields the number of elements since the last step."""

_request_readers: dict[tuple[int, int], Reader] = {}
_message_makers: dict[Any, Callable[..., Any]] = {}


def decode_request(header: RequestHeader, frame: bytes) -> Any:
    """Decode a request's body.

    An ApiVersions request of an unknown version is answered without reading its body: it is decoded
    as version 0, which has none.

    Raises:
        MalformedFrameError: The body does not fit its API and version.
        UnsupportedRequestError: There is no such API key or version.
    """
    if len(frame) > COUNTED_FROM_BYTES:
        return run_to_end(decode_in_steps(header, frame))
    read = _request_readers.get((header.api_key, header.api_version))
    if read is None:
        read = _request_reader(header)
    try:
        return read(frame, header.body_offset, len(frame))[0]
    except DecodeFaultError as fault:
        raise _malformed_frame(header, frame, fault) from None


def decode_in_steps(header: RequestHeader, frame: bytes, layout_class: Any = None) -> Decoding:
    """Do the same as ``decode_request`` for a large request, in slices.

    Args:
        header: The request's header.
        frame: The whole frame.
        layout_class: The message class to use instead of the one of the request's version.
    """
    try:
        cls = layout_class or _request_class(header)
        return (
            yield from read_in_steps(
                cls, frame, header.body_offset, elements_max=REQUEST_ELEMENTS_MAX
            )
        )
    except DecodeFaultError as fault:
        raise _malformed_frame(header, frame, fault) from None


def run_to_end(steps: Generator[int, None, T]) -> T:
    """Run the steps to their end without breaks; returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


def _malformed_frame(
    header: RequestHeader, frame: bytes, fault: DecodeFaultError
) -> MalformedFrameError:
    return MalformedFrameError(
        f"{api_name(header.api_key)} v{header.api_version} request, byte {fault.position} of"
        f" {len(frame)}: {fault}"
    )


def _request_reader(header: RequestHeader) -> Reader:
    read = reader(_request_class(header))
    api_and_version = header.api_key, header.api_version
    # No others: a client could fill the cache with versions.
    if api_and_version in _request_classes:
        _request_readers[api_and_version] = read
    return read


def _request_class(header: RequestHeader) -> Any:
    try:
        return request_class(header.api_key, header.api_version)
    except UnsupportedRequestError:
        if header.api_key != API_VERSIONS:
            raise
        return request_class(API_VERSIONS, 0)


def build(cls: Any, **field_values: object) -> Any:
    """Make a message; values for which this version has no field are left out.

    Durations and times may be given in integer milliseconds, error codes as integers.

    Raises:
        TypeError: A field without default is missing, or no version of this class has a field of
            that name.
    """
    make_message = _message_makers.get(cls)
    if make_message is None:
        make_message = builder(cls)
    return make_message(**field_values)


def builder(cls: Any) -> Callable[..., Any]:
    """The function that ``build`` uses for one class; callers on hot paths keep it."""
    make_message = _message_makers.get(cls)
    if make_message is None:
        make_message = _message_makers[cls] = maker(cls, registry.check_known)
    return make_message


def encode_body(message: Any) -> bytes:
    """Encode a request or response body."""
    return b"".join(encode_pieces(message))


def encode_in_steps(message: Any, pieces: list[bytes]) -> Generator[int, None, None]:
    """Encode a body into ``pieces``, in slices; yields the number of encoded elements."""
    return write_in_steps(message, pieces.append)


def encode_pieces(message: Any) -> list[bytes]:
    """Encode a body in pieces, with large fields as they are: for callers that can send pieces
    unjoined.
    """
    pieces: list[bytes] = []
    writer(message.__class__)(message, pieces.append)
    return pieces


# Whole frames


class _ResponseHeads(dict[tuple[int, int], tuple[Callable[[int, int], bytes], int]]):
    """(API key, version) -> (function that packs size and correlation id, number of header bytes
    that count into the size).
    """

    def __missing__(
        self, api_and_version: tuple[int, int]
    ) -> tuple[Callable[[int, int], bytes], int]:
        api_key, api_version = api_and_version
        has_tags = api_version >= RESPONSE_HEADER_V1_FROM.get(api_key, NEVER)
        head_packer = self[api_and_version] = (
            (_PACK_RESPONSE_HEAD_V1, 5) if has_tags else (_PACK_RESPONSE_HEAD_V0, 4)
        )
        return head_packer


RESPONSE_HEADS: Final = _ResponseHeads()


def response_head(api_key: int, api_version: int, correlation_id: int, body_size: int) -> bytes:
    """Encode the size field and the header of a response: the bytes before a body of ``body_size``
    bytes.

    For large bodies: head and body can be passed to ``writelines`` without joining them.
    """
    pack_head, header_bytes = RESPONSE_HEADS[api_key, api_version]
    return pack_head(body_size + header_bytes, correlation_id)


def frame_response(api_key: int, api_version: int, correlation_id: int, body: bytes) -> bytes:
    """A whole response from an encoded body: size field, header, body."""
    return response_head(api_key, api_version, correlation_id, len(body)) + body


def frame_message(api_key: int, api_version: int, correlation_id: int, message: Any) -> bytes:
    """A whole response from a message that is not encoded yet."""
    return frame_response(api_key, api_version, correlation_id, encode_body(message))


def encode_request(
    api_key: int,
    api_version: int,
    correlation_id: int,
    client_id: str | None,
    message: Any,
    client_instance_id: UUID | None = None,
) -> bytes:
    """A whole request: size field, header, body. Headers before v3 leave the instance id out."""
    body = encode_body(message)
    client_id_bytes = b"" if client_id is None else client_id.encode()
    header_tags = b"\0" if is_flexible(api_key, api_version) else b""
    if client_instance_id is not None and api_version >= HEADER_V3_FROM.get(api_key, NEVER):
        header_tags = bytes((1, _CLIENT_INSTANCE_ID_TAG, _UUID_BYTES)) + client_instance_id.bytes
    request_head = _REQUEST_HEAD.pack(
        10 + len(client_id_bytes) + len(header_tags) + len(body),
        api_key,
        api_version,
        correlation_id,
        -1 if client_id is None else len(client_id_bytes),
    )
    return request_head + client_id_bytes + header_tags + body


def read_response(api_key: int, api_version: int, frame: bytes) -> tuple[int, Any]:
    """Decode the response to a request of that API and version.

    Returns:
        Correlation id and message.

    Raises:
        MalformedFrameError: The frame does not fit its API and version.
        UnsupportedRequestError: There is no such API key or version.
    """
    if len(frame) < 4:
        raise MalformedFrameError(f"response of {len(frame)} bytes has no correlation id")
    position = 4
    if api_version >= RESPONSE_HEADER_V1_FROM.get(api_key, NEVER):
        position = _skip_tags(frame, position)
    read = reader(response_class(api_key, api_version))
    try:
        message, _ = read(frame, position, len(frame))
    except DecodeFaultError as fault:
        raise MalformedFrameError(
            f"{api_name(api_key)} v{api_version} response, byte {fault.position} of {len(frame)}:"
            f" {fault}"
        ) from None
    correlation_id: int = _CORRELATION_ID.unpack_from(frame)[0]
    return correlation_id, message


# Frames: four bytes of size, then that many (NetworkReceive)

_READ_SIZE: Final = Struct(">i").unpack_from
_SIZE_BYTES: Final = 4
_TLS_HANDSHAKE_START: Final = b"\x16\x03"
"""First bytes of a TLS ClientHello: a record of type "handshake" of TLS 1.x."""
_HTTP_STARTS: Final = (
    b"GET ",
    b"POST",
    b"PUT ",
    b"HEAD",
    b"DELE",
    b"OPTI",
    b"PATC",
    b"CONN",
    b"PRI ",
)
"""First bytes of an HTTP request."""


class FrameReader:
    """Cuts the byte stream of one connection into frames.

    At most one frame is being assembled at a time, in a ``BytesIO``: it grows with the data that
    arrives, so that nothing is reserved for a frame before its bytes are there, and it returns its
    content without another copy. A size above ``limit`` is refused as soon as its four bytes are
    read.
    """

    __slots__ = ("_assembled", "_missing_bytes", "_size_bytes", "buffered_bytes", "limit")

    def __init__(self, frame_bytes_max: int) -> None:
        self.limit = frame_bytes_max
        """Largest accepted frame from now on, in bytes (``socket.request.max.bytes``, or
        ``sasl.server.max.receive.size`` before the client has logged in).
        """
        self._size_bytes = b""
        """The first bytes of an incomplete size field."""
        self._assembled = BytesIO()
        """The received part of an incomplete frame."""
        self.buffered_bytes = 0
        """Number of received bytes that belong to an incomplete frame."""
        self._missing_bytes = 0
        """Number of bytes that the incomplete frame still needs; 0 between frames."""

    def receive_data(self, data: bytes) -> list[bytes]:
        """Takes data from the connection.

        Returns:
            The frames that are complete now, in order, without their size fields.

        Raises:
            MalformedFrameError: A size is negative or above the limit. The stream can't be read any
                further.
        """
        frames: list[bytes] = []
        position = 0
        if self._missing_bytes:
            position = self._missing_bytes
            if len(data) < position:
                self._store_piece(data)
                return frames
            self._assembled.write(memoryview(data)[:position])
            frames.append(self._assembled.getvalue())
            self._assembled = BytesIO()
            self._missing_bytes = self.buffered_bytes = 0
        elif self._size_bytes:
            data = self._size_bytes + data
            self._size_bytes = b""
            self.buffered_bytes = 0
        data_end = len(data)
        while data_end - position >= _SIZE_BYTES:
            frame_size = _READ_SIZE(data, position)[0]
            if frame_size < 0 or frame_size > self.limit:
                protocol_remark = _no_kafka(data[position : position + _SIZE_BYTES])
                raise MalformedFrameError(
                    f"frame size {frame_size} is outside 0..{self.limit}{protocol_remark}"
                )
            frame_start = position + _SIZE_BYTES
            position = frame_start + frame_size
            if position > data_end:
                self._missing_bytes = frame_size
                self.buffered_bytes = _SIZE_BYTES
                self._store_piece(memoryview(data)[frame_start:])
                return frames
            frames.append(data[frame_start:position])
        self._size_bytes = data[position:]
        self.buffered_bytes = data_end - position
        return frames

    def forget(self) -> None:
        """Drop the data of a frame that will never be complete."""
        self._assembled = BytesIO()
        self._size_bytes = b""
        self._missing_bytes = self.buffered_bytes = 0

    def _store_piece(self, piece: bytes | memoryview) -> None:
        self.buffered_bytes += len(piece)
        self._missing_bytes -= len(piece)
        self._assembled.write(piece)


def _no_kafka(first_bytes: bytes) -> str:
    """Says which protocol a peer seems to use, if its first bytes are no size; else empty."""
    if first_bytes.startswith(_TLS_HANDSHAKE_START):
        return " (so TLS begins, at a listener in clear)"
    if first_bytes in _HTTP_STARTS:
        return " (so HTTP begins: this is a Kafka listener, the control port has another address)"
    return ""
