"""The peer side of a network that only records: a test answers when it likes."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from txnsim.runtime.env import PassAll
from txnsim.runtime.pending import Pending
from txnsim.types import BrokerId


class NobodySteps:
    """A stepper for tests whose coroutines are ordinary tasks."""

    stepping = False


NOBODY_STEPS: Final = NobodySteps()


class SentRequest(msgspec.Struct, kw_only=True):
    """A request between brokers that has left."""

    source: BrokerId
    target: BrokerId
    api_key: int
    api_version: int
    command: Any
    timeout_ms: int
    answer: Pending[Any]


class RecordingNetwork:
    """``env.Network`` for one who only sends to peers."""

    def __init__(self) -> None:
        self.interceptor = PassAll()
        self.sent: list[SentRequest] = []

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
        """Keep it, unanswered."""
        sent = SentRequest(
            source=source,
            target=target,
            api_key=api_key,
            api_version=api_version,
            command=command,
            timeout_ms=timeout_ms,
            answer=Pending(NOBODY_STEPS),
        )
        self.sent.append(sent)
        return sent.answer
