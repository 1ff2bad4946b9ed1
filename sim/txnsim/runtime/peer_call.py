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
from txnsim.runtime.tasks import Pending, waited
from txnsim.types import BrokerId

PeerHandler = Callable[[int, int, object, BrokerId], Awaitable[object]]
"""(api key, api version, command, source broker) -> reply."""


class Unanswered(msgspec.Struct, frozen=True, kw_only=True):
    """A request between brokers that its sender waits for, as somebody from outside sees it."""

    source: BrokerId
    target: BrokerId
    api_key: int
    subject: Subject
    timeout_ms: int
    left_ms: int
    """Until its sender gives up, by the monotonic clock."""
    is_lost: bool
    """A fault has lost it or its answer."""
    is_held: bool
    """A fault rule keeps it."""
    is_cut: bool
    """Its link is cut."""


class TracedAs(IntEnum):
    """What the trace gets of an exchange; settled when it begins."""

    OFF = 0
    """Not traced: the trace is off."""
    POLL = 1
    """Not traced: brokers poll with this call all the time."""
    CAUSE = 2
    """The messages are not traced; later events are linked to the call's cause."""
    MESSAGES = 3
    """Each message."""


class PeerCall(msgspec.Struct, kw_only=True, eq=False):
    """A request between brokers from the moment it is made until its future is done."""

    link: Link
    api_key: int
    api_version: int
    command: object
    correlation_id: int
    asked_ns: int
    """Start of the call by the stopwatch."""
    timeout_ms: int
    answer: Pending[Any]
    pending: dict[int, PeerCall]
    is_copy: bool = False
    """It arrives once more: its answer is not waited for."""
    lost: bool = False
    """Its connection broke before it reached the target."""
    sent: int = -1
    """Trace index of the sending: of the request, then of the answer."""
    received: int = -1
    """Trace index of the request's arrival."""
    traced_as: TracedAs = TracedAs.OFF

    @property
    def is_awaited(self) -> bool:
        return self.correlation_id in self.pending

    def unheard(self, *, is_copy: bool = False) -> PeerCall:
        """The same request, whose answer is thrown away."""
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
        call.sent = self.sent
        return call

    def causes(self, kind: str, cause: int, *, response: bool) -> tuple[int, ...]:
        """Of a message: sent, what led to it, an answer also the request; then its sending, and
        what let it go on after a fault or a cut.
        """
        if kind != "msg.send":
            return self.sent, cause
        if not response:
            return (cause,)
        # What happened before the request came has not ended its wait: timers are armed for
        # several.
        return (cause if cause > self.received else -1, self.received)

    def succeed(self, reply: object) -> None:
        """Hand the reply to those who still wait."""
        if self.pending.pop(self.correlation_id, None) is not None:
            self.answer.resolve(reply)

    def fail(self, error: PeerError) -> None:
        if self.pending.pop(self.correlation_id, None) is not None:
            self.answer.fail(error)

    def __str__(self) -> str:
        source, target = self.link
        api = f"API {self.api_key} v{self.api_version}"
        return f"request {self.correlation_id} of {api}, broker {source} -> {target}"


def as_coroutine(awaitable: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
    """What a handler gives, as ``Tasks.drive`` runs it."""
    if type(awaitable) is CoroutineType or asyncio.iscoroutine(awaitable):
        return awaitable
    return waited(awaitable)
