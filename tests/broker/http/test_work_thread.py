from __future__ import annotations

import subprocess
import sys
from typing import Final

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


LEARNT: Final = """
import gc
from txnsim.faults.rule import FaultRule
from txnsim_lab.scenario.teaching.lessons import Lesson
for kind in (FaultRule, Lesson):
    print("StructInfo" in {type(one).__name__ for one in gc.get_referents(kind)})
"""
"""Whether msgspec knows these structs: it keeps a ``StructInfo`` in the class then."""


def test_what_threads_read_is_known_to_msgspec_before_they_begin() -> None:
    """It learnt them at their first use, and two threads that did so at once ended the server by
    SIGSEGV (seen with two requests of a page; three threads that read a rule: 1 of 12 processes).
    """
    done = subprocess.run(
        [sys.executable, "-c", LEARNT], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"]
