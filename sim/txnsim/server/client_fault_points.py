"""What happens to a client's requests and answers at fault points.

While faults are armed, a request goes across ``client.request``, through its handler, and across
``client.response``. What the connection itself must do (break, mute, damage data) is returned as a
``FaultOutcome``; the connection does it.

Throttling is Kafka's (KIP-219; compared with 4.3.1 under quotas). In all versions the answer goes
out at once, with its throttle time where the version has the field, and the connection is muted for
that time; by the version a client knows whether it should wait on its side, too. A throttled Fetch
is answered without partitions (FetchSession.getThrottledResponse), so its client asks for the same
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.api.request import Handler, NoResponse, Request
from txnsim.errors import BadInputError, ErrorCode
from txnsim.faults.damage import SIZE_BYTES, damage_message
from txnsim.faults.interception import (
    Crossing,
    Damage,
    FaultEffect,
    Interceptor,
    Rewriting,
    Slices,
    SubmitOutcome,
)
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import NO_SUBJECT
from txnsim.loggers import Logger
from txnsim.types import uuid_text
from txnsim.wire import codec
from txnsim.wire.apis import FETCHES, api_name

if TYPE_CHECKING:
    from txnsim.runtime.trace import Tracer
    from txnsim.server._listener import BrokerListener

_log: Final = Logger("txnsim.server")

PRODUCE: Final = 0

_LOST_COPY_OUTCOMES: Final = (SubmitOutcome.DROP, SubmitOutcome.ERROR, SubmitOutcome.DISCONNECT)
"""Outcomes of fault rules after which a copy of a request is not handled."""

FrameParser = Callable[[bytes], Request]


class FaultOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a connection has to do after a request, in addition to or instead of answering."""

    request: Request
    """The request to answer; a damaged one may have become another request."""
    reply: Any = NoResponse.NEVER
    mute_ms: int = 0
    """Time after the answer in which no request is handled."""
    damage: Damage | None = None
    is_broken: bool = False
    """Whether the connection is to be broken."""
    is_reset: bool = False
    """Whether it is to be broken with RST."""
    slices: Slices | None = None
    """The pieces in which the answer is written."""
    decode_error: BadInputError | None = None
    """Why the damaged request can't be read: the connection is to be closed, as in Kafka."""


class ClientFaultPoints(msgspec.Struct, eq=False):
    """The fault points of one connection."""

    _listener: BrokerListener
    _line: str
    """The connection's name, unique in the cluster."""
    _parse: FrameParser
    """Decodes a frame of this connection."""

    async def connection_effect(self) -> FaultEffect:
        """What the fault rules do to a new connection, before anything is read."""
        return await self._new_passage().connection_effect(self._listener.node, self._line)

    async def handle(self, request: Request, handler: Handler, frame: bytes) -> Any:
        """Handle a request, with all armed faults.

        Returns:
            The reply, or a ``FaultOutcome``.
        """
        if not self._listener.network.interceptor.is_armed:
            if self._listener.is_gone:  # it ended while the request waited for the controller
                return NoResponse.NEVER
            return await self.cross_response(request, handler, await handler.handle(request))
        crossing = self._crossing_of(FaultPoint.CLIENT_REQUEST, request, handler)
        verdict = await self._new_passage().cross(crossing)
        if self._listener.is_gone:
            return NoResponse.NEVER  # the broker ended while the request was held
        match verdict.outcome:
            case SubmitOutcome.DROP:
                # The request is lost: the client gets no further answer on this connection.
                return NoResponse.NEVER
            case SubmitOutcome.DISCONNECT:
                return FaultOutcome(request=request, is_broken=True, is_reset=verdict.is_reset)
            case SubmitOutcome.ERROR:
                reply = handler.refuse(request, ErrorCode(verdict.error))
                return await self.cross_response(request, handler, reply)
            case SubmitOutcome.CORRUPT:
                assert verdict.damage is not None
                return await self._handle_damaged(request, frame, verdict.damage)
        reply = await handler.handle(request)
        for _ in range(verdict.times):
            self._send_copy(crossing, frame)
        if verdict.outcome is SubmitOutcome.DROP_ANSWER:
            return NoResponse.NEVER
        return await self.cross_response(request, handler, reply, mute_ms=verdict.throttle_ms)

    async def _handle_damaged(self, original_request: Request, frame: bytes, damage: Damage) -> Any:
        """Handle a damaged request, if it can still be decoded."""
        try:
            batch = batch_in_request(original_request.api_key, original_request.message)
            request = self._parse(damaged_frame(frame, damage, batch=batch))
        except BadInputError as complaint:
            return FaultOutcome(request=original_request, decode_error=complaint)
        handler = request.handler
        if request.refused is None:
            reply = await handler.handle(request)
        else:
            reply = handler.refuse(request, request.refused)
        answer = await self.cross_response(request, handler, reply)
        return (
            answer
            if isinstance(answer, FaultOutcome)
            else FaultOutcome(request=request, reply=answer)
        )

    async def cross_response(
        self, request: Request, handler: Handler, reply: Any, *, mute_ms: int = 0
    ) -> Any:
        """Bring a reply across the response fault point, where it may be lost."""
        verdict = FaultEffect.PASS
        if self._listener.network.interceptor.is_armed:
            crossing = self._crossing_of(FaultPoint.CLIENT_RESPONSE, request, handler, reply)
            verdict = await self._new_passage().cross(crossing)
        match verdict.outcome:
            case SubmitOutcome.DROP:
                return NoResponse.NEVER
            case SubmitOutcome.DISCONNECT:
                return FaultOutcome(request=request, is_broken=True, is_reset=verdict.is_reset)
            case SubmitOutcome.ERROR:
                reply = handler.refuse(request, ErrorCode(verdict.error))
            case SubmitOutcome.REWRITE:
                assert verdict.rewriting is not None
                reply = rewritten_reply(request, reply, verdict.rewriting)
        mute_ms = max(mute_ms, verdict.throttle_ms)
        if mute_ms:
            reply = _throttled_answer(request, reply, mute_ms)
        elif verdict.damage is None and verdict.slices is None:
            return reply
        return FaultOutcome(
            request=request,
            reply=reply,
            mute_ms=mute_ms,
            damage=verdict.damage,
            slices=verdict.slices,
        )

    def _send_copy(self, crossing: Crossing, frame: bytes) -> None:
        """Handle a duplicate of the request, and throw its answer away."""
        request = self._parse(frame)
        handler = request.handler
        self._listener.tasks.drive(
            self._handle_copy(self._new_passage().send_copy(crossing), request, handler),
            partial(_note_failure, request),
            name=f"copy of {handler.name}",
        )

    async def _handle_copy(
        self, pending_arrival: Awaitable[bool], request: Request, handler: Handler
    ) -> None:
        if await pending_arrival and not self._listener.is_gone:
            await handler.handle(request)

    def _crossing_of(
        self, point: FaultPoint, request: Request, handler: Handler, reply: Any = None
    ) -> Crossing:
        is_answer = point is FaultPoint.CLIENT_RESPONSE
        api_key = request.api_key
        batch = (
            batch_in_answer(api_key, reply)
            if is_answer
            else batch_in_request(api_key, request.message)
        )
        return Crossing(
            point=point,
            source=f"client/{request.client_id or ''}",
            target=self._listener.node,
            api_key=request.api_key,
            api_version=request.api_version,
            correlation_id=request.correlation_id,
            subject=handler.subject(request),
            line=self._line,
            client_instance_id=_instance_text(request),
            carries_batches=batch is not None,
            content=reply if is_answer else request.message,
        )

    def _new_passage(self) -> Passage:
        return Passage(self._listener.network.interceptor, self._listener.tracer)


class Passage(msgspec.Struct, eq=False):
    """Brings messages across fault points, and traces what faults do to them."""

    _interceptor: Interceptor
    _tracer: Tracer

    async def cross(self, crossing: Crossing) -> FaultEffect:
        """The effect of the fault rules on a message that crosses a point, after any delay or
        hold.
        """
        verdict = self._interceptor.cross(crossing) if self._interceptor.is_armed else None
        if verdict is not None and not isinstance(verdict, FaultEffect):
            self._trace_fault("msg.hold", crossing)
            verdict = await verdict
        if verdict is not None and verdict.outcome is SubmitOutcome.DROP:
            self._trace_fault("msg.drop", crossing)
        return verdict or FaultEffect.PASS

    async def connection_effect(self, node: str, connection_name: str) -> FaultEffect:
        """What the fault rules do to a new connection, before anything is read."""
        opening_crossing = Crossing(
            point=FaultPoint.CONNECTION_OPEN,
            source="client/",
            target=node,
            api_key=-1,
            api_version=-1,
            correlation_id=0,
            subject=NO_SUBJECT,
            line=connection_name,
        )
        return await self.cross(opening_crossing)

    def send_copy(self, crossing: Crossing) -> Coroutine[Any, Any, bool]:
        """Send a copy of a request across the point, traced at once; returns whether a broker
        handles the copy.
        """
        self._trace_fault("msg.dup", crossing)
        return self._submit_copy(msgspec.structs.replace(crossing, is_copy=True))

    async def _submit_copy(self, crossing: Crossing) -> bool:
        verdict = await self.cross(crossing)
        return verdict.outcome not in _LOST_COPY_OUTCOMES

    def _trace_fault(self, event_kind: str, crossing: Crossing) -> None:
        """Trace what a fault does to a message; that event is the current cause from now on."""
        tracer = self._tracer
        if tracer.on and crossing.api_key >= 0:
            data = {
                "api": api_name(crossing.api_key),
                "version": crossing.api_version,
                "correlation": crossing.correlation_id,
                "peer": crossing.source,
                "response": crossing.point
                in (FaultPoint.CLIENT_RESPONSE, FaultPoint.PEER_RESPONSE),
            }
            tracer.set_cause(tracer.emit(event_kind, crossing.target, data=data))


def _instance_text(request: Request) -> str:
    client_instance_id = request.link.client_instance_id
    return "" if client_instance_id is None else uuid_text(client_instance_id)


def rewritten_reply(request: Request, reply: Any, rewriting: Rewriting) -> Any:
    """A reply with a changed field; a reply that is encoded already is decoded first."""
    if isinstance(reply, NoResponse):
        return reply
    return rewriting.apply(_decoded_message(request, reply))


def _decoded_message(request: Request, reply: Any) -> Any:
    """The message of a reply, which may be encoded already."""
    if not isinstance(reply, bytes):
        return reply
    api_key, api_version = request.api_key, request.api_version
    frame = codec.frame_response(api_key, api_version, request.correlation_id, reply)
    return codec.read_response(api_key, api_version, frame[SIZE_BYTES:])[1]


def batch_in_answer(api_key: int, reply: Any) -> bytes | None:
    """The first record batches in the answer to a Fetch or ShareFetch, if it has any."""
    if api_key not in FETCHES or isinstance(reply, bytes | NoResponse):
        return None
    return _first_batch(partition for topic in reply.responses for partition in topic.partitions)


def batch_in_request(api_key: int, message: Any) -> bytes | None:
    if api_key != PRODUCE:
        return None
    return _first_batch(
        partition for topic in message.topic_data for partition in topic.partition_data
    )


def _first_batch(partitions: Iterable[Any]) -> bytes | None:
    return next((bytes(partition.records) for partition in partitions if partition.records), None)


def damaged_frame(frame: bytes, damage: Damage, *, batch: bytes | None) -> bytes:
    """The damaged frame as the broker reads it; a smaller length cuts it off."""
    message = len(frame).to_bytes(4, "big") + frame
    message = damage_message(message, damage, batch=batch)
    return message[4 : 4 + int.from_bytes(message[:4], "big")]


def _throttled_answer(request: Request, reply: Any, throttle_ms: int) -> Any:
    """The reply with its throttle time, if its version has that field."""
    if isinstance(reply, NoResponse):
        return reply
    return with_throttle_time(request.api_key, _decoded_message(request, reply), throttle_ms)


def with_throttle_time(api_key: int, message: Any, throttle_ms: int) -> Any:
    """The message of an answer with its throttle time, if its version has that field."""
    if not hasattr(message, "throttle_time"):
        return message
    changed_fields: dict[str, object] = {"throttle_time": timedelta(milliseconds=throttle_ms)}
    if api_key in FETCHES:
        changed_fields["responses"] = ()
    return replace(message, **changed_fields)


def _note_failure(request: Request, _answer: object, error: BaseException | None) -> None:
    if error is not None and not isinstance(error, asyncio.CancelledError):
        _log.error("request failed by a bug", api=api_name(request.api_key), exc_info=error)
