"""What happens to a client's requests and answers at fault points.

A request that somebody watches takes this way round: across ``client.request``, through its
handler, across ``client.response``. What must be done to the connection itself (break it, mute it,
damage what it carries) is told back as a ``Struck``; the connection does it.

Throttling is Kafka's (KIP-219; 4.3.1 was asked with quotas): whatever the version, the answer goes
out at once with its throttle time, where the version has the field, and the connection is muted for
as long; by its version a client knows whether it should wait on its side, too. A throttled Fetch is
answered without partitions (FetchSession.getThrottledResponse), so its reader asks for the same
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from txnsim.api.request import NOBODY, Answer, Handler, Request
from txnsim.errors import BadInputError, ErrorCode
from txnsim.faults.damage import damaged
from txnsim.faults.points import FaultPoint
from txnsim.types import Crossing, Damage, SubmitOutcome, Verdict
from txnsim.wire import codec
from txnsim.wire.apis import api_name

if TYPE_CHECKING:
    from txnsim.server.listener import BrokerListener

_log: Final = structlog.get_logger("txnsim.server")

PASS: Final = Verdict(outcome=SubmitOutcome.PASS)
PRODUCE: Final = 0
FETCH: Final = 1

_LOST: Final = (SubmitOutcome.DROP, SubmitOutcome.ERROR, SubmitOutcome.DISCONNECT)
"""What keeps a copy from being handled."""

Parse = Callable[[bytes], tuple[Request, Handler, ErrorCode | None]]
"""From a frame to the request, its handler, and the error that answers it at once."""


class Struck(msgspec.Struct, frozen=True, kw_only=True):
    """What a connection has to do besides answering."""

    request: Request
    """The one to answer: damaged, a request may have become another."""
    reply: Any = Answer.NEVER
    mute_ms: int = 0
    """Nothing is taken up for so long after the answer."""
    damage: Damage | None = None
    """What is done to the answer's bytes."""
    is_broken: bool = False
    """The connection breaks."""
    complaint: BadInputError | None = None
    """The damaged request can't be read: the connection is closed, as Kafka does."""


class ClientCrossings:
    """The fault points of one connection."""

    __slots__ = ("_line", "_listener", "_parse")

    def __init__(self, listener: BrokerListener, *, line: str, parse: Parse) -> None:
        """Watch one connection.

        Args:
            listener: Where the client has connected.
            line: The connection's name, unlike every other's.
            parse: Reads a frame of this connection.
        """
        self._listener = listener
        self._line = line
        self._parse = parse

    async def opened(self) -> Verdict | None:
        """The connection is there, nothing of it has been read."""
        return await self._cross(
            Crossing(
                point=FaultPoint.CONNECTION_OPEN,
                source="client/",
                target=self._listener.node,
                api_key=-1,
                api_version=-1,
                correlation_id=0,
                subject=NOBODY,
                line=self._line,
            )
        )

    async def handle(self, request: Request, handler: Handler, frame: bytes) -> Any:
        """Bring a request to its handler and its answer back, past whatever is armed.

        Returns:
            The reply, or a ``Struck``.
        """
        if not self._listener.network.interceptor.armed:
            if self._listener.is_gone:  # it has waited for the controller until then
                return Answer.NEVER
            return await self._leave(request, handler, await handler.handle(request))
        crossing = self._describe(FaultPoint.CLIENT_REQUEST, request, handler)
        verdict = await self._cross(crossing) or PASS
        if self._listener.is_gone:
            return Answer.NEVER  # the broker that it was held for is none any more
        match verdict.outcome:
            case SubmitOutcome.DROP:
                # Lost on its way: the client hears nothing on this connection any more.
                return Answer.NEVER
            case SubmitOutcome.DISCONNECT:
                return Struck(request=request, is_broken=True)
            case SubmitOutcome.ERROR:
                reply = handler.refuse(request, ErrorCode(verdict.error))
                return await self._leave(request, handler, reply)
            case SubmitOutcome.CORRUPT:
                assert verdict.damage is not None
                return await self._handle_damaged(request, frame, verdict.damage)
        reply = await handler.handle(request)
        for _ in range(verdict.times):
            self._send_copy(crossing, frame)
        if verdict.outcome is SubmitOutcome.DROP_ANSWER:
            return Answer.NEVER
        return await self._leave(request, handler, reply, mute_ms=verdict.throttle_ms)

    async def _handle_damaged(self, sent: Request, frame: bytes, damage: Damage) -> Any:
        """Handle what has become of a request, if it still is one."""
        try:
            request, handler, refused = self._parse(_damaged_frame(sent, frame, damage))
        except BadInputError as complaint:
            return Struck(request=sent, complaint=complaint)
        if refused is None:
            reply = await handler.handle(request)
        else:
            reply = handler.refuse(request, refused)
        answer = await self._leave(request, handler, reply)
        return answer if isinstance(answer, Struck) else Struck(request=request, reply=answer)

    async def _leave(
        self, request: Request, handler: Handler, reply: Any, *, mute_ms: int = 0
    ) -> Any:
        """The response point: the request has taken effect, its answer may still be lost."""
        verdict = PASS
        if self._listener.network.interceptor.armed:
            crossing = self._describe(FaultPoint.CLIENT_RESPONSE, request, handler, reply)
            verdict = await self._cross(crossing) or PASS
        match verdict.outcome:
            case SubmitOutcome.DROP:
                return Answer.NEVER
            case SubmitOutcome.DISCONNECT:
                return Struck(request=request, is_broken=True)
            case SubmitOutcome.ERROR:
                reply = handler.refuse(request, ErrorCode(verdict.error))
        mute_ms = max(mute_ms, verdict.throttle_ms)
        if mute_ms:
            reply = _throttled(request, reply, mute_ms)
        elif verdict.damage is None:
            return reply
        return Struck(request=request, reply=reply, mute_ms=mute_ms, damage=verdict.damage)

    def _send_copy(self, crossing: Crossing, frame: bytes) -> None:
        """Let the request arrive once more; nobody hears the answer."""
        request, handler, _ = self._parse(frame)
        self._tell("msg.dup", crossing)
        self._listener.tasks.drive(
            self._handle_copy(msgspec.structs.replace(crossing, is_copy=True), request, handler),
            partial(_note_failure, request),
            name=f"copy of {handler.name}",
        )

    async def _handle_copy(self, crossing: Crossing, request: Request, handler: Handler) -> None:
        verdict = await self._cross(crossing) or PASS
        if self._listener.is_gone or verdict.outcome in _LOST:
            return
        await handler.handle(request)

    def _describe(
        self, point: FaultPoint, request: Request, handler: Handler, reply: Any = None
    ) -> Crossing:
        is_answer = point is FaultPoint.CLIENT_RESPONSE
        batch = batch_in_answer(request, reply) if is_answer else _batch_in_request(request)
        return Crossing(
            point=point,
            source=f"client/{request.client_id or ''}",
            target=self._listener.node,
            api_key=request.api_key,
            api_version=request.api_version,
            correlation_id=request.correlation_id,
            subject=handler.subject(request),
            line=self._line,
            carries_batches=batch is not None,
        )

    async def _cross(self, crossing: Crossing) -> Verdict | None:
        interceptor = self._listener.network.interceptor
        if not interceptor.armed:
            return None
        verdict = interceptor.cross(crossing)
        if verdict is not None and not isinstance(verdict, Verdict):
            self._tell("msg.hold", crossing)
            verdict = await verdict
        if verdict is not None and verdict.outcome is SubmitOutcome.DROP:
            self._tell("msg.drop", crossing)
        return verdict

    def _tell(self, kind: str, crossing: Crossing) -> None:
        """What a fault does to a message; it is the current cause from now on."""
        tracer = self._listener.tracer
        if tracer.on and crossing.api_key >= 0:
            data = {
                "api": api_name(crossing.api_key),
                "version": crossing.api_version,
                "correlation": crossing.correlation_id,
                "peer": crossing.source,
                "response": crossing.point == FaultPoint.CLIENT_RESPONSE,
            }
            tracer.caused_by(tracer.emit(kind, self._listener.node, data=data))


def batch_in_answer(request: Request, reply: Any) -> bytes | None:
    """The first record batches in a Fetch's answer, if it has any."""
    if request.api_key != FETCH or isinstance(reply, bytes | Answer):
        return None
    return next(
        (
            bytes(partition.records)
            for topic in reply.responses
            for partition in topic.partitions
            if partition.records
        ),
        None,
    )


def _batch_in_request(request: Request) -> bytes | None:
    if request.api_key != PRODUCE:
        return None
    return next(
        (
            bytes(data.records)
            for topic in request.message.topic_data
            for data in topic.partition_data
            if data.records
        ),
        None,
    )


def _damaged_frame(request: Request, frame: bytes, damage: Damage) -> bytes:
    """What the broker reads as the frame; a damaged length leaves it shorter than it was."""
    whole = len(frame).to_bytes(4, "big") + frame
    whole = damaged(whole, damage, batch=_batch_in_request(request))
    return whole[4 : 4 + int.from_bytes(whole[:4], "big")]


def _throttled(request: Request, reply: Any, throttle_ms: int) -> Any:
    """The answer with its throttle time, where its version tells one."""
    if isinstance(reply, Answer):
        return reply
    key, version = request.api_key, request.api_version
    if isinstance(reply, bytes):
        frame = codec.frame_response(key, version, request.correlation_id, reply)
        _, reply = codec.read_response(key, version, frame[4:])
    if not hasattr(reply, "throttle_time"):
        return reply
    changes: dict[str, object] = {"throttle_time": timedelta(milliseconds=throttle_ms)}
    if key == FETCH:
        changes["responses"] = ()
    return replace(reply, **changes)


def _note_failure(request: Request, _answer: object, error: BaseException | None) -> None:
    if error is not None and not isinstance(error, asyncio.CancelledError):
        _log.error("request failed by a bug", api=api_name(request.api_key), exc_info=error)
