from __future__ import annotations

import sys

import pytest

from txnsim.http.work_thread import WorkThread
from txnsim.runtime.polite_threads import SWITCH_S


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
