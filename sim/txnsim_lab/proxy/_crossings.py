"""A frame as a crossing of a fault point, and the answers that are made here instead of a broker.

A request is decoded only where a rule asks for more than its header. Whom it is about, and how it
is refused, its handler knows (``api.registry``); the broker that handlers are given elsewhere is
here the little that these two questions need.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec

from txnsim.api.registry import HANDLERS, SHIPPED
from txnsim.api.request import Handler, NoResponse, Request
from txnsim.broker.broker import Broker
from txnsim.errors import BadInputError, ErrorCode
from txnsim.faults.crossings import Crossing, Damage, Rewriting
from txnsim.faults.damage import SIZE_BYTES, damaged
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import NO_SUBJECT
from txnsim.server.crossings import batch_in_answer, batch_in_request, damaged_frame, throttled
from txnsim.server.outbox import whole
from txnsim.wire import codec
from txnsim.wire.apis import FETCH
from txnsim_lab.proxy._topic_names import TopicNames

_BROKER: Final = re.compile(r"(\d+)|broker-(\d+)-.*|.*-client-(\d+)")
"""Client ids of Kafka's brokers among themselves: ``1``, ``broker-1-fetcher-0``,
``AddPartitionsManager-client-1``.
"""


ORDINARY: Final = 0
TOKEN: Final = 1
"""No request: a token of SASL, as before SaslAuthenticate; answers have no correlation id."""
MADE_HERE: Final = 2
"""The answer is made here: the request went nowhere."""
LOST: Final = 3
"""The answer is thrown away."""


class Sent(msgspec.Struct):
    """A client's request, from its arrival until its answer is written."""

    api_key: int
    api_version: int
    correlation_id: int
    fate: int = ORDINARY
    """What becomes of its answer."""
    is_answered: bool = True
    """The broker answers it; not so a Produce with acks=0."""
    mute_ms: int = 0
    """Time for which the client is throttled."""
    request: Request | None = None
    """Decoded form, if a rule needed it."""


def decoded(frame: bytes, names: TopicNames) -> Request | None:
    """The request in a frame, its size in front; None where txnsim can't read it."""
    try:
        header = codec.read_request_header(frame[4:])
        handler = HANDLERS.get(header.api_key)
        if handler is None:
            return None
        message = handler.decode(header, frame[4:])
    except BadInputError:
        return None
    image = SimpleNamespace(topic_names=names.names, partition=lambda _partition: None)
    stand_in = SimpleNamespace(
        image=image,
        replicas=SimpleNamespace(image=image),  # handlers on the hot path ask here
        fetch_sessions=SimpleNamespace(find=lambda _session: None),
    )
    return Request(
        apis=SHIPPED,
        broker=cast(Broker, stand_in),
        api_key=header.api_key,
        api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        message=message,
    )


def described(
    point: FaultPoint,
    sent: Sent,
    *,
    source: str,
    target: str,
    line: str,
    answer: bytes = b"",
) -> Crossing:
    """A request or its answer at a fault point."""
    request = sent.request
    batch = None
    if request is not None:
        batch = batch_of_answer(sent, answer) if answer else batch_of_request(request)
    return Crossing(
        point=point,
        source=source,
        target=target,
        api_key=sent.api_key,
        api_version=sent.api_version,
        correlation_id=sent.correlation_id,
        subject=NO_SUBJECT if request is None else handler_of(request).subject(request),
        line=line,
        carries_batches=batch is not None,
    )


def handler_of(request: Request) -> Handler:
    """Who would handle a request in the simulator."""
    return HANDLERS[request.api_key]


def batch_of_request(request: Request | None) -> bytes | None:
    return None if request is None else batch_in_request(request.api_key, request.message)


def rewritten_answer(sent: Sent, answer: bytes, rewriting: Rewriting) -> bytes:
    """An answer with its size in front, a field of it changed."""
    return _framed(sent, rewriting.applied(_message(sent, answer)))


def batch_of_answer(sent: Sent, answer: bytes) -> bytes | None:
    return batch_in_answer(sent.api_key, _message(sent, answer)) if sent.api_key == FETCH else None


def _message(sent: Sent, answer: bytes) -> Any:
    """The message of an answer, its size in front."""
    return codec.read_response(sent.api_key, sent.api_version, answer[SIZE_BYTES:])[1]


def _framed(sent: Sent, message: Any) -> bytes:
    """The whole answer with that message."""
    body = codec.encode_body(message)
    return codec.frame_response(sent.api_key, sent.api_version, sent.correlation_id, body)


def refusal_of(request: Request, error: int) -> bytes | NoResponse:
    """The whole answer that fails a request; ``NoResponse`` where Kafka sends none."""
    reply = handler_of(request).refuse(request, ErrorCode(error))
    return reply if isinstance(reply, NoResponse) else whole(request, reply)


def throttled_answer(sent: Sent, answer: bytes, throttle_ms: int) -> bytes:
    """An answer that tells a throttle time, where its version can tell one.

    Raises:
        BadInputError: txnsim can't read that answer.
    """
    return _framed(sent, throttled(sent.api_key, _message(sent, answer), throttle_ms))


def damaged_request(sent: Sent, frame: bytes, damage: Damage) -> bytes:
    """What the broker reads as the request; sizes in front."""
    body = damaged_frame(frame[4:], damage, batch=batch_of_request(sent.request))
    return len(body).to_bytes(4, "big") + body


def damaged_answer(sent: Sent, answer: bytes, damage: Damage) -> bytes:
    """What the client reads as the answer; a damaged size says fewer bytes than there are."""
    batch = None if sent.request is None else batch_of_answer(sent, answer)
    return damaged(answer, damage, batch=batch)


def peer_of(client_id: str | None) -> str:
    """Which broker a request between brokers comes from, by its client id."""
    found = _BROKER.fullmatch(client_id or "")
    return f"broker/{found[found.lastindex or 0]}" if found else f"client/{client_id or ''}"
