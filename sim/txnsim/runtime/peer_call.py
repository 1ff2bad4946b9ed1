"""One request between brokers, until its sender has an answer or has given up."""

from __future__ import annotations

from typing import Any

from txnsim.errors import PeerError
from txnsim.runtime.link_cuts import Link
from txnsim.runtime.pending import Pending


class PeerCall:
    """A request between brokers from the moment it is made until its future is done."""

    __slots__ = (
        "answer",
        "api_key",
        "api_version",
        "body",
        "command",
        "correlation_id",
        "deadline_ms",
        "is_copy",
        "link",
        "lost",
        "pending",
        "received",
        "sent",
    )

    def __init__(
        self,
        *,
        link: Link,
        api_key: int,
        api_version: int,
        command: object,
        body: bytes,
        correlation_id: int,
        deadline_ms: int,
        answer: Pending[Any],
        pending: dict[int, PeerCall],
    ) -> None:
        self.link = link
        self.api_key = api_key
        self.api_version = api_version
        self.command = command
        self.body = body
        """The command as it travels, where links carry bytes."""
        self.correlation_id = correlation_id
        self.deadline_ms = deadline_ms
        self.answer = answer
        self.pending = pending
        self.is_copy = False
        """It arrives once more: nobody waits for its answer."""
        self.lost = False
        """Its connection broke before it reached the target."""
        self.sent = -1
        """Trace index of the sending: of the request, then of the answer."""
        self.received = -1
        """Trace index of the request's arrival."""

    @property
    def is_awaited(self) -> bool:
        """Whether its sender has not given up on it."""
        return self.correlation_id in self.pending

    def unheard(self, *, is_copy: bool = False) -> PeerCall:
        """The same request with nobody who hears its answer."""
        call = PeerCall(
            link=self.link,
            api_key=self.api_key,
            api_version=self.api_version,
            command=self.command,
            body=self.body,
            correlation_id=self.correlation_id,
            deadline_ms=self.deadline_ms,
            answer=self.answer,
            pending={},
        )
        call.is_copy = is_copy
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
        """Hand the reply to whoever still waits."""
        if self.pending.pop(self.correlation_id, None) is not None:
            self.answer.resolve(reply)

    def fail(self, error: PeerError) -> None:
        """Tell whoever still waits that there will be no reply."""
        if self.pending.pop(self.correlation_id, None) is not None:
            self.answer.fail(error)

    def __str__(self) -> str:
        source, target = self.link
        api = f"API {self.api_key} v{self.api_version}"
        return f"request {self.correlation_id} of {api}, broker {source} -> {target}"
