"""One client's connection, and its connection to the broker. Bytes from one are forwarded to the
other, through the fault points of clients (or of peers, if the client is a broker). The answers of
a connection have the order of its requests, as in Kafka, so each is matched to its request by order
and correlation id. Faults have the same effect as in the simulator (``server.client_fault_points``,
``faults.points``). A held request counts as received by the broker: if its client disconnects, it
is sent nevertheless when it is released, and its answer is dropped. Memory is bounded: neither side
is read while the other does not accept more, or while too many bytes wait for a fault. An answer
that may have addresses is collected first; that is at most one answer per connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from struct import Struct
from typing import Any, Final

from txnsim.errors import BadInputError, ErrorCode
from txnsim.faults.interception import Crossing, FaultEffect, SubmitOutcome
from txnsim.faults.plan import MessagePart
from txnsim.faults.points import FaultPoint
from txnsim.loggers import Logger
from txnsim.server.client_fault_points import Passage
from txnsim.server.relayed_request import RelayedRequest
from txnsim.wire.apis import API_VERSIONS, api_name
from txnsim.wire.varint import read_uvarint
from txnsim_lab.proxy import addresses
from txnsim_lab.proxy._connection_ends import BrokerEnd, ClientEnd
from txnsim_lab.proxy._frame_stream import SIZE_BYTES, FrameHandling, FrameStream
from txnsim_lab.proxy._listeners import NodeListener
from txnsim_lab.proxy._proxied_request import (
    ANSWER_MADE_HERE,
    LOST_ANSWER,
    ORDINARY_ANSWER,
    SASL_TOKEN,
    ProxiedRequest,
)

_log: Final = Logger("txnsim_lab.proxy")

COLLECTED_BYTES_MAX: Final = 64 << 20
"""Limit of an answer that a rule, or the proxy itself, needs as a whole. A Fetch response has at
most 55 MiB.
"""
BACKLOG_BYTES_MAX: Final = 1_048_576
"""Bytes that may wait for a fault before the side is no longer read
(``queued.max.request.bytes``).
"""
_ANSWER_HEAD_BYTES: Final = 8


class Relay:
    """Both sides of one connection."""

    def __init__(self, listener: NodeListener) -> None:
        self._listener = listener
        self._connection_name = ""
        self._injector = listener.injector
        self._client_id: str | None = None
        self._request_frames = FrameStream(
            head_bytes=HEAD_BYTES,
            decide_handling=self._decide_request,
            take_frame=self._take_request,
            on_frame_end=_do_nothing,
            on_backlog_change=self.pause_or_resume_reading,
        )
        self._answer_frames = FrameStream(
            head_bytes=_ANSWER_HEAD_BYTES,
            decide_handling=self._decide_answer,
            take_frame=self._take_answer,
            on_frame_end=self._answer_ended,
            on_backlog_change=self.pause_or_resume_reading,
        )
        self.client = ClientEnd(self, self._request_frames)
        self.broker = BrokerEnd(self, self._answer_frames)
        self._requests_in_flight: deque[ProxiedRequest] = deque()
        self._request: ProxiedRequest | None = None
        """The request that is being collected."""
        self._answered_request: ProxiedRequest | None = None
        """The request whose answer is being collected."""
        self._tokens_to_come = 0
        """Number of following frames that are SASL tokens without a header."""
        self._answered_future: asyncio.Future[None] | None = None
        """Resolved when every request has been answered."""
        self._held_count = 0
        """Number of requests that wait at a fault point, including copies."""
        self._is_orphan = False
        """Whether the client has disconnected while held requests or answers still belong to the
        broker.
        """
        self._broker_is_gone = False
        self._answers_are_dropped = False
        """Whether an answer was dropped, so that the client gets no further answers."""

    # Both sides

    def client_connected(self) -> None:
        """Called when the client has connected."""
        transport = self.client.transport
        assert transport is not None
        self._connection_name = f"{transport.get_extra_info('peername')} -> {self._listener.node}"
        self._answer_frames.write = transport.write
        self._request_frames.pause()
        self._listener.note_open(self, self._connection_name)
        self._drive_task(self._open_broker_side(), self._on_open, "connection to a broker")

    async def _open_broker_side(self) -> bool:
        """Connect to the broker; returns whether requests may be read."""
        if self._injector.is_armed and not self._listener.is_peer:
            fault_effect = await self._passage().connection_effect(
                self._listener.node, self._connection_name
            )
            if fault_effect.outcome is SubmitOutcome.DISCONNECT:
                self.client.close(is_reset=fault_effect.is_reset)
                return False
            if fault_effect.outcome is SubmitOutcome.DROP:
                return False  # never heard
        if not self._has_client():
            return False
        await self._listener.connect(lambda: self.broker)
        if not self._has_client():
            self.broker.close()
            return False
        assert self.broker.transport is not None
        self._request_frames.write = self.broker.transport.write
        return True

    def _has_client(self) -> bool:
        return self.client.transport is not None

    def _on_open(self, is_open: bool | None, error: BaseException | None) -> None:  # noqa: FBT001 - what ``drive`` calls
        if isinstance(error, OSError):
            self._listener.log_unreachable(error)
            self.client.abort()
        elif error is not None:
            self._close_on_error(error)
        elif is_open:
            self._request_frames.resume()

    def client_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it went
        """The client has disconnected: unread bytes are dropped, but held requests still reach the
        broker.
        """
        self._listener.note_close(self, self._connection_name)
        if self.broker.transport is None:
            self._listener.forget(self)
        self._request_frames.forget()
        self._request_frames.pause()
        self._wake_waiting_request()
        if self._held_count:
            self._is_orphan = True
            self._answer_frames.watches_ends = True
        else:
            self.broker.close()

    def broker_lost(self, exc: Exception | None) -> None:
        """The broker has closed its side: closes the client's side when all answers are written."""
        self._broker_is_gone = True
        if self.client.transport is None:
            self._listener.forget(self)
        if self._answer_frames.is_paused and not self._answers_are_dropped:
            return  # an answer is held; ``_answer_done`` closes
        self._answer_frames.forget()
        self._request_frames.pause()
        self._wake_waiting_request()
        if exc is None:
            self.client.close()
        else:
            self.client.abort()

    def close(self) -> None:
        """Close both sides, as the proxy stops."""
        self.client.close()
        self.broker.close()

    def _break_connection(self, *, is_reset: bool = False) -> None:
        """Break the connection on both sides, as a fault demands; with ``is_reset``, with RST on
        the client's side.
        """
        self._request_frames.pause()
        self._request_frames.forget()
        self._wake_waiting_request()
        self.client.close(is_reset=is_reset)
        self.broker.close()

    def pause_or_resume_reading(self) -> None:
        """Pauses or resumes reading each side, by whether the other side accepts more and by the
        waiting bytes.
        """
        backlog_bytes = self._request_frames.backlog_bytes
        self.client.read(is_wanted=not self.broker.is_full and backlog_bytes < BACKLOG_BYTES_MAX)
        backlog_bytes = self._answer_frames.backlog_bytes
        self.broker.read(is_wanted=not self.client.is_full and backlog_bytes < BACKLOG_BYTES_MAX)

    # Requests

    def _decide_request(self, data: bytes, position: int, data_end: int) -> FrameHandling:
        if self._tokens_to_come:
            return self._decide_token()
        size_bytes, api_key, api_version, correlation_id, client_id_length = unpack_head(
            data, position
        )
        if not HEAD_BYTES - 4 <= size_bytes < REQUEST_BYTES_MAX:
            return FrameHandling.NO_FRAME  # the broker answers it
        if self._client_id is None and client_id_length >= 0:
            if data_end - position < HEAD_BYTES + client_id_length:
                return FrameHandling.NEED_MORE
            self._client_id = client_id_of(data, position, client_id_length)
        is_answered: bool | None = True
        if api_key == PRODUCE:
            is_answered = produce_is_answered(data, position, api_version, client_id_length)
            if is_answered is None and data_end - position < size_bytes + 4:
                return FrameHandling.NEED_MORE
        proxied_request = ProxiedRequest(api_key, api_version, correlation_id)
        if api_key == SASL_HANDSHAKE or (self._injector.is_armed and self._watches_api(api_key)):
            proxied_request.is_answered = is_answered is not False
            self._request = proxied_request
            return FrameHandling.COLLECT
        if is_answered is not False:
            self._requests_in_flight.append(proxied_request)
        return FrameHandling.PASS

    def _watches_api(self, api_key: int) -> bool:
        return any(self._injector.needed_part(point, api_key) for point in self._listener.points)

    def _decide_token(self) -> FrameHandling:
        self._tokens_to_come -= 1
        if not self._tokens_to_come:
            self._request_frames.head_bytes = HEAD_BYTES
        token = ProxiedRequest(SASL_HANDSHAKE, 0, 0)
        token.answer_fate = SASL_TOKEN
        self._requests_in_flight.append(token)
        return FrameHandling.PASS

    def _take_request(self, pieces: list[bytes]) -> None:
        proxied_request, self._request = self._request, None
        assert proxied_request is not None
        self._request_frames.pause()
        self._held_count += 1
        self._drive_task(
            self._pass_request(proxied_request, b"".join(pieces)),
            self._request_done,
            "proxied request",
        )

    async def _pass_request(self, proxied_request: ProxiedRequest, frame: bytes) -> bool:
        """Take a request through its fault point; returns whether the next one may follow."""
        await self._wait_until_answered()
        if self.client.transport is None:
            return False  # it was never taken up
        if proxied_request.api_key == SASL_HANDSHAKE and self._mechanism_cannot_pass(
            proxied_request, frame
        ):
            return await self._answer_here(proxied_request, refuse_mechanism(frame))
        request_point, answer_point = self._listener.points
        request_part = self._injector.needed_part(request_point, proxied_request.api_key)
        answer_part = self._injector.needed_part(answer_point, proxied_request.api_key)
        if MessagePart.BODY in (request_part, answer_part):
            await self._listener.decode(proxied_request, frame)
        if not request_part:
            self._forward(proxied_request, frame)
            await self._wait_until_answered()
            return True
        crossing = self._describe_crossing(request_point, proxied_request)
        fault_effect = await self._passage().cross(crossing)
        match fault_effect.outcome:
            case SubmitOutcome.DROP:
                return False  # the client hears nothing on this connection any more
            case SubmitOutcome.DISCONNECT:
                self._break_connection(is_reset=fault_effect.is_reset)
                return False
            case SubmitOutcome.ERROR:
                return await self._refuse_request(proxied_request, fault_effect.error)
            case SubmitOutcome.CORRUPT:
                assert fault_effect.damage is not None
                frame = proxied_request.damage_frame(frame, fault_effect.damage)
                # The broker answers the damaged request, so its header counts.
                if len(frame) >= HEAD_BYTES:
                    (
                        _,
                        proxied_request.api_key,
                        proxied_request.api_version,
                        proxied_request.correlation_id,
                        _,
                    ) = unpack_head(frame, 0)
            case SubmitOutcome.DROP_ANSWER:
                proxied_request.answer_fate = LOST_ANSWER
            case SubmitOutcome.THROTTLE:
                self._request_frames.pause()
                if proxied_request.is_answered:
                    proxied_request.mute_ms = fault_effect.throttle_ms
                else:
                    self._listener.clock.call_later(
                        fault_effect.throttle_ms, self._request_frames.resume
                    )
        self._forward(proxied_request, frame)
        for _ in range(fault_effect.times):
            self._held_count += 1
            copy_coroutine = self._forward_copy(crossing, proxied_request, frame)
            self._drive_task(copy_coroutine, self._request_done, "copy of a proxied request")
        if answer_part:
            await self._wait_until_answered()
        return fault_effect.outcome is not SubmitOutcome.DROP_ANSWER

    async def _wait_until_answered(self) -> None:
        """Wait for all answers: as in Kafka, the next request is read when the last one has been
        answered.
        """
        if self._requests_in_flight or self._answer_frames.is_paused:
            self._answered_future = asyncio.get_running_loop().create_future()
            self._answer_frames.watches_ends = True
            await self._answered_future

    def _request_done(self, goes_on: bool | None, error: BaseException | None) -> None:  # noqa: FBT001 - what ``drive`` calls
        self._held_count -= 1
        if error is not None:
            self._close_on_error(error)
        elif goes_on:
            self._request_frames.resume()
        self._close_if_done()

    def _forward(self, proxied_request: ProxiedRequest, frame: bytes) -> None:
        """Forward a request to the broker."""
        if self.broker.transport is None:
            _log.warning(
                "a request was held until its broker's connection had closed: it is lost",
                api=api_name(proxied_request.api_key),
                broker=self._listener.node,
            )
            return
        self.broker.transport.write(frame)
        if proxied_request.is_answered:
            self._requests_in_flight.append(proxied_request)

    async def _refuse_request(self, proxied_request: ProxiedRequest, error: int) -> bool:
        """Answers with an error; returns whether the next request may follow."""
        error_answer = None
        if proxied_request.request is not None:
            error_answer = proxied_request.refusal(error)
        else:
            _log.warning(
                "no answer can be made here: closed", api=api_name(proxied_request.api_key)
            )
        if error_answer is None:
            self._break_connection()
            return False
        return await self._answer_here(proxied_request, error_answer)

    async def _answer_here(self, proxied_request: ProxiedRequest, answer: bytes) -> bool:
        """Answer instead of the broker; returns whether the next request may follow."""
        proxied_request.answer_fate = ANSWER_MADE_HERE
        self._answer_frames.pause()
        goes_on = await self._deliver_answer(proxied_request, answer)
        self._answer_done(goes_on, None)
        return goes_on

    async def _forward_copy(
        self, crossing: Crossing, proxied_request: ProxiedRequest, frame: bytes
    ) -> None:
        """Forward the request a second time; the second answer is dropped."""
        if not await self._passage().send_copy(crossing):
            return
        request_copy = ProxiedRequest(
            proxied_request.api_key, proxied_request.api_version, proxied_request.correlation_id
        )
        request_copy.answer_fate = LOST_ANSWER
        request_copy.is_answered = proxied_request.is_answered
        self._forward(request_copy, frame)

    def _mechanism_cannot_pass(self, proxied_request: ProxiedRequest, frame: bytes) -> bool:
        """Whether the proxy can't pass on a SASL mechanism; for the others, counts the tokens that
        follow.
        """
        mechanism = mechanism_of(frame)
        if mechanism is None or not is_refused(mechanism, proxied_request.api_version):
            self._tokens_to_come = bare_token_count(mechanism or "", proxied_request.api_version)
            if self._tokens_to_come:
                self._request_frames.head_bytes = SIZE_BYTES
            return False
        _log.warning("a SASL mechanism can't pass the proxy", mechanism=mechanism)
        return True

    # Answers

    def _decide_answer(self, data: bytes, position: int, _data_end: int) -> FrameHandling:
        size_bytes, correlation_id = unpack_answer_head(data, position)
        in_flight = self._requests_in_flight
        proxied_request = None
        while in_flight:
            proxied_request = in_flight.popleft()
            if (
                proxied_request.correlation_id == correlation_id
                or proxied_request.answer_fate == SASL_TOKEN
            ):
                break
            proxied_request = (
                None  # passed over: a damaged request that the broker has not answered
            )
        if proxied_request is not None and proxied_request.answer_fate == LOST_ANSWER:
            return FrameHandling.SKIP
        if self._is_orphan:
            # A rule may match the answer nevertheless; afterwards the answer is dropped.
            meets_rule = (
                proxied_request is not None
                and self._injector.is_armed
                and self._rule_needs_answer(proxied_request)
            )
            self._answered_request = proxied_request if meets_rule else None
            return self._collect_or_skip(size_bytes) if meets_rule else FrameHandling.SKIP
        if proxied_request is None or proxied_request.answer_fate == SASL_TOKEN:
            return FrameHandling.PASS
        api_key = proxied_request.api_key
        is_client = not self._listener.is_peer
        if (
            (
                is_client
                and (
                    api_key == API_VERSIONS
                    or addresses.may_have_addresses(api_key, proxied_request.api_version)
                )
            )
            or proxied_request.mute_ms
            or (self._injector.is_armed and self._rule_needs_answer(proxied_request))
        ):
            self._answered_request = proxied_request
            return self._collect_or_skip(size_bytes)
        return FrameHandling.PASS

    def _collect_or_skip(self, size_bytes: int) -> FrameHandling:
        """Whether an answer is collected whole, or skipped because it is too large."""
        if size_bytes <= COLLECTED_BYTES_MAX:
            return FrameHandling.COLLECT
        self._close_on_error(
            BadInputError(f"an answer of {size_bytes:,} bytes is more than is collected")
        )
        return FrameHandling.SKIP

    def _rule_needs_answer(self, proxied_request: ProxiedRequest) -> bool:
        needed_part = self._injector.needed_part(self._listener.points[1], proxied_request.api_key)
        # A rule that needs the request can't match if the request passed before the rule was armed.
        return needed_part is MessagePart.HEADER or (
            needed_part is MessagePart.BODY and proxied_request.request is not None
        )

    def _take_answer(self, pieces: list[bytes]) -> None:
        proxied_request, self._answered_request = self._answered_request, None
        assert proxied_request is not None
        if (
            proxied_request.api_key in addresses.ENDPOINTS_AT_END
            and not proxied_request.mute_ms
            and not (self._injector.is_armed and self._rule_needs_answer(proxied_request))
            and not addresses.ends_with_endpoints(addresses.tail_of(pieces))
        ):
            if self.client.transport is not None:
                self.client.transport.writelines(pieces)
            self._answer_ended()
            return
        self._answer_frames.pause()
        self._drive_task(
            self._deliver_answer(proxied_request, b"".join(pieces)),
            self._answer_done,
            "proxied answer",
        )

    async def _deliver_answer(self, proxied_request: ProxiedRequest, answer: bytes) -> bool:
        """Take an answer through its fault point; returns whether later ones may follow."""
        if not self._listener.is_peer and proxied_request.answer_fate == ORDINARY_ANSWER:
            # A damaged request may have become another, of which no more is known.
            answer = await self._listener.rewrite_answer(
                proxied_request.api_key, proxied_request.api_version, answer
            )
        fault_effect = FaultEffect.PASS
        answer_point = self._listener.points[1]
        if self._injector.is_armed and self._rule_needs_answer(proxied_request):
            fault_effect = await self._passage().cross(
                self._describe_crossing(answer_point, proxied_request, answer)
            )
        match fault_effect.outcome:
            case SubmitOutcome.DROP:
                self._request_frames.pause()
                return False
            case SubmitOutcome.DISCONNECT:
                self._break_connection(is_reset=fault_effect.is_reset)
                return False
            case SubmitOutcome.ERROR:
                error_answer = proxied_request.refusal(fault_effect.error)
                if error_answer is None:
                    self._break_connection()
                    return False
                answer = error_answer
            case SubmitOutcome.REWRITE:
                assert fault_effect.rewriting is not None
                answer = proxied_request.rewritten_answer(answer, fault_effect.rewriting)
        mute_ms = max(proxied_request.mute_ms, fault_effect.throttle_ms)
        if mute_ms:
            answer = proxied_request.throttled_answer(answer, mute_ms)
            if not proxied_request.mute_ms:
                self._request_frames.pause()
            self._listener.clock.call_later(mute_ms, self._request_frames.resume)
        if fault_effect.damage is not None:
            answer = proxied_request.damaged_answer(answer, fault_effect.damage)
        if fault_effect.slices is not None:
            slices = fault_effect.slices
            await self._write_slices(answer, slice_bytes=slices.size, every_ms=slices.every_ms)
        elif self.client.transport is not None:
            self.client.transport.write(answer)
        return True

    async def _write_slices(self, answer: bytes, *, slice_bytes: int, every_ms: int) -> None:
        """Write an answer in pieces while the client is connected."""
        for slice_start in range(0, len(answer), slice_bytes):
            if slice_start:
                slice_due_event = asyncio.Event()
                self._listener.clock.call_later(every_ms, slice_due_event.set)
                await slice_due_event.wait()
            if self.client.transport is None:
                return
            self.client.transport.write(answer[slice_start : slice_start + slice_bytes])

    def _answer_done(self, goes_on: bool | None, error: BaseException | None) -> None:  # noqa: FBT001 - what ``drive`` calls
        if error is not None:
            self._close_on_error(error)
            return
        if not goes_on:
            self._answers_are_dropped = True
            self._answer_frames.forget()
        else:
            self._answer_frames.resume()
        if self._broker_is_gone and (
            self._answers_are_dropped or not self._answer_frames.is_paused
        ):
            self.client.close()
        self._answer_ended()

    def _answer_ended(self) -> None:
        """After an answer: wakes a request that waits for it, and closes the connection if it is no
        longer needed.
        """
        if (
            not self._requests_in_flight
            and self._answered_future is not None
            and not self._answer_frames.is_paused
        ):
            self._wake_waiting_request()
        self._close_if_done()

    def _wake_waiting_request(self) -> None:
        answered_future, self._answered_future = self._answered_future, None
        if answered_future is not None and not answered_future.done():
            answered_future.set_result(None)

    # Parts

    def _describe_crossing(
        self, point: FaultPoint, proxied_request: ProxiedRequest, answer: bytes = b""
    ) -> Crossing:
        return proxied_request.crossing(
            point,
            source=self._listener.source_of(self._client_id),
            target=self._listener.node,
            connection_name=self._connection_name,
            answer=answer,
        )

    def _passage(self) -> Passage:
        return Passage(self._injector, self._listener.tracer)

    def _close_if_done(self) -> None:
        """Close the broker's side if the client has disconnected and nothing is pending."""
        if self._is_orphan and not self._held_count and not self._requests_in_flight:
            self.broker.close()

    def _drive_task(self, coroutine: Coroutine[Any, Any, Any], on_done: Any, name: str) -> None:
        self._listener.tasks.drive(coroutine, on_done, name=name)

    def _close_on_error(self, error: BaseException) -> None:
        """Close the connection after a message that can't be decoded, or a bug."""
        if isinstance(error, asyncio.CancelledError):
            return
        if isinstance(error, BadInputError):
            _log.warning(
                "connection closed: can't be read", line=self._connection_name, reason=str(error)
            )
        else:
            _log.error("connection closed by a bug", line=self._connection_name, exc_info=error)
        self._break_connection()


def _do_nothing() -> None: ...


# What a proxy reads of a request without decoding it: its header, whether a Produce will be
# answered, that GSSAPI can't pass, and which frames are no requests.
#
# A ticket of Kerberos is for one host name, and the client would ask for one of the proxy.
# Everything else passes unread. After SaslHandshake v0 a client sends bare tokens in place of
# requests; how many of them there are is up to the mechanism (KafkaClient's
# SaslClientAuthenticator, KIP-43, KIP-152).

PRODUCE: Final = 0
HEAD_BYTES: Final = 14
"""Bytes of a request that hold its size and the part of its header that all versions share."""
REQUEST_BYTES_MAX: Final = 0x16 << 24
"""A larger size is no Kafka request (socket.request.max.bytes is 100 MB): TLS begins like this on a
plain-text listener.
"""

unpack_head: Final = Struct(">ihhih").unpack_from
"""Unpacks (size, API key, version, correlation id, length of the client id) of a request."""
unpack_answer_head: Final = Struct(">ii").unpack_from
"""Unpacks (size, correlation id) of an answer."""

_unpack_short: Final = Struct(">h").unpack_from
_PRODUCE_FLEXIBLE_FROM: Final = 9
_TRANSACTIONAL_FROM: Final = 3
_TWO_BYTE_VARINTS_FROM: Final = 0x80
"""Smaller varints have one byte."""


def client_id_of(data: bytes, position: int, client_id_length: int) -> str | None:
    """The client id in a request header that begins at ``position``; None if it is null."""
    if client_id_length < 0:
        return None
    start = position + HEAD_BYTES
    return data[start : start + client_id_length].decode("utf-8", "replace")


def produce_is_answered(
    data: bytes, position: int, api_version: int, client_id_length: int
) -> bool | None:
    """Whether a Produce asks for an answer (``acks`` is not 0); None if bytes are missing."""
    position_read = position + HEAD_BYTES + max(client_id_length, 0)
    try:
        if (
            api_version >= _PRODUCE_FLEXIBLE_FROM
            and not data[position_read]
            and (field_size := data[position_read + 1]) < _TWO_BYTE_VARINTS_FROM
        ):
            # The common case: no tags, and a short transactional id or none.
            position_read += 1 + max(field_size, 1)
        elif api_version >= _PRODUCE_FLEXIBLE_FROM:
            tag_count, position_read = read_uvarint(data, position_read)
            for _ in range(tag_count):
                _, position_read = read_uvarint(data, position_read)
                field_size, position_read = read_uvarint(data, position_read)
                position_read += field_size
            field_size, position_read = read_uvarint(data, position_read)
            position_read += max(field_size - 1, 0)
        elif api_version >= _TRANSACTIONAL_FROM:
            if position_read + 2 > len(data):
                return None
            position_read += 2 + max(_unpack_short(data, position_read)[0], 0)
    except IndexError:
        return None
    except ValueError:
        return True  # no Produce that a broker could read: it closes the connection
    if position_read + 2 > len(data):
        return None
    return bool(_unpack_short(data, position_read)[0])


SASL_HANDSHAKE: Final = 17
_TOKENS_OF_MECHANISM: Final = {"PLAIN": 1, "OAUTHBEARER": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""SASL mechanism -> number of tokens that a client sends."""


def mechanism_of(frame: bytes) -> str | None:
    """The mechanism in a SaslHandshake; None if it can't be decoded."""
    request = RelayedRequest.decode_request(frame, {})
    return None if request is None else str(request.message.mechanism)


def bare_token_count(mechanism: str, api_version: int) -> int:
    """Number of frames after a SaslHandshake that are tokens without a header."""
    return _TOKENS_OF_MECHANISM.get(mechanism, 0) if api_version == 0 else 0


def is_refused(mechanism: str, api_version: int) -> bool:
    """Whether the proxy can't pass on an authentication by that mechanism."""
    return mechanism == "GSSAPI" or (api_version == 0 and mechanism not in _TOKENS_OF_MECHANISM)


def refuse_mechanism(frame: bytes) -> bytes:
    """The answer to a SaslHandshake that refuses its mechanism and offers no other."""
    request = RelayedRequest.decode_request(frame, {})
    assert request is not None
    handshake_request = RelayedRequest(
        SASL_HANDSHAKE, request.api_version, request.correlation_id, request
    )
    answer = handshake_request.refusal(ErrorCode.unsupported_sasl_mechanism)
    assert isinstance(answer, bytes)
    return answer
