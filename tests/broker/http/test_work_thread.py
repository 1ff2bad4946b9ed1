from __future__ import annotations

import sys

import pytest

from tests.support.learnt_structs import is_learnt
from txnsim.faults.rule import FaultRule
from txnsim.http.work_thread import WorkThread
from txnsim.runtime.switch_interval import SWITCH_S


async def test_the_lock_changes_hands_often_while_there_is_work() -> None:
    before = sys.getswitchinterval()
    thread = WorkThread("work")
    assert await thread.do(sys.getswitchinterval) == pytest.approx(SWITCH_S)
    assert sys.getswitchinterval() == before
    with pytest.raises(ZeroDivisionError):
        await thread.do(lambda: 1 // 0)
    assert sys.getswitchinterval() == before
    thread.close()
    with pytest.raises(RuntimeError):
        await thread.do(sys.getswitchinterval)


def test_what_threads_read_is_known_to_msgspec_before_they_begin() -> None:
    """It learnt them at their first use, and two threads that did so at once ended the server by
    SIGSEGV (seen with two requests of a page; three threads that read a rule: 1 of 12 processes).
    """
    assert is_learnt(FaultRule)
