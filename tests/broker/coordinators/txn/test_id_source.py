"""Blocks of producer ids, asked for in the background."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.coordinator import ManualClock
from txnsim.coordinators.txn._id_source import ProducerIdSource
from txnsim.errors import ErrorCode, PeerDisconnectedError
from txnsim.interbroker.transactions import AllocateProducerIdsReply
from txnsim.runtime.tasks import LoopTasks

BLOCK = AllocateProducerIdsReply(first=0, length=1_000)


class Controller:
    """Answers as it is told to."""

    def __init__(self, *answers: AllocateProducerIdsReply | Exception) -> None:
        self.clock = ManualClock()
        self.answers = list(answers)
        self.asked = 0
        self.source = ProducerIdSource(
            clock=self.clock,
            tasks=LoopTasks(asyncio.get_running_loop()),
            allocate=self.allocate,
        )

    async def allocate(self) -> AllocateProducerIdsReply:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_block_is_asked_for_when_the_first_id_is() -> None:
    controller = Controller(BLOCK)
    assert controller.source.take() is None
    assert (controller.source.take(), controller.asked) == (0, 1)


@pytest.mark.parametrize(
    "failure",
    [PeerDisconnectedError("cut"), AllocateProducerIdsReply(error=ErrorCode.stale_broker_epoch)],
)
async def test_after_a_failure_it_pauses(failure: AllocateProducerIdsReply | Exception) -> None:
    controller = Controller(failure, BLOCK)
    controller.source.take()
    assert (controller.source.take(), controller.asked) == (None, 1)
    controller.clock.pass_ms(50)
    controller.source.take()
    assert (controller.source.take(), controller.asked) == (0, 2)


async def test_a_bug_is_not_taken_for_a_lost_answer() -> None:
    controller = Controller(ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        controller.source.take()
