"""A client in the trace: a node of its own, with its calls and their results.

A call has no cause in the cluster. It causes its requests, including those of tasks that it starts,
and its result is caused by the last answer that it got. A call inside another call has no events of
its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Final

import msgspec

from txnsim.client.errors import ClientError, code_name
from txnsim.client.isolation import ConsumedRecord
from txnsim.runtime.trace import NO_CAUSE, Tracer
from txnsim.types import TopicPartition
from txnsim.wire.apis import api_name

TEXT_MAX: Final = 100
"""How many characters of a key or a value the trace has."""


class TracedCall(msgspec.Struct, eq=False):
    """A call in progress."""

    event: int
    answer_event: int = NO_CAUSE
    """Trace index of the last answer to one of its requests."""
    result: dict[str, object] = {}
    """The fields of its result event: ``error``, ``result``."""


_call: ContextVar[TracedCall | None] = ContextVar("txnsim_client_call", default=None)


class ClientTrace:
    """Records the events of one client in the trace of its run."""

    __slots__ = ("_tracer", "node")

    def __init__(self, tracer: Tracer | None, client_id: str) -> None:
        self._tracer = tracer
        self.node = f"client/{client_id}"

    @property
    def on(self) -> bool:
        """Whether anything is recorded."""
        return self._tracer is not None and self._tracer.on

    # Calls

    @contextlib.contextmanager
    def trace_call(self, call_name: str, **call_args: object) -> Iterator[TracedCall | None]:
        """Events inside have this call as their cause; yields None if nothing is recorded."""
        tracer = self._tracer
        if tracer is None or not tracer.on or _call.get() is not None:
            yield None
            return
        event_data: dict[str, object] = {
            "call": call_name,
            "args": {
                arg_name: arg_value
                for arg_name, arg_value in call_args.items()
                if arg_value is not None
            },
        }
        event = tracer.emit("client.call", self.node, parents=(NO_CAUSE,), data=event_data)
        call = TracedCall(event)
        token = _call.set(call)
        cause_before = tracer.set_cause(event)
        try:
            yield call
        except ClientError as error:
            call.result["error"] = _error_name(error)
            raise
        finally:
            tracer.set_cause(cause_before)
            _call.reset(token)
            causes = (call.answer_event, event)
            tracer.emit(
                "client.result",
                self.node,
                parents=causes,
                data={"call": call_name, **call.result},
            )

    def trace_delivery(self, partition: TopicPartition, records: Iterable[ConsumedRecord]) -> None:
        """Trace the records that a consumer delivers from the last answer."""
        tracer, call = self._tracer, _call.get()
        if tracer is None or not tracer.on:
            return
        causes = (tracer.cause,) if call is None else (call.answer_event, call.event)
        for record in records:
            event_data = {
                "tp": str(partition),
                "offset": record.offset,
                "key": _text(record.key),
                "value": _text(record.value),
            }
            tracer.emit("client.deliver", self.node, parents=causes, data=event_data)

    # Messages: at brief the broker's own events stand for them

    def trace_sent(
        self,
        connection_id: str,
        peer: str,
        api_key: int,
        version: int,
        correlation_id: int,
        size_bytes: int,
    ) -> int:
        """Trace a sent request. The receiver finds its cause by ``connection_id``."""
        tracer, call = self._tracer, _call.get()
        assert tracer is not None, "asked for only while the trace is on"
        answer_event = NO_CAUSE if call is None else call.answer_event
        sent_event = tracer.emit(
            "msg.send",
            self.node,
            parents=(tracer.cause, answer_event),
            importance=0,
            data=_message(peer, api_key, version, correlation_id, size_bytes),
        )
        tracer.post((connection_id, correlation_id, False), sent_event)
        return sent_event

    def trace_received(
        self,
        connection_id: str,
        peer: str,
        api_key: int,
        version: int,
        correlation_id: int,
        size_bytes: int,
        *,
        sent_event: int,
        call: TracedCall | None,
    ) -> None:
        tracer = self._tracer
        assert tracer is not None, "asked for only while the trace is on"
        answer_cause = tracer.take((connection_id, correlation_id, True))
        event_data = {
            **_message(peer, api_key, version, correlation_id, size_bytes),
            "response": True,
        }
        received_event = tracer.emit(
            "msg.recv", self.node, parents=(answer_cause, sent_event), importance=0, data=event_data
        )
        if call is not None:
            call.answer_event = received_event

    @staticmethod
    def current_call() -> TracedCall | None:
        """The call in progress in this context."""
        return _call.get()


def _message(
    peer: str, api_key: int, version: int, correlation_id: int, size_bytes: int
) -> dict[str, object]:
    return {
        "api": api_name(api_key),
        "version": version,
        "correlation": correlation_id,
        "peer": peer,
        "bytes": size_bytes,
    }


def _error_name(error: ClientError) -> str:
    return type(error).__name__ if error.error is None else code_name(int(error.error))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")[:TEXT_MAX]
