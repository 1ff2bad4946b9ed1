"""One connection to one broker: pipelined requests, each with a timeout.

Requests are pipelined and answers are found by correlation id, so that an answer that a fault
swallowed does not shift the ones behind it. A request without an answer in time closes the
connection, as Kafka's ``NetworkClient`` does: a broker handles the requests of a connection one by
one, and nothing sent after the stuck one would be answered either.

Kafka's counterparts are ``NetworkClient``, ``InFlightRequests`` and ``NodeApiVersions``.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Final, Protocol, cast

import msgspec

from txnsim.client.authentication import RENEWAL_FACTOR, Authentication, ClientSecurity
from txnsim.client.errors import (
    AuthenticationError,
    ClientError,
    ConnectionLostError,
    NotSupportedError,
    RequestTimeoutError,
    code_name,
)
from txnsim.client.requests import versioned_request
from txnsim.client.tracing import ClientTrace, TracedCall
from txnsim.client.versions import (
    ClientApi,
    FinalizedFeatures,
    HandBuiltRequest,
    VersionedRequest,
    VersionRange,
    choose_version,
)
from txnsim.errors import ErrorCode, MalformedFrameError
from txnsim.runtime.environment import Clock, TimerHandle
from txnsim.runtime.rng import random_hex
from txnsim.runtime.trace import NO_CAUSE
from txnsim.text import host_and_port, is_host
from txnsim.wire.apis import api_name
from txnsim.wire.codec import FrameReader, encode_request, read_response, request_schema

FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
"""Largest answer accepted. It is several times ``fetch.max.bytes``, and bounds what a faulty peer
can make us buffer.
"""

_CORRELATION: Final = Struct(">i").unpack_from
_ERROR: Final = Struct(">h").unpack_from


class Dial(Protocol):
    """Opens a transport: ``Network.connect`` of the runtime has this shape."""

    async def __call__(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> Any:
        """Connect, over TLS if given."""


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a client; defaults are those of Kafka's Java clients."""

    client_id: str = "txnsim-client"
    request_timeout_ms: int = 30_000
    """request.timeout.ms: one request and its answer."""
    api_timeout_ms: int = 60_000
    """default.api.timeout.ms, max.block.ms: one operation with all its retries."""
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    connect_timeout_ms: int = 10_000
    """socket.connection.setup.timeout.ms."""
    software_version: str = "unknown"
    """Sent to brokers in ApiVersions (KIP-511)."""
    security: ClientSecurity = ClientSecurity()
    """security.protocol and its settings."""


class _PendingRequest(msgspec.Struct, eq=False):
    """A request without an answer yet."""

    api: int
    version: int
    future: asyncio.Future[Any]
    timer: TimerHandle
    send_event: int = NO_CAUSE
    """Trace index of the event of its sending."""
    call: TracedCall | None = None


async def dial_asyncio(
    host: str,
    port: int,
    factory: Callable[[], asyncio.Protocol],
    *,
    tls: ssl.SSLContext | None = None,
) -> Any:
    """Open a transport with the running loop, real or virtual.

    Raises:
        OSError: Nothing listens there, or it is no host.
    """
    if not is_host(host):  # a broker has told it
        raise OSError(f"{host!r} is no name or address of a host")
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(factory, host, port, ssl=tls)
    return transport


class Connection(asyncio.Protocol):
    """A connection whose versions are negotiated; make one with ``open``."""

    def __init__(
        self,
        address: str,
        *,
        settings: ClientSettings,
        clock: Clock,
        trace: ClientTrace | None = None,
        peer: str = "",
    ) -> None:
        self.address = address
        self._trace = trace or ClientTrace(None, settings.client_id)
        self._peer = peer or address
        """The other end, in the trace."""
        self._line = ""
        """Our own address, by which the peer identifies the connection."""
        self.features = FinalizedFeatures()
        """Finalized features as this connection's last ApiVersions answer has them."""
        self.versions: dict[int, VersionRange] = {}
        """What the broker supports, by API key."""
        self._settings = settings
        self._clock = clock
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._waiting_requests: dict[int, _PendingRequest] = {}
        self._correlation_id = 0
        self._transport: asyncio.WriteTransport | None = None
        self._lost_error: ClientError | None = None
        self._held_frames: list[bytes] | None = None
        """Frames held back during re-authentication; None if there is none."""
        self._renewal_ms: int | None = None
        """Time after which requests wait for a re-authentication; None: no limit."""
        self._closed_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        settings: ClientSettings,
        clock: Clock,
        dial: Dial = dial_asyncio,
        tls: ssl.SSLContext | None = None,
        trace: ClientTrace | None = None,
        peer: str = "",
    ) -> Connection:
        """Connect, negotiate versions, and authenticate if the listener requires it.

        Raises:
            AuthenticationError: TLS or SASL has failed.
            ConnectionLostError: No server listens there, or the connection was cut.
            RequestTimeoutError: No connection or no ApiVersions answer in time.
            NotSupportedError: The broker and we have no version of ApiVersions in common.
        """
        address = host_and_port(host, port)
        connection = cls(address, settings=settings, clock=clock, trace=trace, peer=peer)
        try:
            async with asyncio.timeout(settings.connect_timeout_ms / 1_000):
                await dial(host, port, lambda: connection, tls=tls)
        except TimeoutError as error:
            raise RequestTimeoutError(
                f"no connection to {address} within {settings.connect_timeout_ms} ms",
                error=ErrorCode.request_timed_out,
            ) from error
        except ssl.SSLError as error:
            raise AuthenticationError(f"TLS handshake with {address} failed: {error}") from error
        except OSError as error:
            # asyncio puts words of its own into strerror; a failed name lookup has a negative
            # number.
            errno_value = error.errno or 0
            reason = os.strerror(errno_value) if errno_value > 0 else error.strerror or str(error)
            raise ConnectionLostError(f"can't connect to {address}: {reason}") from error
        try:
            await connection.negotiate()
            if settings.security.protocol.has_sasl:
                await connection.authenticate()
        except BaseException:
            connection.close()
            await connection.wait_closed()
            raise
        return connection

    # Requests

    @property
    def is_usable(self) -> bool:
        """Whether requests can still be sent."""
        return self._lost_error is None

    def send(self, request: VersionedRequest) -> asyncio.Future[Any]:
        """Send now; the future holds the answer's message.

        Raises:
            NotSupportedError: No version fits.
            ConnectionLostError: The connection is closed.
        """
        version = choose_version(
            request.api, self.versions, accepted_versions=request.accepted_versions
        )
        if self._renewal_ms is not None and self._clock.monotonic_ms() >= self._renewal_ms:
            self._renew()
        return self._send_request(request, version)

    async def request(self, request: VersionedRequest) -> Any:
        """Send and await the answer's message.

        Raises:
            NotSupportedError: No version fits.
            ConnectionLostError: The connection was cut before the answer came.
            RequestTimeoutError: No answer in time; the connection is closed.
        """
        return await self.send(request)

    async def ask_in_version(self, api_key: int, version: int, message: Any) -> Any:
        """Send a message of any API in a version of the caller's choice, and await the answer's.

        Raises:
            NotSupportedError: The broker does not have the version.
            ConnectionLostError: The connection was cut before the answer came.
            RequestTimeoutError: No answer in time; the connection is closed.
        """
        broker_versions = self.versions.get(api_key)
        if (
            broker_versions is None
            or not broker_versions.lowest <= version <= broker_versions.highest
        ):
            raise NotSupportedError(
                f"The node does not support version {version} of {api_name(api_key)}",
                error=ErrorCode.unsupported_version,
            )
        return await self._send_request(
            HandBuiltRequest(api=api_key, build=lambda _: message), version
        )

    def _send_request(
        self,
        request: VersionedRequest | HandBuiltRequest,
        version: int,
        *,
        may_overtake: bool = False,
    ) -> asyncio.Future[Any]:
        if self._lost_error is not None or self._transport is None:
            raise ConnectionLostError(
                f"the connection to {self.address} is closed"
            ) from self._lost_error
        message = request.build(request_schema(request.api, version))
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request(
            request.api, version, correlation_id, self._settings.client_id, message
        )
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if request.is_answered:
            timeout_ms = (
                self._settings.request_timeout_ms
                if request.timeout_ms is None
                else request.timeout_ms
            )
            timer = self._clock.call_later(timeout_ms, lambda: self._expire(correlation_id))
            pending_request = _PendingRequest(request.api, version, future, timer)
            self._waiting_requests[correlation_id] = pending_request
        else:
            future.set_result(None)
        if self._trace.on:
            sent_event = self._trace.trace_sent(
                self._line, self._peer, request.api, version, correlation_id, len(frame)
            )
            if request.is_answered:
                pending_request.send_event, pending_request.call = (
                    sent_event,
                    ClientTrace.current_call(),
                )
        if self._held_frames is None or may_overtake:
            self._transport.write(frame)
        else:
            self._held_frames.append(frame)
        return future

    def _expire(self, correlation_id: int) -> None:
        pending_request = self._waiting_requests.pop(correlation_id, None)
        if pending_request is None:
            return
        request_name = api_name(pending_request.api)
        if not pending_request.future.done():
            pending_request.future.set_exception(
                RequestTimeoutError(
                    f"{self.address} did not answer {request_name} in time",
                    error=ErrorCode.request_timed_out,
                )
            )
        self._lose(
            ConnectionLostError(
                f"{self.address} was left: it did not answer {request_name} in time"
            )
        )

    # Versions

    async def negotiate(self) -> None:
        """Ask for the broker's versions and finalized features; may be repeated at any time.

        A broker that does not know our version of ApiVersions answers in version 0 with error 35
        and its own range (KIP-511).

        Raises:
            NotSupportedError: No version in common.
            ConnectionLostError: The connection was cut.
            RequestTimeoutError: No answer in time.
        """
        highest_version = ClientApi.API_VERSIONS.own_range.highest
        try:
            answer = await self._send_request(self._api_versions(), highest_version)
        except ConnectionLostError as error:
            raise ConnectionLostError(
                f"{self.address} closed the connection at the first request: is it a Kafka listener"
                f" of security.protocol={self._settings.security.protocol.name}?"
            ) from error
        if answer.error_code == ErrorCode.unsupported_version:
            broker_versions = {
                version_row.api_key: version_row for version_row in answer.api_keys
            }.get(ClientApi.API_VERSIONS)
            version = min(
                highest_version, broker_versions.max_version if broker_versions is not None else 0
            )
            answer = await self._send_request(self._api_versions(), version)
        if answer.error_code != ErrorCode.none:
            raise NotSupportedError(
                f"{self.address} answered ApiVersions with {code_name(answer.error_code)}",
                error=answer.error_code,
            )
        self.versions = {
            version_row.api_key: VersionRange(version_row.min_version, version_row.max_version)
            for version_row in answer.api_keys
        }
        if answer.__version__ >= 3:
            self.features = FinalizedFeatures(
                epoch=answer.finalized_features_epoch,
                levels=tuple(
                    (feature_row.name, feature_row.max_version_level)
                    for feature_row in answer.finalized_features
                ),
            )

    def _api_versions(self) -> VersionedRequest:
        return versioned_request(
            ClientApi.API_VERSIONS,
            client_software_name="txnsim",
            client_software_version=self._settings.software_version,
        )

    # Authentication

    def authenticate(self) -> asyncio.Future[None]:
        """Authenticate; the future fails with AuthenticationError if the broker refuses."""
        security = self._settings.security
        now_ms = self._clock.now_ms()
        authentication = Authentication(security, now_ms=now_ms, nonce=random_hex())
        authentication_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._go_on(authentication, authentication.handshake(), authentication_future)
        return authentication_future

    def _go_on(
        self,
        authentication: Authentication,
        request: VersionedRequest,
        authentication_future: asyncio.Future[None],
    ) -> None:
        try:
            version = choose_version(request.api, self.versions)
            pending_answer = self._send_request(request, version, may_overtake=True)
        except ClientError as error:
            authentication_future.set_exception(error)
            return
        pending_answer.add_done_callback(
            partial(self._take_answer, authentication, authentication_future)
        )

    def _take_answer(
        self,
        authentication: Authentication,
        authentication_future: asyncio.Future[None],
        pending_answer: asyncio.Future[Any],
    ) -> None:
        if authentication_future.done():  # the waiting task has given up
            _ = pending_answer.cancelled() or pending_answer.exception()
            return
        try:
            request = authentication.take(pending_answer.result())
        except ClientError as error:
            authentication_future.set_exception(error)
            return
        if request is not None:
            self._go_on(authentication, request, authentication_future)
            return
        lifetime_ms = authentication.lifetime_ms
        if lifetime_ms:
            begun_ms = self._clock.monotonic_ms()
            self._renewal_ms = begun_ms + round(lifetime_ms * RENEWAL_FACTOR)
        authentication_future.set_result(None)

    def _renew(self) -> None:
        """Authenticate again, on this connection (KIP-368); requests wait meanwhile."""
        self._renewal_ms = None
        self._held_frames = []
        self.authenticate().add_done_callback(self._end_reauthentication)

    def _end_reauthentication(self, authentication_future: asyncio.Future[None]) -> None:
        error = authentication_future.exception()
        frames, self._held_frames = self._held_frames or [], None
        if error is not None:
            assert isinstance(error, ClientError)
            self._lose(error)
        elif self._transport is not None and self._lost_error is None:
            self._transport.writelines(frames)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not a check: uvloop's transports are none of asyncio's classes.
        self._transport = cast(asyncio.WriteTransport, transport)
        self._line = str(transport.get_extra_info("sockname"))

    def data_received(self, data: bytes) -> None:
        """Process bytes from the broker."""
        try:
            for frame in self._reader.receive_data(data):
                self._take_answer_frame(frame)
        except MalformedFrameError as error:
            self._lose(
                ConnectionLostError(f"{self.address} does not speak Kafka's protocol: {error}")
            )

    def _take_answer_frame(self, frame: bytes) -> None:
        if len(frame) < 4:
            raise MalformedFrameError(f"answer of {len(frame)} bytes")
        pending_request = self._waiting_requests.pop(_CORRELATION(frame)[0], None)
        if pending_request is None:
            return  # the caller has given its request up
        pending_request.timer.cancel()
        version = pending_request.version
        if self._trace.on:
            self._trace.trace_received(
                self._line,
                self._peer,
                pending_request.api,
                version,
                _CORRELATION(frame)[0],
                len(frame),
                sent_event=pending_request.send_event,
                call=pending_request.call,
            )
        if (
            pending_request.api == ClientApi.API_VERSIONS
            and len(frame) >= 6
            and _ERROR(frame, 4)[0] == ErrorCode.unsupported_version
        ):
            version = 0
        try:
            _, message = read_response(pending_request.api, version, frame)
        except MalformedFrameError as error:
            if not pending_request.future.done():
                pending_request.future.set_exception(
                    ClientError(f"{self.address} answered with bytes that can't be read: {error}")
                )
            raise
        if not pending_request.future.done():
            pending_request.future.set_result(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the broker, the network or we have closed the connection."""
        reason_suffix = f": {exc}" if exc is not None else ""
        # With TLS 1.3 a broker that does not take our certificate says so after the handshake.
        error_class = AuthenticationError if isinstance(exc, ssl.SSLError) else ConnectionLostError
        self._lose(error_class(f"{self.address} closed the connection{reason_suffix}"))
        if not self._closed_future.done():
            self._closed_future.set_result(None)

    def _lose(self, error: ClientError) -> None:
        if self._lost_error is not None:
            return
        self._lost_error = error
        if self._transport is not None:
            self._transport.abort()
        pending_requests, self._waiting_requests = self._waiting_requests, {}
        for pending_request in pending_requests.values():
            pending_request.timer.cancel()
            if not pending_request.future.done():
                pending_request.future.set_exception(error)

    def close(self) -> None:
        """Close; requests in flight fail with ConnectionLostError."""
        self._lose(ConnectionLostError(f"the connection to {self.address} was closed by us"))

    async def wait_closed(self) -> None:
        """Return once the transport is closed."""
        if self._transport is not None:
            await self._closed_future
