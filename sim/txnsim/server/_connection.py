"""One client connection: reads frames, handles one request at a time, sends the answers in order.

As in Kafka's socket server, a connection is muted while one of its requests is handled: requests
that the client pipelines wait in our buffer, and once that is full the socket is no longer read. A
frame that was taken from the buffer belongs to the broker: if its connection closes, it is handled
all the same and its answer is thrown away. Kafka's counterparts: SocketServer.Processor,
RequestChannel.

Each connection has bounds, however much it sends and however little it reads: the time of work in
one turn of the loop (``runtime.loop_turns``), and the bytes of unsent answers above which no
further request is handled. Large answers go to the socket part by part, as the client reads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from txnsim.api.parsing import encode_with_breaks, parse_with_breaks
from txnsim.api.request import ApiTable, ClientLink, Handler, NoResponse, Request, parse_request
from txnsim.errors import (
    AnswerTooLargeError,
    BadInputError,
    ErrorCode,
    UnsupportedRequestError,
    WorkIsOverError,
)
from txnsim.faults.damage import damage_message
from txnsim.faults.interception import FaultEffect, Slices, SubmitOutcome
from txnsim.loggers import Logger
from txnsim.metrics.requests import NO_METER, ApiMeter
from txnsim.node.peers import CONTROLLER_ID
from txnsim.releases.interbroker_versions import FORWARDED
from txnsim.runtime.loop_turns import BYTE_NS, REQUEST_NS, LargeReads, Pace
from txnsim.runtime.network import reset
from txnsim.runtime.trace import NO_CAUSE
from txnsim.security.principals import ANONYMOUS
from txnsim.server._outbox import Outbox, framed_response
from txnsim.server._request_log import log_handling, raise_bug, replacement_reply, too_large_reply
from txnsim.server._sasl import FrameTreatment, SaslSession, SaslState
from txnsim.server.client_fault_points import ClientFaultPoints, FaultOutcome, batch_in_answer
from txnsim.server.request_trace import RequestTrace, trace_closed, trace_opened, trace_refused
from txnsim.types import BrokerId
from txnsim.wire import codec
from txnsim.wire.apis import FETCHES
from txnsim.wire.codec import FrameReader

if TYPE_CHECKING:
    from txnsim.api.request import Request
    from txnsim.broker.broker import Broker
    from txnsim.server._channel_builder import ChannelBuilder
    from txnsim.server._listener import BrokerListener


_log: Final = Logger("txnsim.server")
_ENCODED_TYPES: Final = (bytes, NoResponse)
"""Types of replies that need no encoding."""
LARGE_BYTES: Final = 256 << 10
"""Received bytes from which on an incomplete frame counts as large."""
FRAME_BYTES: Final = 256
"""Bytes that a waiting request counts for in addition to its own: an empty one takes room and time
too.
"""


class RequestConnection(asyncio.Protocol):
    """A client's connection to one broker."""

    __slots__ = (
        *("_channel_builder", "_fault_points", "_intake", "_is_busy"),
        *("_is_pumping", "_listener", "_local_ns", "_meter", "_meters", "_name"),
        *(
            "_opening_event",
            "_outbox",
            "_peer",
            "_received_ns",
            "_request_bytes",
            "_response_bytes",
        ),
        *("_sasl", "_send_buffer_bytes", "_stopwatch_ns", "_trace", "_turns", "_waits_for_turn"),
        *("apis", "client_host", "busy_period", "link", "principal", "used_ns"),
    )

    def __init__(
        self,
        listener: BrokerListener,
        apis: ApiTable,
        channel_builder: ChannelBuilder | None = None,
    ) -> None:
        self._listener = listener
        self.apis = apis
        self._intake = Intake(listener.settings.socket_request_max_bytes)
        self._turns = listener.tasks.turns
        self._waits_for_turn = False
        self.used_ns = self.busy_period = 0
        self._is_busy = self._is_pumping = False
        self._outbox = Outbox(listener, on_room=self.work_until, on_excess=self._give_up)
        self._send_buffer_bytes = listener.send_buffer_bytes
        self._peer = "?"
        self._name = "?"
        """Name in the log: both ends and a number, as Kafka names connections."""
        self.client_host = ""
        self.link = ClientLink()
        self._channel_builder = channel_builder
        self.principal = ANONYMOUS
        """Principal as far as the client is authenticated."""
        self._sasl: SaslSession | None = None
        self._fault_points: ClientFaultPoints | None = None
        self._trace: RequestTrace | None = None
        self._opening_event = NO_CAUSE  # trace index of the opening
        self._meters = listener.meters
        self._stopwatch_ns = listener.stopwatch_ns
        # Of the request that is being handled (``metrics.requests``).
        self._meter: ApiMeter = NO_METER
        self._received_ns = self._request_bytes = 0
        self._local_ns = self._response_bytes = -1

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with a client that has connected."""
        # A cast, not a check: uvloop's transports are none of asyncio's classes.
        self._outbox.transport = cast(asyncio.Transport, transport)
        peer_address = transport.get_extra_info("peername")
        self._peer = str(peer_address)
        listener = self._listener
        if isinstance(peer_address, tuple):
            self.client_host, self.link.port = f"/{peer_address[0]}", str(peer_address[1])
            socket_address = transport.get_extra_info("sockname")
            self._name = (
                f"{socket_address[0]}:{socket_address[1]}-{peer_address[0]}:{peer_address[1]}"
                f"-{listener.accepted}"
            )
        listener.accepted += 1
        if self._channel_builder is not None:
            principal = self._channel_builder.principal_of(transport)
            if principal is None:
                # Kafka fails when it asks for the name of the first request's sender.
                self._warn("no ssl.principal.mapping.rules apply")
                self._outbox.transport.abort()
                return
            self.principal = principal
            self._sasl = self._channel_builder.new_session(
                lambda: self._listener.broker.image.scram
            )
            if self._sasl is not None:
                self._limit_frames(self._sasl)
        self._listener.connections[self] = None
        tracer = self._listener.tracer
        if tracer.on:
            self._opening_event = trace_opened(
                tracer, listener.node, self.client_host, self.link.port
            )
        if self._listener.logs_requests:
            _log.debug("connection.opened", connection=self._name, principal=self.principal)
        if self._listener.network.interceptor.is_armed:
            # No request is handled before the opening has crossed its fault point.
            self._is_busy = True
            self._listener.tasks.drive(
                self._own_fault_points().connection_effect(),
                self._apply_opening_verdict,
                name="connection.open",
            )

    def connection_lost(self, _exc: Exception | None) -> None:
        """Drop the waiting requests; the one being handled continues."""
        self._outbox.drop_answers()
        self._listener.unauthenticated_bytes.forget(self)
        self._intake.close_by_turns(self._turns.reads)
        self._listener.connections.pop(self, None)
        self.link.note_closed()
        tracer, node = self._listener.tracer, self._listener.node
        if tracer.on:
            trace_closed(tracer, node, self.client_host, self.link.port, self._opening_event)
        if self._listener.logs_requests:
            _log.debug("connection.closed", connection=self._name, principal=self.principal)

    def data_received(self, data: bytes) -> None:
        """Split data into frames and handle them."""
        intake = self._intake
        try:
            frames = intake.reader.receive_data(data)
        except BadInputError as error:
            self._close_for_bad_request(error)
            return
        if frames:
            intake.frames.extend(frames)
            intake.queued_bytes += sum(map(len, frames)) + FRAME_BYTES * len(frames)
            if not self._is_pumping:
                self.work_until(0 if self._waits_for_turn else self._turns.limit_ns)
        elif intake.reader.buffered_bytes > LARGE_BYTES:
            intake.read_by_turns(len(data), self._turns.reads, self._outbox.transport)
        if self._sasl is not None and self._sasl.state is not SaslState.COMPLETE:
            held_bytes = intake.queued_bytes + intake.reader.buffered_bytes
            self._listener.unauthenticated_bytes.set_held_bytes(self, held_bytes)

    def pause_writing(self) -> None:
        """Take up no further requests: the client does not read."""
        self._outbox.is_paused = True

    def resume_writing(self) -> None:
        """Go on with requests: the client reads again."""
        self._outbox.is_paused = False
        self.work_until()

    # Requests

    def handle_read_requests(self) -> None:
        """Handle waiting requests, if none is being handled and the turn has time left."""
        if not self._is_pumping:
            self.work_until(0 if self._waits_for_turn else self._turns.limit_ns)

    def work_until(self, limit_ns: int = 0) -> None:
        """Send answers and handle requests up to the limit of this turn; ask for another turn if
        work is left.
        """
        intake, turns, outbox = self._intake, self._turns, self._outbox
        frames = intake.frames
        if limit_ns:
            self._waits_for_turn = False
            if outbox.parked is not None:
                begun_ns = self._stopwatch_ns()
                outbox.send_parts()
                turns.spent_ns += self._stopwatch_ns() - begun_ns + REQUEST_NS
        if limit_ns and frames and not self._is_busy and self._listener.is_open:
            self._is_pumping = True
            spent_before_ns = turns.spent_ns
            try:
                while (
                    turns.spent_ns < limit_ns
                    and frames
                    and not self._is_busy
                    and not outbox.is_paused
                    and outbox.bytes < self._send_buffer_bytes
                ):
                    frame = frames.popleft()
                    intake.queued_bytes -= len(frame) + FRAME_BYTES
                    self._take_frame(frame)
            finally:
                self._is_pumping = False
                self.used_ns += turns.spent_ns - spent_before_ns
        is_idle = not (self._waits_for_turn or outbox.is_paused)
        if (frames or outbox.parked is not None) and is_idle and self._listener.is_open:
            has_room = outbox.bytes < self._send_buffer_bytes
            if not has_room:
                outbox.is_room_wanted = True
            if outbox.parked is not None or (has_room and not self._is_busy):
                self._waits_for_turn = True
                turns.wait(self, wanted_ns=intake.queued_bytes * BYTE_NS)
        if outbox.output and not outbox.is_flush_due:
            outbox.is_flush_due = True
            tasks = self._listener.tasks
            tasks.last_callbacks.append(outbox.flush)  # at_turn_end, written out: the hot path
            if not tasks.is_drain_due:
                tasks.drain_soon()
        if frames or intake.is_paused:
            queue_bytes_max = self._listener.settings.connection_queue_bytes
            if (
                intake.is_paused
                or intake.queued_bytes + intake.reader.buffered_bytes > queue_bytes_max
            ):
                intake.keep_within(queue_bytes_max, outbox.transport)

    def close(self) -> None:
        """Close the connection after the sending of all answers."""
        transport = self._outbox.transport
        if transport is not None:
            self._outbox.send_all()
            transport.close()

    def give_up(self, reason: str = "clients that are not known have sent too much") -> None:
        """Close the connection: unauthenticated clients hold too many bytes, and this one holds
        most.
        """
        self._intake.close()
        self._give_up(reason)

    @property
    def unfinished_bytes(self) -> int:
        return self._intake.reader.buffered_bytes

    def _give_up(self, reason: str = "answers are not read") -> None:
        self._warn(f"connection closed: {reason}")
        if self._outbox.transport is not None:
            self._outbox.transport.abort()

    def _warn(self, event: str, **values: str) -> None:
        _log.warning(event, connection=self._name, peer=self._peer, **values)

    def _take_frame(self, frame: bytes) -> None:
        received_ns = self._stopwatch_ns()
        try:
            if self._sasl is not None and not self._is_ordinary_request(self._sasl, frame):
                return
            if len(frame) > codec.COUNTED_FROM_BYTES:
                self._is_busy = True
                pace = Pace(self._turns, self._stopwatch_ns)
                self._listener.tasks.drive(
                    parse_with_breaks(frame, self, self._listener.broker, pace),
                    partial(self._handle_parsed, frame, received_ns, pace),
                    name="connection.parse",
                )
                self._turns.spent_ns += self._stopwatch_ns() - received_ns + REQUEST_NS
                return
            request = parse_request(frame, self, self._listener.broker)
        except BadInputError as error:
            self._close_for_bad_request(error)
            return
        done_ns = self._handle_request(request, frame, received_ns)
        self._turns.spent_ns += done_ns - received_ns + REQUEST_NS

    def _handle_parsed(
        self, frame: bytes, received_ns: int, pace: Pace, request: Any, error: BaseException | None
    ) -> None:
        if isinstance(error, BadInputError):
            self._close_for_bad_request(error)
        elif error is not None:
            raise_bug(error)
        elif self._listener.is_open:
            begun_ns = self._stopwatch_ns()
            done_ns = self._handle_request(
                request, frame, received_ns, pace if pace.has_rested else None
            )
            self._turns.spent_ns += done_ns - begun_ns

    def _handle_request(
        self, request: Request, frame: bytes, received_ns: int, pace: Pace | None = None
    ) -> int:
        """Handle a request; returns the stopwatch's time after the handler's first step."""
        handler, refusal_code = self.apis.handlers[request.api_key], request.refused
        request.pace = pace
        self._request_bytes = len(frame) - request.body_offset
        if self._sasl is not None and refusal_code is None:
            self._sasl.expect_handshake(request)
        self._is_busy = True
        cause = None
        self._local_ns = self._response_bytes = -1
        meter = self._meter = self._meters[request.api_key, request.api_version]
        if refusal_code is not None:
            self._refuse_at_once(request, handler, refusal_code)
            done_ns = self._stopwatch_ns()
            meter.observe(done_ns - received_ns, self._request_bytes, self._response_bytes)
            self._is_busy = False
            return done_ns
        listener = self._listener
        is_forwarded = request.api_key in FORWARDED
        if is_forwarded and (unreadable_error := controller_complaint(request)) is not None:
            self._is_busy = False
            self._close_for_bad_request(unreadable_error)
            return self._stopwatch_ns()
        if is_forwarded and not request.broker.reaches_controller:
            coroutine = self._handle_once_forwarded(request, handler, frame)
            on_done = self._finish_watched
        elif listener.network.interceptor.is_armed or (
            listener.tracer.on and request.api_key in FETCHES
        ):
            coroutine = self._handle_watched(request, handler, frame)
            on_done = self._finish_watched
        else:
            coroutine = handler.handle(request)
            on_done = self._finish_request
            if listener.tracer.on:
                cause = self._begin_trace().trace_receipt(request, handler, self._request_bytes)
                on_done = self._finish_traced
        if listener.logs_requests:
            coroutine = log_handling(
                coroutine, request, handler, listener=listener, connection=self._name
            )
        listener.tasks.drive(
            coroutine,
            partial(on_done, request, handler),
            name=handler.name,
            has_own_context=listener.logs_requests,
            cause=cause,
        )
        local_ns = self._stopwatch_ns()
        if self._response_bytes >= 0:
            meter.observe(local_ns - received_ns, self._request_bytes, self._response_bytes)
        else:
            self._received_ns, self._local_ns = received_ns, local_ns
        return local_ns

    def _refuse_at_once(self, request: Request, handler: Handler, error: ErrorCode) -> None:
        reply = handler.refuse(request, error)
        if self._listener.tracer.on and request.message is not None:
            trace = self._begin_trace()
            trace.trace_receipt(request, handler, self._request_bytes)
            trace.trace_handled(request, reply)
        self._send_reply(request, reply)

    def _is_ordinary_request(self, session: SaslSession, frame: bytes) -> bool:
        """Whether a frame is an ordinary request; a frame of the authentication is handled here.

        Raises:
            BadInputError: The frame is not a Kafka request.
        """
        sasl_step = session.treat_frame(frame)
        if sasl_step.treatment is FrameTreatment.HANDLE:
            return True
        self.principal = session.principal
        if sasl_step.treatment is FrameTreatment.SEND:
            self._limit_frames(session)
            self._outbox.put_answer(sasl_step.answer)
            return False
        answer = sasl_step.answer
        if sasl_step.treatment is FrameTreatment.REFUSE:
            request = self._parse(frame)
            answer = framed_response(request, request.refuse(ErrorCode.illegal_sasl_state))
        # Kafka delays the failure (connection.failed.authentication.delay.ms).
        assert self._channel_builder is not None
        self._is_busy = True
        self._intake.forget()
        self._listener.clock.call_later(
            self._channel_builder.failure_delay_ms, partial(self._fail_authentication, answer)
        )
        self._warn("authentication failed", reason=sasl_step.reason)
        return False

    def _limit_frames(self, session: SaslSession) -> None:
        """Lower the frame size limit of unauthenticated clients (SaslServerAuthenticator)."""
        settings = self._listener.settings
        if session.state is SaslState.COMPLETE:
            self._intake.reader.limit = settings.socket_request_max_bytes
            self._listener.unauthenticated_bytes.forget(self)
        else:
            self._intake.reader.limit = settings.sasl_server_max_receive_size

    def _fail_authentication(self, answer: bytes) -> None:
        if answer:
            self._outbox.put_answer(answer)
        self.close()

    def _parse(self, frame: bytes) -> Request:
        return parse_request(frame, self, self._listener.broker)

    def _finish_request(
        self,
        request: Request,
        handler: Handler,
        reply: Any,
        error: BaseException | None,
        reply_pieces: list[bytes] | None = None,
    ) -> None:
        """Send the answer of a handler that has ended, and go on with waiting requests.
        ``reply_pieces`` has a large answer that is encoded already.
        """
        if error is not None:
            reply = replacement_reply(
                request, handler, error, connection=self._name, request_bytes=self._request_bytes
            )
        if reply is NoResponse.NEVER:
            return
        if (
            request.pace is not None
            and reply_pieces is None
            and not isinstance(reply, _ENCODED_TYPES)
        ):
            request.pace.is_wanted = self._outbox.is_connection_open
            self._listener.tasks.drive(
                encode_with_breaks(
                    reply, request.pace, self._meter.tell_errors_of, max_bytes=request.bytes_max
                ),
                partial(self._finish_encoding, request, handler, reply),
                name="connection.encode",
            )
            return
        self._send_reply(request, reply, reply_pieces)
        self._is_busy = False
        if request.pace is not None:  # a large request: the next one begins in another turn
            self.work_until()
        elif not self._is_pumping:
            self.work_until(0 if self._waits_for_turn else self._turns.limit_ns)

    def _finish_encoding(
        self,
        request: Request,
        handler: Handler,
        reply: Any,
        reply_pieces: list[bytes],
        error: BaseException | None,
    ) -> None:
        if error is not None and not isinstance(error, AnswerTooLargeError | WorkIsOverError):
            raise_bug(error)
        else:
            self._finish_request(request, handler, reply, error, reply_pieces)

    def _send_reply(
        self, request: Request, reply: Any, reply_pieces: list[bytes] | None = None
    ) -> None:
        outbox, meter = self._outbox, self._meter
        key, version = request.api_key, request.api_version
        self._response_bytes = 0
        if outbox.transport is None or reply is NoResponse.NONE:
            pass
        elif reply is NoResponse.CLOSE:
            self.close()
        elif type(reply) is bytes:
            error_index = meter.error_at
            if error_index is not None and (reply[error_index] or reply[error_index + 1]):
                meter.tell_error_in(reply)
            self._response_bytes = reply_bytes = len(reply)
            pack_head, head_extra_bytes = codec.RESPONSE_HEADS[key, version]
            answer = pack_head(reply_bytes + head_extra_bytes, request.correlation_id) + reply
            outbox.output.append(answer)
            outbox.bytes += len(answer)
        else:
            reply_bytes_max = None
            if reply_pieces is None:
                meter.tell_errors_of(reply)
                reply_pieces, reply_bytes_max = codec.encode_pieces(reply), codec.COUNTED_FROM_BYTES
            self._response_bytes = reply_bytes = sum(map(len, reply_pieces))
            if (
                reply_bytes_max is not None
                and reply_bytes > reply_bytes_max
                and reply_bytes > request.bytes_max
            ):
                self._send_reply(
                    request, *too_large_reply(request, reply_bytes, self._request_bytes, self._name)
                )
                return
            response_head = codec.response_head(key, version, request.correlation_id, reply_bytes)
            outbox.put_pieces(response_head, reply_pieces, reply_bytes, is_stored=key in FETCHES)
        if self._trace is not None:
            self._trace.trace_answer(self._response_bytes)
        if self._local_ns >= 0:  # the handler had to wait
            answered_ns = self._stopwatch_ns()
            self._meter.observe(
                answered_ns - self._received_ns,
                self._request_bytes,
                self._response_bytes,
                answered_ns - self._local_ns,
            )

    def _close_for_bad_request(self, error: BadInputError) -> None:
        """Close the connection for a bad request, as a real broker does, and log the reason."""
        reason, listener = str(error), self._listener
        self._warn("connection closed: bad request", reason=reason)
        if listener.tracer.on:
            client_address = (listener.node, self.client_host, self.link.port)
            trace_refused(listener.tracer, *client_address, self._opening_event, reason)
        self._intake.forget()
        self.close()

    async def _handle_once_forwarded(self, request: Request, handler: Handler, frame: bytes) -> Any:
        """Handle a request that only the controller can answer, as soon as the broker reaches
        it.
        """
        if not await wait_for_controller(self._listener, request.broker):
            return handler.refuse(request, ErrorCode.request_timed_out)
        return await self._handle_watched(request, handler, frame)

    # Requests under armed faults, or traced

    async def _handle_watched(self, request: Request, handler: Handler, frame: bytes) -> Any:
        listener = self._listener
        tracer = listener.tracer
        if not tracer.on:
            return await self._own_fault_points().handle(request, handler, frame)
        trace = self._begin_trace()
        tracer.set_cause(trace.trace_receipt(request, handler, self._request_bytes))
        reply = await self._own_fault_points().handle(request, handler, frame)
        trace.trace_handled(request, reply)
        return reply

    def _begin_trace(self) -> RequestTrace:
        if self._trace is None:
            listener = self._listener
            self._trace = RequestTrace(
                listener.tracer, node=listener.node, client_address=self._peer
            )
        return self._trace

    def _finish_traced(
        self, request: Request, handler: Handler, reply: Any, error: BaseException | None
    ) -> None:
        """Finish a request that was traced, but handled without armed faults."""
        trace = self._trace
        if error is None and trace is not None:
            if self._listener.network.interceptor.is_armed:  # armed meanwhile
                self._listener.tasks.drive(
                    self._own_fault_points().cross_response(request, handler, reply),
                    partial(self._trace_departure, request, handler),
                    name=handler.name,
                )
                return
            trace.trace_handled(request, reply)
        self._finish_request(request, handler, reply, error)

    def _trace_departure(
        self, request: Request, handler: Handler, reply: Any, error: BaseException | None
    ) -> None:
        if error is None and self._trace is not None:
            self._trace.trace_handled(request, reply)
        self._finish_watched(request, handler, reply, error)

    def _own_fault_points(self) -> ClientFaultPoints:
        """The fault points of this connection, created on first use: most connections need none."""
        if self._fault_points is None:
            connection_name = f"{self._peer} -> {self._listener.node}"
            self._fault_points = ClientFaultPoints(self._listener, connection_name, self._parse)
        return self._fault_points

    def _apply_opening_verdict(
        self, fault_effect: FaultEffect | None, error: BaseException | None
    ) -> None:
        """Begin or break a new connection after its fault point."""
        if isinstance(error, asyncio.CancelledError):
            return
        outcome = SubmitOutcome.PASS if fault_effect is None else fault_effect.outcome
        if fault_effect is not None and outcome is SubmitOutcome.DISCONNECT:
            self._break_connection(is_reset=fault_effect.is_reset)
        elif outcome is not SubmitOutcome.DROP:  # a dropped connection gets no answers
            self._unmute()

    def _finish_watched(
        self, request: Request, handler: Handler, reply: Any, error: BaseException | None
    ) -> None:
        """Finish a handled request, after a fault that may break or mute the connection."""
        if type(reply) is not FaultOutcome:
            self._finish_request(request, handler, reply, error)
        elif reply.decode_error is not None:
            self._close_for_bad_request(reply.decode_error)
        elif reply.is_broken:
            self._intake.forget()
            self._break_connection(is_reset=reply.is_reset)
        else:
            self._send_after_fault(reply)

    def _break_connection(self, *, is_reset: bool) -> None:
        transport = self._outbox.transport
        if is_reset and transport is not None:
            self._outbox.send_all()
            reset(transport)
        else:
            self.close()

    def _send_after_fault(self, outcome: FaultOutcome) -> None:
        first_piece_index = self._outbox.piece_count()
        self._send_reply(outcome.request, outcome.reply)
        sent_bytes = self._outbox.bytes_since(first_piece_index)
        if outcome.damage is not None and sent_bytes:
            batch = batch_in_answer(outcome.request.api_key, outcome.reply)
            self._outbox.replace_since(
                first_piece_index, damage_message(sent_bytes, outcome.damage, batch=batch)
            )
        if outcome.slices is not None and sent_bytes:
            self._outbox.replace_since(first_piece_index, b"")
            self._send_slices(outcome.slices, sent_bytes, 0, outcome.mute_ms)
        else:
            self._unmute_after(outcome.mute_ms)

    def _unmute_after(self, mute_ms: int) -> None:
        if mute_ms:
            self._listener.clock.call_later(mute_ms, self._unmute)
            self.handle_read_requests()  # handles no request, but lets the answer go out
        else:
            self._unmute()

    def _send_slices(self, slices: Slices, answer: bytes, slice_start: int, mute_ms: int) -> None:
        """Send the slice of an answer at ``slice_start``, and the next ones later."""
        slice_end = slice_start + slices.size
        self._outbox.put_answer(answer[slice_start:slice_end])
        if slice_end >= len(answer):
            self._unmute_after(mute_ms)
        elif self._outbox.is_connection_open():
            send_next_slice = partial(self._send_slices, slices, answer, slice_end, mute_ms)
            self._listener.clock.call_later(slices.every_ms, send_next_slice)
            self.handle_read_requests()  # handles no request, but lets the slice go out

    def _unmute(self) -> None:
        self._is_busy = False
        self.handle_read_requests()


class Intake:
    """Received data of a connection until it is handled; stops reading the socket when too much
    waits.

    Counterpart: NetworkReceive, a muted connection, and ``queued.max.requests``.
    """

    __slots__ = ("frames", "is_in_line", "is_paused", "queued_bytes", "reader")

    def __init__(self, frame_bytes_max: int) -> None:
        self.reader = FrameReader(frame_bytes_max)
        self.frames: deque[bytes] = deque()
        """Complete requests that wait. The connection adds and removes them, and updates
        ``queued_bytes``.
        """
        self.queued_bytes = 0
        """Size of the waiting frames, with ``FRAME_BYTES`` for each."""
        self.is_paused = False
        """The socket is not read because too much waits."""
        self.is_in_line = False
        """The socket is not read because other large requests have their turns (``LargeReads``)."""

    def forget(self) -> None:
        """Drop the waiting requests."""
        self.frames.clear()
        self.queued_bytes = 0

    def close(self) -> None:
        """Drop the waiting requests and the incomplete frame: the connection is closed.

        An incomplete frame may have 100 MB, and this object may outlive the connection for long.
        """
        self.forget()
        self.reader.forget()

    def close_by_turns(self, large_reads: LargeReads) -> None:
        """Like ``close``, but many connections that close at once free their large frames one by
        one.
        """
        self.forget()
        if self.reader.buffered_bytes > LARGE_BYTES:
            large_reads.wait(self.reader.forget)
        else:
            self.reader.forget()

    def keep_within(self, limit_bytes: int, transport: asyncio.Transport | None) -> None:
        """Stop reading above the limit; go on at half of it."""
        if transport is None or transport.is_closing():
            return
        waiting_bytes = self.queued_bytes
        if waiting_bytes:
            waiting_bytes += self.reader.buffered_bytes
        if not self.is_paused and waiting_bytes > limit_bytes:
            self.is_paused = True
            if not self.is_in_line:
                transport.pause_reading()
        elif self.is_paused and waiting_bytes <= limit_bytes // 2:
            self.is_paused = False
            if not self.is_in_line:
                transport.resume_reading()

    def read_by_turns(
        self, received_bytes: int, large_reads: LargeReads, transport: asyncio.Transport | None
    ) -> None:
        """Note that many bytes of a large frame; stop reading if it is the turn of others."""
        if not large_reads.have_read(received_bytes) or self.is_in_line or self.is_paused:
            return
        if transport is None or transport.is_closing():
            return
        self.is_in_line = True
        transport.pause_reading()
        large_reads.wait(partial(self._leave_queue, transport))

    def _leave_queue(self, transport: asyncio.Transport) -> None:
        self.is_in_line = False
        if not self.is_paused and not transport.is_closing():
            transport.resume_reading()


# Requests that a broker forwards to the controller, and what happens while it can't.
#
# Clients may send any broker a request that only the controller can answer. A broker that is cut
# off from it keeps trying for a while, then answers REQUEST_TIMED_OUT. Kafka's counterparts:
# ForwardingManager, NodeToControllerChannelManager.

DEVIATIONS: Final = (
    "Requests that brokers forward to the controller don't travel in an Envelope: fault points "
    "between brokers don't see them. While the link to the controller is cut they wait, and time "
    "out, as in Apache Kafka.",
)

RETRY_TIMEOUT_MS: Final = 60_000
"""Time for which a broker tries to reach the controller (the channel manager "forwarding" of
BrokerServer).
"""


def controller_complaint(request: Request) -> UnsupportedRequestError | None:
    """Reason why a controller of another release can't read a client's request, or None. The broker
    then closes the client's connection (ForwardingManager, EnvelopeUtils.parseForwardedRequest).
    """
    controller_release = request.broker.metadata.fleet.controller
    if not controller_release.features or request.api_version <= controller_release.highest_version(
        request.api_key
    ):
        return None
    return UnsupportedRequestError(
        f"the controller, which runs {controller_release.patch_release}, does not know version "
        f"{request.api_version} of API {request.api_key}"
    )


async def wait_for_controller(listener: BrokerListener, broker: Broker) -> bool:
    """Wait until the broker reaches the controller; False after ``RETRY_TIMEOUT_MS``."""
    reached_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle_future() -> None:
        if not reached_future.done():
            reached_future.set_result(None)

    def note_heal(link_source: BrokerId, link_target: BrokerId) -> None:
        if (link_source, link_target) == (broker.broker_id, CONTROLLER_ID):
            settle_future()

    stop_watching = listener.network.on_heal(note_heal)
    timer = broker.environment.clock.call_later(RETRY_TIMEOUT_MS, settle_future)
    try:
        await reached_future
        return broker.reaches_controller
    finally:
        timer.cancel()
        stop_watching()
