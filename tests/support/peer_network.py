"""The peer side of a network that only records: a test answers when it likes."""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeVar

import msgspec

from txnsim.faults.interception import PassAll
from txnsim.runtime.tasks import Pending
from txnsim.types import BrokerId

T = TypeVar("T")


class NobodySteps:
    """Stands for the stepper of tasks; it never steps a coroutine."""

    stepping = False


NOBODY_STEPS: Final = NobodySteps()


def future_of(answer_future: Pending[T]) -> asyncio.Future[T]:
    """A future with the same result, done at the same moment."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def pass_on(answer_future: Pending[T]) -> None:
        error = answer_future.exception()
        if future.done():
            return
        if error is None:
            future.set_result(answer_future.result())
        else:
            future.set_exception(error)

    answer_future.on_done(pass_on)
    return future


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
    """A network that records requests to peers."""

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
        """Record the request without answering it."""
        sent_request = SentRequest(
            source=source,
            target=target,
            api_key=api_key,
            api_version=api_version,
            command=command,
            timeout_ms=timeout_ms,
            answer=Pending(NOBODY_STEPS),
        )
        self.sent.append(sent_request)
        return sent_request.answer
