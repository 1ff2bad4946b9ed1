"""One request between brokers, until its sender has an answer or has given up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from enum import IntEnum
from types import CoroutineType
from typing import Any

import msgspec

from txnsim.errors import PeerError
from txnsim.faults.subjects import Subject
from txnsim.runtime._link_cuts import Link
from txnsim.runtime.tasks import Pending, coroutine_of
from txnsim.types import BrokerId

PeerHandler = Callable[[int, int, object, BrokerId], Awaitable[object]]
"""Handles a request: (api key, api version, command, source broker) -> reply."""


class Unanswered(msgspec.Struct, frozen=True, kw_only=True):
    """A request between brokers whose sender still waits, for display."""

    source: BrokerId
    target: BrokerId
    api_key: int
    subject: Subject
    timeout_ms: int
    left_ms: int
    """Time until its sender gives up, by the monotonic clock."""
    is_lost: bool
    """A fault has dropped the request or its answer."""
    is_held: bool
    """A fault rule holds or delays it."""
    is_cut: bool
    """The link is cut."""


class TracedAs(IntEnum):
    """What is traced of a request and its answer; decided when the request is sent."""

    OFF = 0
    """Not traced: the trace is off."""
    POLL = 1
    """Not traced: brokers poll with this call all the time."""
    CAUSE = 2
    """The messages are not traced; later events are linked to the call's cause."""
    MESSAGES = 3
    """Each message is traced."""


class PeerCall(msgspec.Struct, kw_only=True, eq=False):
    """A request between brokers, from its sending until its future is done."""

    link: Link
    api_key: int
    api_version: int
    command: object
    correlation_id: int
    asked_ns: int
    """Start of the call, by the stopwatch."""
    timeout_ms: int
    answer: Pending[Any]
    pending: dict[int, PeerCall]
    is_copy: bool = False
    """It is a duplicate that a fault sends: nobody waits for its answer."""
    is_lost: bool = False
    """The connection broke before the request reached the target."""
    send_event: int = -1
    """Trace index of the event of sending: first of the request, then of the answer."""
    receive_event: int = -1
    """Trace index of the event of the request's arrival."""
    traced_as: TracedAs = TracedAs.OFF

    @property
    def is_awaited(self) -> bool:
        return self.correlation_id in self.pending

    def copy_without_answer(self, *, is_copy: bool = False) -> PeerCall:
        """A copy of the request, whose answer is thrown away."""
        call = PeerCall(
            link=self.link,
            api_key=self.api_key,
            api_version=self.api_version,
            command=self.command,
            correlation_id=self.correlation_id,
            asked_ns=self.asked_ns,
            timeout_ms=self.timeout_ms,
            answer=self.answer,
            pending={},
        )
        call.is_copy = is_copy
        call.traced_as = self.traced_as
        call.send_event = self.send_event
        return call

    def causes(self, kind: str, cause: int, *, is_response: bool) -> tuple[int, ...]:
        """Causes of a trace event about a message, the main one first.

        Sending has the given cause, and for an answer also the arrival of the request. Every other
        event has the sending, then the given cause: what let the message go on after a fault or a
        cut.
        """
        if kind != "msg.send":
            return self.send_event, cause
        if not is_response:
            return (cause,)
        # An event before the request's arrival has not ended its wait: timers are armed for
        # several.
        return (cause if cause > self.receive_event else -1, self.receive_event)

    def succeed(self, reply: object) -> None:
        """Give the reply to the sender, if it still waits."""
        if self.pending.pop(self.correlation_id, None) is not None:
            self.answer.resolve(reply)

    def fail(self, error: PeerError) -> None:
        if self.pending.pop(self.correlation_id, None) is not None:
            self.answer.fail(error)

    def __str__(self) -> str:
        source, target = self.link
        api_name = f"API {self.api_key} v{self.api_version}"
        return f"request {self.correlation_id} of {api_name}, broker {source} -> {target}"


def as_coroutine(awaitable: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
    """The awaitable of a handler as a coroutine, as ``Tasks.drive`` runs it."""
    if type(awaitable) is CoroutineType or asyncio.iscoroutine(awaitable):
        return awaitable
    return coroutine_of(awaitable)
