"""A request and its answer as frames for a broker outside of this process, and what faults do to
them.

The faults are the same as at a broker here (``server.client_fault_points``). A request is decoded
only if a rule needs more than its header. Its handler tells its subject and makes its refusal
(``api.registry``); a stand-in for the broker has only what these two need.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import msgspec

from txnsim.api.registry import HANDLERS, SHIPPED
from txnsim.api.request import Handler, NoResponse, Request
from txnsim.broker.broker import Broker
from txnsim.errors import BadInputError, ErrorCode
from txnsim.faults.damage import SIZE_BYTES, damage_message
from txnsim.faults.interception import Crossing, Damage, Rewriting
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import NO_SUBJECT
from txnsim.server._outbox import framed_response
from txnsim.server.client_fault_points import (
    batch_in_answer,
    batch_in_request,
    damaged_frame,
    with_throttle_time,
)
from txnsim.wire import codec
from txnsim.wire.apis import FETCHES


class RelayedRequest(msgspec.Struct):
    """A client's request, from its arrival until its answer is written. Frames start with their
    size.
    """

    api_key: int
    api_version: int
    correlation_id: int
    request: Request | None = None
    """The decoded request, if a rule needed it."""

    @staticmethod
    def can_refuse(api_key: int) -> bool:
        """Whether a handler can make an error response for this API key."""
        return api_key in HANDLERS

    @staticmethod
    def decode_request(frame: bytes, name_by_topic_id: Mapping[UUID, str]) -> Request | None:
        """Decode the request in a frame; None if it can't be read."""
        try:
            header = codec.read_request_header(frame[SIZE_BYTES:])
            handler = HANDLERS.get(header.api_key)
            if handler is None:
                return None
            message = handler.decode(header, frame[SIZE_BYTES:])
        except BadInputError:
            return None
        stand_in_image = SimpleNamespace(
            topic_names=name_by_topic_id, partition=lambda _partition: None
        )
        stand_in_broker = SimpleNamespace(
            image=stand_in_image,
            replicas=SimpleNamespace(image=stand_in_image),  # handlers on the hot path read it here
            fetch_sessions=SimpleNamespace(find=lambda _session: None),
        )
        return Request(
            apis=SHIPPED,
            broker=cast(Broker, stand_in_broker),
            api_key=header.api_key,
            api_version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            message=message,
        )

    def crossing(
        self,
        point: FaultPoint,
        *,
        source: str,
        target: str,
        connection_name: str,
        answer: bytes = b"",
    ) -> Crossing:
        """The crossing of the request, or of its answer if one is given, at a fault point."""
        request = self.request
        batch = None
        if request is not None:
            batch = self._batch_of(answer) if answer else self._batch()
        return Crossing(
            point=point,
            source=source,
            target=target,
            api_key=self.api_key,
            api_version=self.api_version,
            correlation_id=self.correlation_id,
            subject=NO_SUBJECT if request is None else _handler_of(request).subject(request),
            line=connection_name,
            carries_batches=batch is not None,
        )

    def refusal(self, error: int) -> bytes | None:
        """An error response to the request, which must be decoded; None if Kafka closes the
        connection instead.
        """
        request = self.request
        assert request is not None
        reply = _handler_of(request).refuse(request, ErrorCode(error))
        return None if isinstance(reply, NoResponse) else framed_response(request, reply)

    def damage_frame(self, frame: bytes, damage: Damage) -> bytes:
        """The damaged request as the broker reads it."""
        damaged_body = damaged_frame(frame[SIZE_BYTES:], damage, batch=self._batch())
        return len(damaged_body).to_bytes(SIZE_BYTES, "big") + damaged_body

    def damaged_answer(self, answer: bytes, damage: Damage) -> bytes:
        """The damaged answer as the client reads it; a damaged size is too small."""
        batch = None if self.request is None else self._batch_of(answer)
        return damage_message(answer, damage, batch=batch)

    def rewritten_answer(self, answer: bytes, rewriting: Rewriting) -> bytes:
        """The answer with a changed field."""
        return self.frame_answer(rewriting.apply(self.message(answer)))

    def throttled_answer(self, answer: bytes, throttle_ms: int) -> bytes:
        """The answer with its throttle time, if its version has that field.

        Raises:
            BadInputError: The answer can't be decoded.
        """
        return self.frame_answer(
            with_throttle_time(self.api_key, self.message(answer), throttle_ms)
        )

    def _batch(self) -> bytes | None:
        request = self.request
        return None if request is None else batch_in_request(request.api_key, request.message)

    def _batch_of(self, answer: bytes) -> bytes | None:
        if self.api_key not in FETCHES:
            return None
        return batch_in_answer(self.api_key, self.message(answer))

    def message(self, answer: bytes) -> Any:
        """The decoded message of the answer.

        Raises:
            MalformedFrameError: The frame is not an answer of that API.
            UnsupportedRequestError: The version is unknown.
        """
        return codec.read_response(self.api_key, self.api_version, answer[SIZE_BYTES:])[1]

    def frame_answer(self, message: Any) -> bytes:
        """Encode the whole answer with that message."""
        return codec.frame_message(self.api_key, self.api_version, self.correlation_id, message)


def _handler_of(request: Request) -> Handler:
    return HANDLERS[request.api_key]
