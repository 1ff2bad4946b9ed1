"""Sockets for clients and links between brokers, over any event loop.

The same class serves real and virtual time: sockets come from the loop's ``create_server`` and
``create_connection``; the links between brokers take deadlines and latencies from the clock.

The TLS handshake of a client is led here, so that a failed one ends with an alert. asyncio drops
the connection of a failed handshake before the alert has gone out that gives the reason, and the
client takes it for a broken network and tries again for ever. Clients of a broker rely on the
alert: with it they give up, and know why. So the handshake runs over a connection whose transport
is known, and the alert is written to it. Kafka's counterpart: SslTransportLayer (handshakeFailure).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from types import CoroutineType
from typing import Any, Final, cast

import msgspec

from txnsim.errors import ErrorCode, PeerAnsweredError, PeerDisconnectedError, PeerTimeoutError
from txnsim.faults.interception import Crossing, FaultEffect, Interceptor, PassAll, SubmitOutcome
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject, subject_of
from txnsim.loggers import Logger
from txnsim.runtime._link_cuts import Link, LinkCut, LinkCuts, Pipe
from txnsim.runtime.clock import Clock, TimerHandle
from txnsim.runtime.peer_call import PeerCall, PeerHandler, TracedAs, Unanswered, as_coroutine
from txnsim.runtime.tasks import LoopTasks, Pending
from txnsim.runtime.trace import NO_CAUSE, Tracer
from txnsim.runtime.trace_kinds import PEER_POLLS, PEER_ROUTINE
from txnsim.types import BrokerId
from txnsim.wire.apis import api_name

LISTEN_BACKLOG: Final = 1_024
"""Connections that the kernel may hold before we accept them (socket.listen.backlog.size, 50)."""


# Links between brokers, over any event loop.
#
# A request is queued and delivered after the current callback, in order, with all that follows from
# it (``Tasks.soon``): an exchange between brokers takes one turn of the loop, however many requests
# it needs. It fails when its target is not registered or the link is cut (``link_cuts``), and when
# its deadline passes. There is no timer per request: one timer, armed only while something is under
# way, watches the earliest deadline. A link is one direction of requests (source → target) with the
# answers that come back on it, as a TCP connection opened by the source.
#
# **Fault points.** Only while the interceptor is armed is a crossing described and asked about. A
# held or delayed crossing waits alone; later ones of the same link pass it. A request released
# after its deadline is still handled and its answer thrown away: that is a late marker or
# verification, as a peer sees it. A drop leads to ``PeerTimeoutError`` at the deadline, or as soon
# as the cluster clock is advanced that far: a lost request can only time out. An injected error
# fails the future with ``PeerAnsweredError``, which the caller treats as the top-level error of the
# reply; so does a handler that fails by a bug (UNKNOWN_SERVER_ERROR). A link that breaks
# (disconnect) fails all that is under way on it; a copy (duplicate) is handled like any request
# that its sender has given up.

_TRACED_OFF, _TRACED_POLL, _TRACED_CAUSE, _TRACED_MESSAGES = (
    TracedAs.OFF,
    TracedAs.POLL,
    TracedAs.CAUSE,
    TracedAs.MESSAGES,
)
_peers_log: Final = Logger("txnsim.network")


class PeerLinks:
    """The links between the brokers of a run, and the requests on them; the peer side of
    ``LoopNetwork``.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock,
        tasks: LoopTasks,
        tracer: Tracer,
        interceptor: Interceptor | None = None,
        latency_ms_of: Callable[[BrokerId, BrokerId], float] | None = None,
        describe_command: Callable[[object], Subject] = subject_of,
    ) -> None:
        """Make links without cuts, and without brokers.

        Args:
            loop: The event loop of the run.
            clock: For deadlines and latencies, both monotonic.
            tasks: Run the handlers of peer requests.
            tracer: Records ``msg.*`` on peer links.
            interceptor: Asked at the peer fault points; the idle one if None. May be replaced
                later.
            latency_ms_of: Called once per message and link; None delivers in the next turn of the
                loop.
            describe_command: Returns the subject of a command, for fault rules.
        """
        self.interceptor: Interceptor = interceptor or PassAll()
        self._loop = loop
        self._clock = clock
        self._stopwatch_ns = clock.stopwatch_ns
        self._tasks = tasks
        self._tracer = tracer
        self._latency_ms = latency_ms_of
        self._describe = describe_command
        self._handler_by_broker: dict[BrokerId, PeerHandler] = {}
        self._cuts = LinkCuts()
        self._has_cuts = False
        """Whether any link is cut: asked for each message, so an attribute."""
        self._correlation_id = 0
        self._links: dict[Link, Pipe] = {}
        self._pending_calls: dict[
            int, dict[int, PeerCall]
        ] = {}  # by timeout_ms: each in order of deadlines
        self._deadline_timer: TimerHandle | None = None
        self._deadline_armed_ms = 0
        self._waiting_calls: dict[PeerCall, None] = {}  # held or delayed at a fault point
        self._lost_calls: dict[
            PeerCall, None
        ] = {}  # no answer can come, and the sender waits for it

    # Peers

    def register(self, broker_id: BrokerId, handler: PeerHandler) -> None:
        """Hand requests of other brokers to the handler of broker ``broker_id`` from now on."""
        self._handler_by_broker[broker_id] = handler

    def unregister(self, broker_id: BrokerId) -> None:
        """Remove broker ``broker_id``: requests under way to it and from it fail, and new ones
        too.
        """
        self._handler_by_broker.pop(broker_id, None)
        self._fail_where(lambda link: broker_id in link, f"broker {broker_id} went away")

    def cut(
        self, source: BrokerId, target: BrokerId, kind_of_cut: LinkCut = LinkCut.BLACK_HOLE
    ) -> None:
        """Cut the link, both for requests of ``source`` and for the answers to them.

        On a refused link, requests under way and new ones fail until ``heal``. In a black hole they
        wait for the heal, or for their deadline.
        """
        self._cuts.cut((source, target), kind_of_cut)
        self._has_cuts = True
        if kind_of_cut is LinkCut.REFUSED:
            self._fail_where(lambda link: link == (source, target), "the link was cut")

    def heal(self, source: BrokerId, target: BrokerId) -> None:
        """Undo ``cut``: waiting messages go on, unless their senders have given up."""
        was_cut = self._cuts.kind_of_cut((source, target)) is not None
        send_callbacks = self._cuts.heal((source, target))
        self._has_cuts = bool(self._cuts)
        for send_on in send_callbacks:
            self._tasks.run_soon(send_on)
        if was_cut:
            self._cuts.notify_watchers((source, target))

    def reaches(self, source: BrokerId, target: BrokerId) -> bool:
        """Whether the link from ``source`` to ``target`` is whole."""
        return not self._has_cuts or self._cuts.kind_of_cut((source, target)) is None

    def on_heal(self, watcher: Callable[[BrokerId, BrokerId], object]) -> Callable[[], None]:
        """Call ``watcher(source, target)`` whenever a link heals; returns a function that ends
        this.
        """
        return self._cuts.watch(watcher)

    @property
    def in_flight(self) -> int:
        """Peer requests that have no answer yet."""
        return sum(map(len, self._pending_calls.values()))

    def unanswered_requests(self) -> list[Unanswered]:
        """The requests whose senders still wait, oldest first, with their state."""
        now_ms = self._clock.monotonic_ms()
        timed_calls = [
            (call_timeout_ms, call)
            for call_timeout_ms, calls_by_id in self._pending_calls.items()
            for call in calls_by_id.values()
        ]
        return [
            Unanswered(
                source=call.link[0],
                target=call.link[1],
                api_key=call.api_key,
                subject=self._describe(call.command),
                timeout_ms=timeout_ms,
                left_ms=max(0, self._deadline_ms(call) - now_ms),
                is_lost=call in self._lost_calls,
                is_held=call in self._waiting_calls,
                is_cut=self._has_cuts and self._cuts.kind_of_cut(call.link) is not None,
            )
            for timeout_ms, call in sorted(
                timed_calls, key=lambda timed_call: timed_call[1].correlation_id
            )
        ]

    def ask(
        self,
        source: BrokerId,
        target: BrokerId,
        api_key: int,
        api_version: int,
        command: object,
        *,
        timeout_ms: int,
    ) -> Pending[Any]:
        """Send a typed request to a peer; what is returned will hold its typed reply.

        Order is kept per (source, target). It is delivered after the present callback, never inside
        this call. It crosses ``peer.request`` and ``peer.response`` (fault points). It fails with:

        - PeerAnsweredError: only an error code came back;
        - PeerDisconnectedError: the peer is not there or went away, or the link was cut;
        - PeerTimeoutError: no reply within ``timeout_ms`` (monotonic).
        """
        pending_answer: Pending[Any] = Pending(self._tasks)
        pending_calls = self._pending_calls.get(timeout_ms)
        if pending_calls is None:
            pending_calls = self._pending_calls[timeout_ms] = {}
        self._correlation_id += 1
        is_first = not pending_calls
        call = pending_calls[self._correlation_id] = PeerCall(
            link=(source, target),
            api_key=api_key,
            api_version=api_version,
            command=command,
            correlation_id=self._correlation_id,
            asked_ns=self._stopwatch_ns(),
            timeout_ms=timeout_ms,
            answer=pending_answer,
            pending=pending_calls,
        )
        # Others with this timeout were asked before, and the timer watches the first of them.
        if is_first and (
            self._deadline_timer is None or self._deadline_ms(call) < self._deadline_armed_ms
        ):
            self._arm_deadline()
        tracer = self._tracer
        if tracer.on:
            if tracer.full or api_key not in PEER_ROUTINE:
                call.traced_as = _TRACED_MESSAGES
                call.send_event = self._trace_message(
                    "msg.send", source, target, call, is_response=False
                )
            else:
                call.traced_as = _TRACED_POLL if api_key in PEER_POLLS else _TRACED_CAUSE
                trace_scope = tracer.scope
                call.send_event = tracer.cause if trace_scope is None else trace_scope
        if self._latency_ms is not None:
            self._pipe(call.link).send(
                self._latency_ms(source, target), self._due_to(call, lambda: self._arrive(call))
            )
        else:
            self._tasks.run_soon(partial(self._arrive, call))
        return pending_answer

    # The way there

    def _arrive(self, call: PeerCall, *, has_crossed: bool = False) -> None:
        """Handle a request that is at its target, or has crossed its fault point there."""
        if self.interceptor.is_armed and not has_crossed:
            arrive_crossed = partial(self._arrive, call, has_crossed=True)
            self._cross_fault_point(FaultPoint.PEER_REQUEST, call, call.command, arrive_crossed)
            return
        source, target = call.link
        if call.is_lost:
            return
        # A request that has timed out is handled all the same, and its answer thrown away: a sent
        # request reaches the peer, also when the sender has given up on it.
        handler = self._handler_by_broker.get(target)
        if handler is None:
            call.fail(PeerDisconnectedError(f"{call}: no such broker is up"))
            return
        if self._has_cuts and self._is_stopped(call, partial(self._arrive, call, has_crossed=True)):
            return
        tracer, traced_as, cause_before = self._tracer, call.traced_as, None
        if traced_as is _TRACED_MESSAGES:
            call.receive_event = self._trace_message(
                "msg.recv", target, source, call, is_response=False
            )
            cause_before = tracer.set_cause(call.receive_event)
        elif traced_as is _TRACED_CAUSE and call.send_event not in (tracer.scope, NO_CAUSE):
            cause_before = tracer.set_cause(call.send_event)
        try:
            # A command is delivered as an object, without encoding.
            pending_answer = handler(call.api_key, call.api_version, call.command, source)
            if type(pending_answer) is Pending:
                if pending_answer.is_done:
                    self._take_answer(call, pending_answer)
                else:
                    pending_answer.callbacks.append(partial(self._take_answer, call))
            else:
                coroutine = (
                    pending_answer
                    if type(pending_answer) is CoroutineType
                    else as_coroutine(pending_answer)
                )
                self._tasks.drive(
                    coroutine, partial(self._finish_handling, call), name="peer request"
                )
        except Exception as error:  # noqa: BLE001 - a bug in one delivery is its sender's answer
            _peers_log.error("peer.delivery_failed", request=str(call), exc_info=error)
            call.fail(_answered_error(call, ErrorCode.unknown_server_error))
        if cause_before is not None:
            tracer.set_cause(cause_before)

    # The way back

    def _take_answer(self, call: PeerCall, pending_answer: Pending[Any]) -> None:
        if pending_answer.error is not None:
            self._finish_handling(call, None, pending_answer.error)
        elif call.correlation_id in call.pending:
            if call.traced_as is _TRACED_OFF and not (
                self._has_cuts or self.interceptor.is_armed or self._latency_ms is not None
            ):
                del call.pending[call.correlation_id]  # _answer, written out: the hot path
                call.answer.resolve(pending_answer.value)
            else:
                self._send_reply(call, pending_answer.value)

    def _finish_handling(self, call: PeerCall, reply: object, error: BaseException | None) -> None:
        if error is None:
            if call.correlation_id in call.pending:  # is_awaited, written out: the hot path
                self._send_reply(call, reply)
        elif isinstance(error, asyncio.CancelledError):
            call.fail(PeerDisconnectedError(f"{call}: the broker was stopped while it handled it"))
        else:
            if not isinstance(error, PeerAnsweredError):
                _peers_log.error("peer.handler_failed", request=str(call), exc_info=error)
                error = _answered_error(call, ErrorCode.unknown_server_error)
            if call.is_awaited:
                self._return_answer(call, error, partial(call.fail, error))

    def _send_reply(self, call: PeerCall, reply: object) -> None:
        traced_as = call.traced_as
        if traced_as is _TRACED_MESSAGES:
            source, target = call.link
            call.send_event = self._trace_message(
                "msg.send", target, source, call, is_response=True
            )
        elif self._tracer.on:
            scope = self._tracer.scope
            cause = self._tracer.cause if scope is None else scope
            if traced_as is not _TRACED_CAUSE or cause > call.send_event:
                call.send_event = cause
        if self._latency_ms is None and not self.interceptor.is_armed:
            if traced_as is _TRACED_OFF and not self._has_cuts:
                del call.pending[call.correlation_id]
                call.answer.resolve(reply)
            else:
                self._deliver(call, reply)
        else:
            self._return_answer(call, reply, lambda: self._deliver(call, reply))

    def _due_to(self, call: PeerCall, callback: Callable[[], object]) -> Callable[[], object]:
        """The callback, with the message that was sent last as its cause: timers of a link fire for
        each other.
        """
        return self._tracer.bind_cause(callback, call.send_event) if self._tracer.on else callback

    def _return_answer(
        self, call: PeerCall, answer: object, deliver_answer: Callable[[], object]
    ) -> None:
        """Bring an answer or an error back through latency and the fault point."""
        if self._latency_ms is None:
            self._cross_fault_point(FaultPoint.PEER_RESPONSE, call, answer, deliver_answer)
            return
        source, target = call.link
        self._pipe((target, source), is_backward=True).send(
            self._latency_ms(target, source),
            self._due_to(
                call,
                lambda: self._cross_fault_point(
                    FaultPoint.PEER_RESPONSE, call, answer, deliver_answer
                ),
            ),
        )

    def _is_stopped(self, call: PeerCall, send_on: Callable[[], object]) -> bool:
        """Whether a message can't go on because its link is cut. In a black hole, ``send_on`` is
        called after a heal if the sender still waits then.
        """
        kind_of_cut = self._cuts.kind_of_cut(call.link)
        if kind_of_cut is None:
            return False
        if kind_of_cut is LinkCut.REFUSED:
            call.fail(PeerDisconnectedError(f"{call}: the link is cut"))
            return True

        def arrive_late() -> None:
            if call.is_awaited:
                send_on()

        self._cuts.hold(call.link, arrive_late)
        return True

    def _deliver(self, call: PeerCall, reply: object) -> None:
        if self._has_cuts and self._is_stopped(call, lambda: self._deliver(call, reply)):
            return
        traced_as, receive_event = call.traced_as, call.send_event
        if traced_as < _TRACED_CAUSE or (
            traced_as is _TRACED_CAUSE and receive_event in (self._tracer.scope, NO_CAUSE)
        ):
            call.succeed(reply)
            return
        if traced_as is _TRACED_MESSAGES:
            source, target = call.link
            receive_event = self._trace_message("msg.recv", source, target, call, is_response=True)
        cause_before = self._tracer.set_cause(receive_event)
        call.succeed(reply)
        self._tracer.set_cause(cause_before)

    # Fault points

    def _cross_fault_point(
        self,
        point: FaultPoint,
        call: PeerCall,
        crossing_content: object,
        send_on: Callable[[], object],
    ) -> None:
        if not self.interceptor.is_armed:
            send_on()
        elif not self._tracer.on:
            self._ask_interceptor(point, call, crossing_content, send_on)
        else:
            cause_before = self._tracer.set_cause(call.send_event)
            self._ask_interceptor(point, call, crossing_content, send_on)
            self._tracer.set_cause(cause_before)

    def _ask_interceptor(
        self,
        point: FaultPoint,
        call: PeerCall,
        crossing_content: object,
        send_on: Callable[[], object],
    ) -> None:
        verdict = self.interceptor.cross(self._crossing(point, call, crossing_content))
        if verdict is None:
            send_on()
        elif isinstance(verdict, FaultEffect):
            self._obey_verdict(point, call, verdict, send_on)
        else:
            self._waiting_calls[call] = None
            self._trace_fault(point, "msg.hold", call)
            self._tasks.drive(
                as_coroutine(verdict),
                lambda late_verdict, error: self._resume_released(
                    point, call, late_verdict, error, send_on
                ),
                name=f"held-{point}-{call.correlation_id}",
            )

    def _resume_released(
        self,
        point: FaultPoint,
        call: PeerCall,
        fault_effect: FaultEffect | None,
        error: BaseException | None,
        send_on: Callable[[], object],
    ) -> None:
        self._waiting_calls.pop(call, None)
        if error is not None:
            call.fail(PeerDisconnectedError(f"{call}: its wait at {point} was ended ({error!r})"))
        elif fault_effect is None:
            send_on()
        else:
            self._obey_verdict(point, call, fault_effect, send_on)

    def _obey_verdict(
        self, point: FaultPoint, call: PeerCall, verdict: FaultEffect, send_on: Callable[[], object]
    ) -> None:
        if verdict.outcome is SubmitOutcome.PASS:
            send_on()
        elif verdict.outcome is SubmitOutcome.ERROR:
            call.fail(_answered_error(call, ErrorCode(verdict.error)))
        elif verdict.outcome is SubmitOutcome.DUPLICATE:
            send_on()
            for _ in range(verdict.times):
                self._deliver_copy(call)
        elif verdict.outcome is SubmitOutcome.DROP_ANSWER:
            self._arrive(call.copy_without_answer(), has_crossed=True)
            self._note_lost(call)
        elif verdict.outcome is SubmitOutcome.DISCONNECT:
            self._fail_where(lambda link: link == call.link, "the connection broke")
        else:  # DROP
            self._trace_fault(point, "msg.drop", call)
            self._note_lost(call)

    def _note_lost(self, call: PeerCall) -> None:
        """Note that no answer will come.

        The sender learns that at the deadline, or when the cluster clock is advanced beyond it: an
        advance makes no message on its way older.
        """
        if not call.is_awaited:
            return
        self._lost_calls[call] = None
        left_ms = self._deadline_ms(call) - self._clock.monotonic_ms()
        # Without an advance the deadline comes first, by a millisecond.
        self._clock.call_at(self._clock.now_ms() + left_ms + 1, partial(self._give_up, call))

    def _give_up(self, call: PeerCall) -> None:
        self._lost_calls.pop(call, None)
        if call.is_awaited:
            timeout_ms = next(
                call_timeout_ms
                for call_timeout_ms, call_by_id in self._pending_calls.items()
                if call_by_id is call.pending
            )
            self._time_out(call, timeout_ms)

    def _trace_fault(self, point: FaultPoint, event_kind: str, call: PeerCall) -> None:
        """Trace the effect of a fault on a message."""
        if self._tracer.on:
            source, target = call.link
            is_response = point is FaultPoint.PEER_RESPONSE
            node, peer = (source, target) if is_response else (target, source)
            self._trace_message(event_kind, node, peer, call, is_response=is_response)

    def _deliver_copy(self, call: PeerCall) -> None:
        call_copy = call.copy_without_answer(is_copy=True)
        self._trace_fault(FaultPoint.PEER_REQUEST, "msg.dup", call_copy)
        self._cross_fault_point(
            FaultPoint.PEER_REQUEST,
            call_copy,
            call_copy.command,
            partial(self._arrive, call_copy, has_crossed=True),
        )

    def _crossing(self, point: FaultPoint, call: PeerCall, crossing_content: object) -> Crossing:
        source, target = call.link
        return Crossing(
            point=point,
            source=f"broker/{source}",
            target=f"broker/{target}",
            api_key=call.api_key,
            api_version=call.api_version,
            correlation_id=call.correlation_id,
            subject=self._describe(call.command),
            line=f"broker/{source} -> broker/{target}",
            is_copy=call.is_copy,
            content=crossing_content,
        )

    # Deadlines, latency, trace

    def _deadline_ms(self, call: PeerCall) -> int:
        return self._clock.ms_of(call.asked_ns) + call.timeout_ms

    def _arm_deadline(self) -> None:
        """Arm a timer for the earliest deadline.

        Requests with the same timeout are in the order of their deadlines, so only the first of
        each counts.
        """
        first_deadlines = [
            self._deadline_ms(next(iter(call_by_id.values())))
            for call_by_id in self._pending_calls.values()
            if call_by_id
        ]
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None
        if first_deadlines:
            self._deadline_armed_ms = min(first_deadlines)
            delay_ms = max(0, self._deadline_armed_ms - self._clock.monotonic_ms())
            self._deadline_timer = self._clock.call_later(delay_ms, self._expire)

    def _expire(self) -> None:
        self._deadline_timer = None
        now_ms = self._clock.monotonic_ms()
        for timeout_ms, call_by_id in list(self._pending_calls.items()):
            while (
                call_by_id and self._deadline_ms(call := next(iter(call_by_id.values()))) <= now_ms
            ):
                self._time_out(call, timeout_ms)
            if not call_by_id:
                del self._pending_calls[timeout_ms]
        self._arm_deadline()

    def _time_out(self, call: PeerCall, timeout_ms: int) -> None:
        self._lost_calls.pop(call, None)
        error = PeerTimeoutError(f"{call}: no answer within {timeout_ms} ms")
        if not self._tracer.on:
            call.fail(error)
            return
        cause_before = self._tracer.set_cause(
            self._tracer.emit(
                "timer.fire",
                f"broker/{call.link[0]}",
                parents=(call.send_event,),
                importance=0 if call.api_key in PEER_POLLS else None,
                data={"timer": "request.timeout", "waited_ms": timeout_ms},
            )
        )
        call.fail(error)
        self._tracer.set_cause(cause_before)

    def _fail_where(self, is_affected: Callable[[Link], bool], reason: str) -> None:
        pending_calls = [
            call for call_by_id in self._pending_calls.values() for call in call_by_id.values()
        ]
        for call in [*pending_calls, *self._waiting_calls]:
            if is_affected(call.link):
                call.is_lost = True
                call.fail(PeerDisconnectedError(f"{call}: {reason}"))

    def _pipe(self, link: Link, *, is_backward: bool = False) -> Pipe:
        pipe_key = cast(Link, (*link, "back")) if is_backward else link
        pipe = self._links.get(pipe_key)
        if pipe is None:
            pipe = self._links[pipe_key] = Pipe(self._clock)
        return pipe

    def _trace_message(
        self, kind: str, broker_id: BrokerId, peer: BrokerId, call: PeerCall, *, is_response: bool
    ) -> int:
        tracer = self._tracer
        parents = call.causes(kind, tracer.cause, is_response=is_response)
        is_routine = call.api_key in PEER_ROUTINE and kind in ("msg.send", "msg.recv")
        return tracer.emit(
            kind,
            f"broker/{broker_id}",
            parents=parents,
            importance=0 if is_routine else None,
            data={
                "api": api_name(call.api_key),
                "version": call.api_version,
                "correlation": call.correlation_id,
                "peer": f"broker/{peer}",
                "response": is_response,
            },
        )


def _answered_error(call: PeerCall, error: ErrorCode) -> PeerAnsweredError:
    return PeerAnsweredError(f"{call}: answered with {error.name}", error=int(error))


class LoopNetwork(PeerLinks):
    """Sockets for clients, and links between brokers."""

    async def listen(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> SocketListener:
        """Accept client connections, with TLS if given; ``port`` 0 picks a free one.

        Raises:
            OSError: The address is busy or can't be bound.
        """
        gates = None if tls is None else TlsGates(self._loop, tls, factory)
        server = await self._loop.create_server(
            gates or factory, host, port, backlog=LISTEN_BACKLOG
        )
        address = server.sockets[0].getsockname()
        return SocketListener(server, (address[0], address[1]), gates)

    async def keep(self, host: str, port: int) -> SocketListener:
        """Occupy a free port until ``close``, refusing connections; otherwise the system could give
        the port to another process.

        Raises:
            OSError: The port is busy.
        """
        server = await self._loop.create_server(asyncio.Protocol, host, port, start_serving=False)
        return SocketListener(server, (host, port), None)

    async def connect(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> asyncio.Transport:
        """Open a client connection, with TLS if given.

        Raises:
            OSError: There is no listener.
        """
        transport, _ = await self._loop.create_connection(factory, host, port, ssl=tls)
        return transport


class SocketListener(msgspec.Struct, eq=False):
    """A listening socket: a server of the loop."""

    server: asyncio.AbstractServer
    address: tuple[str, int]
    """Host and port that it is bound to."""
    gates: TlsGates | None

    async def close(self) -> None:
        """Stop accepting."""
        # Not wait_closed(): from Python 3.12 on it waits for the connections too, which the server
        # closes itself.
        self.server.close()
        if self.gates is not None:
            self.gates.close()
        await asyncio.sleep(0)  # uvloop frees the port in the next turn


def reset(transport: asyncio.Transport) -> None:
    """Close a connection at once: the other end gets a reset (RST), and loses what it has not
    read.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None:  # virtual ones have none
        no_linger_option = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger_option)
    transport.abort()


_log: Final = Logger(__name__)

HANDSHAKE_TIMEOUT_S: Final = 60.0
"""asyncio's own default."""
HANDSHAKES_PER_TURN: Final = 8
"""Handshakes that begin in one turn of the loop: each signs, which takes 0.15 ms."""


class _AlertingTlsObject(ssl.SSLObject):
    """A TLS object that sends its alert before it fails."""

    send_alert: Callable[[], None]

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            self.send_alert()
            raise


class _ContextOfOneConnection(ssl.SSLContext):
    """Replaces the listener's context for one connection: only here does the loop show the TLS
    object that it makes for a connection.
    """

    gate: TlsGate
    shared: ssl.SSLContext

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing_bio: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - the signature is Python's
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Make the TLS object of the connection."""
        host_name = cast(str | None, server_hostname)
        tls_object = self.shared.wrap_bio(incoming, outgoing_bio, server_side, host_name, session)
        assert isinstance(tls_object, _AlertingTlsObject)
        tls_object.send_alert = partial(self.gate.send_alert, outgoing_bio)
        incoming.write(self.gate.take_early_bytes())
        return tls_object


_RECORD_HEADER: Final = struct.Struct("!BBxH")
"""Type, major version and size of a TLS record."""
_HANDSHAKE_RECORD: Final = 22
_TLS_MAJOR: Final = 3
_RECORD_MAX: Final = 2**14 + 2**11
_CLIENT_HELLO: Final = 1
_HELLO_HEADER_SIZE: Final = 4
_HELLO_MAX: Final = 131_396
"""OpenSSL's SSL_MAX_CLIENT_HELLO: it refuses larger ones."""


class HelloWatch:
    """Looks whether a client's first bytes have its whole ClientHello, each byte once."""

    __slots__ = ("_head", "_hello_bytes", "_record_start")

    def __init__(self) -> None:
        self._record_start = 0
        self._hello_bytes = 0
        """Bytes of the message in the records so far."""
        self._head = bytearray()

    def can_be_judged(self, early_bytes: bytearray) -> bool:
        """Whether TLS can decide about the bytes so far: the ClientHello is whole, or they are no
        beginning of one.
        """
        if early_bytes and early_bytes[0] != _HANDSHAKE_RECORD:
            return True
        while len(early_bytes) >= (payload_start := self._record_start + _RECORD_HEADER.size):
            kind, version, size = _RECORD_HEADER.unpack_from(early_bytes, self._record_start)
            if kind != _HANDSHAKE_RECORD or version != _TLS_MAJOR or not 0 < size <= _RECORD_MAX:
                return True
            if len(early_bytes) < payload_start + size:
                return False
            if len(self._head) < _HELLO_HEADER_SIZE:
                head_end = payload_start + min(size, _HELLO_HEADER_SIZE - len(self._head))
                self._head += early_bytes[payload_start:head_end]
            self._record_start = payload_start + size
            self._hello_bytes += size
            if len(self._head) == _HELLO_HEADER_SIZE:
                hello_size = int.from_bytes(self._head[1:], "big")
                if (
                    self._head[0] != _CLIENT_HELLO
                    or hello_size > _HELLO_MAX
                    or self._hello_bytes >= _HELLO_HEADER_SIZE + hello_size
                ):
                    return True
        return False


class TlsGates:
    """Protocol factory of a TLS listener: makes a gate for each connection.

    A client without its whole ClientHello keeps nothing but the bytes that it has sent. Handshakes
    begin in the order in which their ClientHellos were whole, a few in each turn of the loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: ssl.SSLContext,
        factory: Callable[[], asyncio.Protocol],
    ) -> None:
        context.sslobject_class = _AlertingTlsObject
        self._context = context
        self._loop = loop
        self._factory = factory
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting_gates: dict[TlsGate, asyncio.TimerHandle] = {}
        """Connections without their whole ClientHello, with the ends of their waits."""
        self._ready_gates: deque[TlsGate] = deque()

    def __call__(self) -> asyncio.Protocol:
        return TlsGate(self)

    def close(self) -> None:
        """Cancel the unfinished handshakes."""
        for gate in (*self._waiting_gates, *self._ready_gates):
            self.stop_waiting(gate)
            gate.close()
        self._ready_gates.clear()
        for task in self._tasks:
            task.cancel()

    def lead(self, gate: TlsGate) -> None:
        """Begin the handshake of a connection, after those that came before it."""
        self._ready_gates.append(gate)
        if len(self._ready_gates) == 1:
            self._loop.call_soon(self._begin_handshakes)

    def wait_for_hello(self, gate: TlsGate) -> None:
        """Give a connection up unless its ClientHello comes in time."""
        self._waiting_gates[gate] = self._loop.call_later(
            HANDSHAKE_TIMEOUT_S,
            gate.give_up,
            f"no whole ClientHello within {HANDSHAKE_TIMEOUT_S:.0f} s",
        )

    def stop_waiting(self, gate: TlsGate) -> bool:
        """End the wait for a ClientHello; returns whether there was one."""
        timer = self._waiting_gates.pop(gate, None)
        if timer is not None:
            timer.cancel()
        return timer is not None

    def _begin_handshakes(self) -> None:
        for _ in range(min(HANDSHAKES_PER_TURN, len(self._ready_gates))):
            gate = self._ready_gates.popleft()
            if gate.raw_transport is None or gate.is_lost:
                continue
            task = self._loop.create_task(self._lead(gate, gate.raw_transport))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._ready_gates:
            self._loop.call_soon(self._begin_handshakes)

    async def _lead(self, gate: TlsGate, raw_transport: asyncio.Transport) -> None:
        if gate.is_lost:
            return
        context = _ContextOfOneConnection(ssl.PROTOCOL_TLS_SERVER)
        context.gate, context.shared = gate, self._context
        try:
            transport = await self._loop.start_tls(
                raw_transport,
                gate,
                context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            )
        except OSError as error:  # TLS errors are OSErrors
            gate.give_up(str(error) or "the client went away")
            return
        if transport is not None:
            gate.hand_over(transport, self._factory())


class TlsGate(asyncio.Protocol):
    """Protocol of one connection until its TLS handshake is over."""

    def __init__(self, gates: TlsGates) -> None:
        self._gates = gates
        self.raw_transport: asyncio.Transport | None = None
        self._peer_name = ""
        self._hello_watch: HelloWatch | None = HelloWatch()
        """None once the handshake may begin."""
        self._early_bytes = bytearray()
        """Bytes that nobody reads yet: encrypted ones before the handshake begins; later decrypted
        ones, until the protocol is connected.
        """
        self.is_lost = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the ClientHello of a new connection."""
        # A cast, not a check: uvloop's transports are none of asyncio's classes.
        self.raw_transport = cast(asyncio.Transport, transport)
        self._peer_name = str(transport.get_extra_info("peername"))
        self._gates.wait_for_hello(self)

    def data_received(self, data: bytes) -> None:
        """Keep the bytes until the protocol is connected; begin the handshake once it can."""
        self._early_bytes += data
        if self._hello_watch is None or not self._hello_watch.can_be_judged(self._early_bytes):
            return
        self._hello_watch = None
        self._gates.stop_waiting(self)
        assert self.raw_transport is not None
        self.raw_transport.pause_reading()  # start_tls resumes it
        self._gates.lead(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self.is_lost = True
        if self._gates.stop_waiting(self):
            self.give_up("the client went away")

    def give_up(self, reason: str) -> None:
        """Close a connection whose handshake has failed."""
        self._gates.stop_waiting(self)
        _log.warning("TLS handshake failed", peer=self._peer_name, reason=reason)
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self.raw_transport is not None:
            self.raw_transport.close()

    # For the handshake

    def take_early_bytes(self) -> bytes:
        """Return the bytes received so far and forget them; later bytes arrive decrypted."""
        early_bytes = bytes(self._early_bytes)
        self._early_bytes.clear()
        return early_bytes

    def send_alert(self, outgoing_bio: ssl.MemoryBIO) -> None:
        """Send the bytes that TLS has ready."""
        alert = outgoing_bio.read()
        if alert and self.raw_transport is not None:
            self.raw_transport.write(alert)

    def hand_over(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        """End the gate's work after the handshake: from now on the connection is the protocol's."""
        if self.is_lost:
            return
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._early_bytes:
            protocol.data_received(bytes(self._early_bytes))
