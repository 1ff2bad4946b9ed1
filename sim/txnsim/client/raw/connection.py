"""One connection to a broker, frame by frame: any request in any version, good or bad.

A client library would choose versions, retry and hide answers; comparing brokers needs every frame
as it is. Messages are built from plain values by field name (``wire.plain_values``).
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from enum import Enum
from types import TracebackType
from typing import Any, Final, Self, cast
from uuid import UUID

from txnsim.client.authentication import Authentication, ClientSecurity
from txnsim.client.errors import AuthenticationError, ClientError
from txnsim.client.versions import VersionedRequest
from txnsim.runtime.blocking_world import BlockingConnection, RealWorld, playing_in, world
from txnsim.runtime.rng import random_hex
from txnsim.runtime.tls import client_context
from txnsim.runtime.wall_clock import wall_ms
from txnsim.wire import codec
from txnsim.wire.plain_values import message_from, refuse_unknown
from txnsim.wire.registry import versions

_AUTHENTICATE: Final = 1
"""SaslHandshake version from which tokens are sent in requests, and SaslAuthenticate version that
has the session's lifetime.
"""
_ANSWER_TIMEOUT_S: Final = 20.0
_SILENCE_S: Final = 0.7
_PIECE_BYTES: Final = 1 << 16
_PIECE_BYTES_MAX: Final = 1 << 20
_FRAME_BYTES_MAX: Final = 1 << 28
"""Largest answer that is read; a broker's fetch.max.bytes is a fifth of it."""


class NoAnswer(Enum):
    """What a broker may do instead of sending an answer."""

    CLOSED = "the connection was closed"
    SILENT = "no answer, the connection stays"


class RawConnection:
    """A blocking connection; ``ask`` sends one request and reads its answer."""

    def __init__(
        self,
        address: str,
        *,
        client_id: str | None = "differ",
        answer_timeout_s: float = _ANSWER_TIMEOUT_S,
        line: BlockingConnection | None = None,
        client_instance_id: UUID | None = None,
    ) -> None:
        """Connect.

        Args:
            address: ``host:port`` of the broker.
            client_id: The client id of every request.
            answer_timeout_s: How long an answer is waited for.
            line: An open connection to use instead.
            client_instance_id: The client instance id of every request with header v3 (KIP-1313).
        """
        host, port = address.rsplit(":", 1)
        self._answer_timeout_s = answer_timeout_s
        self._socket = line or world().connect(host, int(port), timeout_s=answer_timeout_s)
        self._correlation_id = 0
        self._client_id = client_id
        self.client_instance_id = client_instance_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    @staticmethod
    def check(api_key: int, values: Mapping[str, Any]) -> None:
        """Refuse a field that no version of the request has.

        Raises:
            TypeError: The error names the field and the known fields.
        """
        refuse_unknown(codec.request_class(api_key, versions(api_key)[-1]), values)

    @staticmethod
    def reaching(security: ClientSecurity) -> AbstractContextManager[None]:
        """Inside, connections of this thread are encrypted and authenticated as given.

        Raises:
            ConfigError: A certificate of the client is invalid.
        """
        return playing_in(_SecuredWorld(security))

    @staticmethod
    def now_s() -> float:
        """The current time of the connection's world (real or virtual), for deadlines."""
        return world().monotonic_s()

    @staticmethod
    def pause(seconds: float) -> None:
        """Let time pass in the connection's world."""
        world().sleep(seconds)

    @staticmethod
    def age(transactional_id: str, epoch: int) -> bool:
        """Set the epoch of an idle transactional id; False if only requests can get it there."""
        return world().age(transactional_id, epoch)

    def close(self) -> None:
        self._socket.close()

    def ask(self, api_key: int, api_version: int, **values: Any) -> Any:
        """Send one request; returns its decoded answer, or what happened instead."""
        try:
            self.send(api_key, api_version, **values)
        except ConnectionError:  # closed since the last answer: sending or receiving tells it first
            return NoAnswer.CLOSED
        return self.receive(api_key, api_version)

    def send(self, api_key: int, api_version: int, **values: Any) -> None:
        """Send one request without waiting."""
        message_class = codec.request_class(api_key, api_version)
        self.send_message(api_key, api_version, message_from(message_class, values))

    def send_message(self, api_key: int, api_version: int, message: Any) -> None:
        """Send a request that is already built."""
        self._correlation_id += 1
        self._socket.sendall(
            codec.encode_request(
                api_key,
                api_version,
                self._correlation_id,
                self._client_id,
                message,
                self.client_instance_id,
            )
        )

    def receive(self, api_key: int, api_version: int) -> Any:
        """The next frame, decoded as the answer of that API and version.

        Raises:
            ClientError: It is the answer to another request.
            MalformedFrameError: It can't be read.
        """
        frame = self.receive_frame()
        if isinstance(frame, NoAnswer):
            return frame
        correlation_id, message = codec.read_response(api_key, api_version, frame)
        if correlation_id != self._correlation_id:
            raise ClientError(
                f"the answer is to request {correlation_id}, and request {self._correlation_id} was"
                " the last one"
            )
        return message

    def ask_often(
        self, api_key: int, api_version: int, request_count: int, **values: Any
    ) -> Iterator[Any]:
        """Send one request many times at once; yields the answers, the last one first."""
        message_class = codec.request_class(api_key, api_version)
        message = message_from(message_class, values)
        frame = codec.encode_request(
            api_key,
            api_version,
            self._correlation_id,
            self._client_id,
            message,
            self.client_instance_id,
        )
        self.send_bytes(frame * request_count)
        for answer in reversed(self._receive_frames(request_count)):
            yield codec.read_response(api_key, api_version, answer)[1]

    def _receive_frames(self, frame_count: int) -> list[bytes]:
        """Read a number of frames in large pieces."""
        self._socket.settimeout(self._answer_timeout_s)
        received_bytes = bytearray()
        frames: list[bytes] = []
        frame_start = 0
        while len(frames) < frame_count:
            while len(received_bytes) - frame_start >= 4:
                frame_end = (
                    frame_start
                    + 4
                    + int.from_bytes(received_bytes[frame_start : frame_start + 4], "big")
                )
                if len(received_bytes) < frame_end:
                    break
                frames.append(bytes(received_bytes[frame_start + 4 : frame_end]))
                frame_start = frame_end
            if len(frames) < frame_count:
                received_piece = self._socket.recv(_PIECE_BYTES)
                assert received_piece, "the connection was closed between answers"
                received_bytes += received_piece
        assert frame_start == len(received_bytes), "more answers than requests"
        return frames

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def receive_frame(self, *, timeout_s: float | None = None) -> bytes | NoAnswer:
        """The next frame, or what happened instead."""
        self._socket.settimeout(self._answer_timeout_s if timeout_s is None else timeout_s)
        try:
            length_bytes = self._read_bytes(4)
            if len(length_bytes) < 4:
                return NoAnswer.CLOSED
            frame_length = struct.unpack(">i", length_bytes)[0]
            if frame_length > _FRAME_BYTES_MAX:
                return NoAnswer.CLOSED  # no broker of Kafka's: nothing behind it can be read
            frame = self._read_bytes(frame_length)
        except TimeoutError:
            return NoAnswer.SILENT
        except ConnectionError:
            return NoAnswer.CLOSED
        return frame if len(frame) == frame_length else NoAnswer.CLOSED

    def silence(self) -> bytes | NoAnswer:
        """What arrives within a short while, when nothing or the end of the connection is
        expected.
        """
        return self.receive_frame(timeout_s=_SILENCE_S)

    def _read_bytes(self, byte_count: int) -> bytes:
        received_pieces = []
        while byte_count > 0:
            piece = self._socket.recv(min(byte_count, _PIECE_BYTES_MAX))
            if not piece:
                break
            received_pieces.append(piece)
            byte_count -= len(piece)
        return b"".join(received_pieces)


class _SecuredWorld(RealWorld):
    """The real world, with connections that are encrypted and authenticated before use.

    Args:
        security: The way to reach the brokers.

    Raises:
        ConfigError: A certificate of the client is invalid.
    """

    def __init__(self, security: ClientSecurity) -> None:
        self._security = security
        self._tls = client_context(security.tls) if security.protocol.has_tls else None

    def connect(self, host: str, port: int, *, timeout_s: float) -> BlockingConnection:
        """Open a connection.

        Raises:
            AuthenticationError: The broker refuses the login, or its certificate is not trusted.
        """
        socket_line: Any = super().connect(host, port, timeout_s=timeout_s)
        try:
            if self._tls is not None:
                socket_line = self._tls.wrap_socket(socket_line, server_hostname=host)
            if self._security.protocol.has_sasl:
                self._log_in(socket_line, f"{host}:{port}")
        except ssl.SSLError as error:
            socket_line.close()
            raise AuthenticationError(f"TLS with {host}:{port}: {error}") from error
        except BaseException:
            socket_line.close()
            raise
        return cast("BlockingConnection", socket_line)

    def _log_in(self, socket_line: BlockingConnection, address: str) -> None:
        login = Authentication(self._security, now_ms=wall_ms(), nonce=random_hex())
        raw_connection = RawConnection(address, line=socket_line)
        request: VersionedRequest | None = login.handshake()
        while request is not None:
            message = request.build(codec.request_schema(request.api, _AUTHENTICATE))
            raw_connection.send_message(request.api, _AUTHENTICATE, message)
            answer = raw_connection.receive(request.api, _AUTHENTICATE)
            if isinstance(answer, NoAnswer):
                raise AuthenticationError(f"at the login: {answer.value}")
            request = login.take(answer)
