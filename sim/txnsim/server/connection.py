"""One client connection: frames in, requests handled one at a time, answers out in order.

As in Kafka's socket server a connection is muted while one of its requests is handled: what the
client pipelines waits in our buffer, and once that is full the socket is no longer read. A frame
that has been taken up belongs to the broker: when its connection goes away, it is handled all the
same and its answer is thrown away. Kafka's counterparts: SocketServer.Processor, RequestChannel.

What one connection may take is bounded, however much it sends and however little it reads: so much
of a turn of the loop (``runtime.turns``), so many bytes of answers that are not sent before the
next request is handled, and large answers go to the socket part by part, as they are read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from txnsim.api.request import Answer, ApiTable, ClientLink, Handler, Request
from txnsim.errors import BadInputError, ErrorCode, UnsupportedRequestError
from txnsim.faults.damage import damaged
from txnsim.metrics.requests import NO_METER, ApiMeter
from txnsim.runtime.trace import NO_CAUSE
from txnsim.runtime.turns import REQUEST_NS
from txnsim.security.principals import ANONYMOUS
from txnsim.server.crossings import ClientCrossings, Struck, batch_in_answer
from txnsim.server.forwarding import FORWARDED, controller_reached
from txnsim.server.outbox import Outbox, whole
from txnsim.server.request_log import logged, outcome
from txnsim.server.request_subject import summary_of, tx_of
from txnsim.server.sasl import SaslSession, SaslState, Then
from txnsim.types import SubmitOutcome, Verdict
from txnsim.wire import codec
from txnsim.wire.apis import API_VERSIONS, FETCH, api_name
from txnsim.wire.framing import FrameReader

if TYPE_CHECKING:
    from txnsim.server.channel_builder import Entrance
    from txnsim.server.listener import BrokerListener

_log: Final = structlog.get_logger("txnsim.server")

FRAME_BYTES: Final = 256
"""What a request that waits counts for besides its bytes: an empty one takes room and time too."""


class Connection(asyncio.Protocol):
    """A client's connection to one broker."""

    __slots__ = (
        "_apis",
        "_client_host",
        "_crossings",
        "_entrance",
        "_frames",
        "_is_busy",
        "_is_paused",
        "_is_pumping",
        "_link",
        "_listener",
        "_local_ns",
        "_meter",
        "_meters",
        "_name",
        "_opened_at",
        "_outbox",
        "_peer",
        "_queued_bytes",
        "_reader",
        "_received_ns",
        "_request_bytes",
        "_response_bytes",
        "_sasl",
        "_send_buffer_bytes",
        "_stopwatch_ns",
        "_told",
        "_turns",
        "_waits_for_turn",
        "contest",
        "principal",
        "used_ns",
    )

    def __init__(
        self, listener: BrokerListener, apis: ApiTable, entrance: Entrance | None = None
    ) -> None:
        self._listener = listener
        self._apis = apis
        self._reader = FrameReader(listener.settings.socket_request_max_bytes)
        self._frames: deque[bytes] = deque()
        self._queued_bytes = 0
        """What waits in ``_frames`` counts for."""
        self._turns = listener.tasks.turns
        self._waits_for_turn = False
        self.used_ns = self.contest = 0
        self._is_busy = False
        self._is_paused = False
        self._is_pumping = False
        self._outbox = Outbox(listener, go_on=self._go_on_later, give_up=self._give_up)
        self._send_buffer_bytes = listener.send_buffer_bytes
        self._peer = "?"
        self._name = "?"
        """In the log: both ends and a number, as Kafka names connections."""
        self._client_host = ""
        self._link = ClientLink()
        self._entrance = entrance
        self.principal = ANONYMOUS
        """Who the client is, as far as is known by now."""
        self._sasl: SaslSession | None = None
        self._crossings: ClientCrossings | None = None
        self._told: Callable[[], None] | None = None
        """While the trace is on: tells of the answer that is about to be written."""
        self._opened_at = NO_CAUSE
        """Trace index of the opening."""
        self._meters = listener.meters
        self._stopwatch_ns = listener.stopwatch_ns
        # Of the request that is being handled (``metrics.requests``).
        self._meter: ApiMeter = NO_METER
        self._received_ns = 0
        self._local_ns = -1
        self._request_bytes = 0
        self._response_bytes = -1

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        # A cast, not a check: uvloop's transports are none of asyncio's classes.
        self._outbox.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._peer = str(peer)
        listener = self._listener
        if isinstance(peer, tuple):
            self._client_host = f"/{peer[0]}"
            self._link.port = str(peer[1])
            own = transport.get_extra_info("sockname")
            self._name = f"{own[0]}:{own[1]}-{peer[0]}:{peer[1]}-{listener.accepted}"
        listener.accepted += 1
        if self._entrance is not None:
            principal = self._entrance.principal(transport)
            if principal is None:
                # Kafka fails when it asks for the name of the first request's sender.
                self._warn("no ssl.principal.mapping.rules apply")
                self._outbox.transport.abort()
                return
            self.principal = principal
            self._sasl = self._entrance.session(lambda: self._listener.broker.image.scram)
            if self._sasl is not None:
                self._limit_frames(self._sasl)
        self._listener.connections[self] = None
        tracer = self._listener.tracer
        if tracer.on:
            self._opened_at = tracer.emit(
                "conn.open", self._listener.node, parents=(NO_CAUSE,), data={"peer": self._peer}
            )
        if self._listener.logs_requests:
            _log.debug("connection.opened", connection=self._name, principal=self.principal)
        if self._listener.network.interceptor.armed:
            self._is_busy = True  # nothing is taken up before it has passed
            self._listener.tasks.drive(
                self._watcher().opened(), self._opened, name="connection.open"
            )

    def connection_lost(self, _exc: Exception | None) -> None:
        """The connection is gone: what was taken up goes on, what only waited is forgotten."""
        self._outbox.forget()
        self._forget_frames()
        self._listener.connections.pop(self, None)
        self._link.closed()
        tracer = self._listener.tracer
        if tracer.on:
            # Its own end, or the client's: as with the opening, no event here is the cause.
            tracer.emit(
                "conn.close",
                self._listener.node,
                parents=(self._opened_at,),
                data={"peer": self._peer},
            )
        if self._listener.logs_requests:
            _log.debug("connection.closed", connection=self._name, principal=self.principal)

    def data_received(self, data: bytes) -> None:
        """Cut frames and handle them."""
        try:
            frames = self._reader.receive_data(data)
        except BadInputError as error:
            self._abandon(error)
            return
        if frames:
            self._frames.extend(frames)
            self._queued_bytes += sum(map(len, frames)) + FRAME_BYTES * len(frames)
            self.pump()

    def pause_writing(self) -> None:
        """The client does not read: stop taking up its requests."""
        self._outbox.is_paused = True

    def resume_writing(self) -> None:
        """It reads again."""
        self._outbox.is_paused = False
        self._outbox.send_parts()
        self.pump()

    # Requests

    def pump(self) -> None:
        """Take up what waits, as long as nothing is being handled and this turn has room."""
        if self._is_pumping:
            return
        if not self._waits_for_turn:
            self._take_up_until(self._turns.limit_ns)
        self._see_to_the_rest()

    def go_on(self, limit_ns: int) -> None:
        """A new turn: send more, take up more."""
        self._waits_for_turn = False
        self._outbox.send_parts()
        self._take_up_until(limit_ns)
        self._see_to_the_rest()

    def _take_up_until(self, limit_ns: int) -> None:
        """Take up what waits until so much of this turn is spent."""
        frames, turns, outbox = self._frames, self._turns, self._outbox
        if not frames or self._is_busy or not self._listener.is_open:
            return
        self._is_pumping = True
        before_ns = turns.spent_ns
        try:
            while (
                frames
                and not self._is_busy
                and not outbox.is_paused
                and outbox.bytes < self._send_buffer_bytes
            ):
                if turns.spent_ns >= limit_ns:
                    break
                frame = frames.popleft()
                self._queued_bytes -= len(frame) + FRAME_BYTES
                self._take_up(frame)
        finally:
            self._is_pumping = False
            self.used_ns += turns.spent_ns - before_ns
        if frames:
            self._go_on_later()

    def _see_to_the_rest(self) -> None:
        self._outbox.see_to_flush()
        if self._frames or self._is_paused:
            self._apply_backpressure()

    def _go_on_later(self) -> None:
        """Wait for a turn, where there is something to do in it."""
        outbox = self._outbox
        if self._waits_for_turn or outbox.is_paused or not self._listener.is_open:
            return
        has_room = outbox.bytes < self._send_buffer_bytes
        if outbox.is_parted or (self._frames and not self._is_busy and has_room):
            self._waits_for_turn = True
            self._turns.wait(self, size=self._queued_bytes)

    def close(self) -> None:
        """Close the connection; what was answered is still sent."""
        transport = self._outbox.transport
        if transport is not None:
            self._outbox.send_all()
            transport.close()

    def _give_up(self) -> None:
        self._warn("connection closed: answers are not read")
        if self._outbox.transport is not None:
            self._outbox.transport.abort()

    def _forget_frames(self) -> None:
        self._frames.clear()
        self._queued_bytes = 0

    def _warn(self, event: str, **values: str) -> None:
        _log.warning(event, connection=self._name, peer=self._peer, **values)

    def _take_up(self, frame: bytes) -> None:
        received_ns = self._stopwatch_ns()
        try:
            if self._sasl is not None and not self._passes(self._sasl, frame):
                return
            request, handler, refused = self._parse(frame)
        except BadInputError as error:
            self._abandon(error)
            return
        if self._sasl is not None and refused is None:
            self._sasl.handled(request)
        self._is_busy = True
        self._local_ns = self._response_bytes = -1
        meter = self._meter = self._meters[request.api_key, request.api_version]
        if refused is not None:
            self._send(request, handler.refuse(request, refused))
            took_ns = self._stopwatch_ns() - received_ns
            self._turns.spent_ns += took_ns + REQUEST_NS
            meter.observe(took_ns, self._request_bytes, self._response_bytes)
            self._is_busy = False
            return
        listener = self._listener
        if request.api_key in FORWARDED and not request.broker.reaches_controller:
            coroutine = self._handle_once_forwarded(request, handler, frame)
            done = self._handled_watched
        elif listener.network.interceptor.armed or listener.tracer.on:
            coroutine = self._handle_watched(request, handler, frame)
            done = self._handled_watched
        else:
            coroutine = handler.handle(request)
            done = self._handled
        if listener.logs_requests:
            coroutine = logged(
                coroutine, request, handler, listener=listener, connection=self._name
            )
        listener.tasks.drive(
            coroutine,
            partial(done, request, handler),
            name=handler.name,
            apart=listener.logs_requests,
        )
        local_ns = self._stopwatch_ns()
        took_ns = local_ns - received_ns
        self._turns.spent_ns += took_ns + REQUEST_NS
        if self._response_bytes >= 0:
            meter.observe(took_ns, self._request_bytes, self._response_bytes)
        else:
            self._received_ns, self._local_ns = received_ns, local_ns

    def _passes(self, session: SaslSession, frame: bytes) -> bool:
        """Whether a frame is an ordinary request; what belongs to the authentication is done with.

        Raises:
            BadInputError: It is no request of Kafka's.
        """
        step = session.take(frame)
        if step.then is Then.HANDLE:
            return True
        self.principal = session.principal
        if step.then is Then.SEND:
            self._limit_frames(session)
            self._outbox.put(step.answer)
            return False
        answer = step.answer
        if step.then is Then.REFUSE:
            request, handler, _ = self._parse(frame)
            answer = whole(request, handler.refuse(request, ErrorCode.illegal_sasl_state))
        # Kafka makes whoever guesses wait (connection.failed.authentication.delay.ms).
        assert self._entrance is not None
        self._is_busy = True
        self._forget_frames()
        self._listener.clock.call_later(
            self._entrance.failure_delay_ms, partial(self._fail, answer)
        )
        self._warn("authentication failed", reason=step.reason)
        return False

    def _limit_frames(self, session: SaslSession) -> None:
        """Who is not known may not send as much (SaslServerAuthenticator)."""
        settings = self._listener.settings
        self._reader.limit = (
            settings.socket_request_max_bytes
            if session.state is SaslState.COMPLETE
            else settings.sasl_server_max_receive_size
        )

    def _fail(self, answer: bytes) -> None:
        if answer:
            self._outbox.put(answer)
        self.close()

    def _parse(self, frame: bytes) -> tuple[Request, Handler, ErrorCode | None]:
        """The request, its handler, and the error that answers it at once (ApiVersions of a future
        version only).
        """
        header = codec.read_request_header(frame)
        self._request_bytes = len(frame) - header.body_offset
        key, version = header.api_key, header.api_version
        apis = self._apis
        handler = apis.handlers.get(key)
        if handler is None:
            raise UnsupportedRequestError(f"API key {key} is not supported")
        low, high = apis.accepted[key]
        refused: ErrorCode | None = None
        message: Any = None
        if low <= version <= high:
            message = handler.decode(header, frame)
        elif key == API_VERSIONS:
            # Whatever the body says, a newer client is told in v0 which versions it may use.
            version, refused = 0, ErrorCode.unsupported_version
        else:
            raise UnsupportedRequestError(
                f"{api_name(key)} v{version} is not supported, only v{low} to v{high}"
            )
        request = Request(
            apis=apis,
            broker=self._listener.broker,
            api_key=key,
            api_version=version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            message=message,
            client_host=self._client_host,
            principal=self.principal,
            link=self._link,
        )
        return request, handler, refused

    def _handled(
        self, request: Request, handler: Handler, reply: Any, error: BaseException | None
    ) -> None:
        """The handler is through: answer, and go on with what waits."""
        if error is not None:
            if isinstance(error, asyncio.CancelledError):
                return
            _log.error(
                "request failed by a bug",
                api=api_name(request.api_key),
                version=request.api_version,
                connection=self._name,
                client_id=request.client_id,
                correlation_id=request.correlation_id,
                exc_info=error,
            )
            reply = handler.refuse(request, ErrorCode.unknown_server_error)
        if reply is Answer.NEVER:
            return
        self._send(request, reply)
        if self._told is not None:
            self._told()
        if self._local_ns >= 0:
            self._observe_waited()
        self._is_busy = False
        if not self._is_pumping:
            self.pump()

    def _send(self, request: Request, reply: Any) -> None:
        self._response_bytes = 0
        if self._outbox.transport is None or reply is Answer.NONE:
            return
        if reply is Answer.CLOSE:
            self.close()
            return
        meter = self._meter
        key, version, correlation_id = request.api_key, request.api_version, request.correlation_id
        if type(reply) is bytes:
            at = meter.error_at
            if at is not None and (reply[at] or reply[at + 1]):
                meter.tell_error_in(reply)
            self._response_bytes = len(reply)
            self._outbox.put(codec.frame_response(key, version, correlation_id, reply))
            return
        meter.tell_errors_of(reply)
        pieces = codec.encode_pieces(reply)
        size = self._response_bytes = sum(map(len, pieces))
        head = codec.response_head(key, version, correlation_id, size)
        self._outbox.put_pieces(head, pieces, size, stored=key == FETCH)

    def _observe_waited(self) -> None:
        """A request has been answered that had to wait for something."""
        answered_ns = self._stopwatch_ns()
        self._meter.observe_waited(
            answered_ns - self._received_ns,
            answered_ns - self._local_ns,
            self._request_bytes,
            self._response_bytes,
        )

    def _apply_backpressure(self) -> None:
        waiting = self._queued_bytes
        if waiting:
            waiting += self._reader.buffered_bytes
        limit = self._listener.settings.connection_queue_bytes
        transport = self._outbox.transport
        if transport is None or transport.is_closing():
            return
        if not self._is_paused and waiting > limit:
            self._is_paused = True
            transport.pause_reading()
        elif self._is_paused and waiting <= limit // 2:
            self._is_paused = False
            transport.resume_reading()

    def _abandon(self, error: BadInputError) -> None:
        """Close the connection as a real broker does, and say why in the log."""
        self._warn("connection closed: bad request", reason=str(error))
        self._forget_frames()
        self.close()

    async def _handle_once_forwarded(self, request: Request, handler: Handler, frame: bytes) -> Any:
        """What only the controller can do waits until the broker reaches it."""
        if not await controller_reached(self._listener, request.broker):
            return handler.refuse(request, ErrorCode.request_timed_out)
        return await self._handle_watched(request, handler, frame)

    # Requests that somebody watches: armed faults, the trace

    async def _handle_watched(self, request: Request, handler: Handler, frame: bytes) -> Any:
        listener = self._listener
        tracer = listener.tracer
        if not tracer.on:
            return await self._watcher().handle(request, handler, frame)
        self._told = None
        message = {
            "api": api_name(request.api_key),
            "version": request.api_version,
            "correlation": request.correlation_id,
            "peer": f"client/{request.client_id or ''}",
        }
        asked, tx = message, ""
        if tracer.full:  # brief has a budget: what follows from a request tells whose it is
            subject = handler.subject(request)
            tx = tx_of(subject, request.message)
            asked = {**message, "bytes": self._request_bytes, "summary": summary_of(subject)}
        # A request has the client for its cause, whatever let the connection take it up now.
        sent = tracer.take((self._peer, request.correlation_id, False))
        if sent < 0:
            tracer.node(f"client/{request.client_id or ''}")  # a foreign one: its request is a root
        received = tracer.emit("msg.recv", listener.node, parents=(sent,), tx=tx, data=asked)
        # A driven handler has a context of its own: nothing needs to be put back.
        tracer.caused_by(received)
        reply = await self._watcher().handle(request, handler, frame)
        came_to = outcome(request, reply)
        if "answer" not in came_to:
            told = {**message, "response": True}
            if errors := ",".join(came_to.get("errors", ())):
                told["error"] = errors
            # Who waits for news is answered because of them; what was there before was none.
            news = tracer.waker if request.api_key == FETCH and tracer.waker > received else -1
            causes = (news, tracer.cause, received)
            self._told = partial(self._tell_answer, tx, causes, told, is_ours=sent >= 0)
        return reply

    def _tell_answer(
        self, tx: str, causes: tuple[int, ...], told: dict[str, object], *, is_ours: bool
    ) -> None:
        """An answer is written: its size is known now."""
        self._told = None
        tracer = self._listener.tracer
        data = {**told, "bytes": self._response_bytes} if tracer.full else told
        sent = tracer.emit("msg.send", self._listener.node, parents=causes, tx=tx, data=data)
        if is_ours:
            tracer.post((self._peer, cast(int, told["correlation"]), True), sent)

    def _watcher(self) -> ClientCrossings:
        """Made when it is needed for the first time: most connections are never watched."""
        if self._crossings is None:
            line = f"{self._peer} -> {self._listener.node}"
            self._crossings = ClientCrossings(self._listener, line=line, parse=self._parse)
        return self._crossings

    def _opened(self, verdict: Verdict | None, error: BaseException | None) -> None:
        """A new connection has crossed its fault point."""
        if isinstance(error, asyncio.CancelledError):
            return
        outcome = SubmitOutcome.PASS if verdict is None else verdict.outcome
        if outcome is SubmitOutcome.DISCONNECT:
            self.close()
        elif outcome is not SubmitOutcome.DROP:  # dropped, it is never heard
            self._unmute()

    def _handled_watched(
        self, request: Request, handler: Handler, reply: Any, error: BaseException | None
    ) -> None:
        """The handler is through, and a fault may have done something to the connection."""
        if type(reply) is not Struck:
            self._handled(request, handler, reply, error)
        elif reply.complaint is not None:
            self._abandon(reply.complaint)
        elif reply.is_broken:
            self._forget_frames()
            self.close()
        else:
            self._send_struck(reply)

    def _send_struck(self, struck: Struck) -> None:
        start = self._outbox.pieces()
        self._send(struck.request, struck.reply)
        if self._told is not None:
            self._told()
        if self._local_ns >= 0:
            self._observe_waited()
        sent = self._outbox.since(start)
        if struck.damage is not None and sent:
            batch = batch_in_answer(struck.request, struck.reply)
            self._outbox.replace(start, damaged(sent, struck.damage, batch=batch))
        if struck.mute_ms:
            self._listener.clock.call_later(struck.mute_ms, self._unmute)
            self.pump()  # takes up nothing, but sees to it that the answer goes out
        else:
            self._unmute()

    def _unmute(self) -> None:
        self._is_busy = False
        if not self._is_pumping:
            self.pump()
