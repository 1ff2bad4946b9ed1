"""How often the interpreter's lock changes hands beside a thread that works."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from txnsim.runtime.switch_interval import SWITCH_S, short_switch_interval


def test_the_last_of_several_gives_it_back() -> None:
    before = sys.getswitchinterval()
    both, seen = threading.Barrier(2), threading.Event()

    def work(*, is_last: bool) -> float:
        with short_switch_interval():
            both.wait(30)
            if is_last:
                seen.wait(30)
                return sys.getswitchinterval()
        return 0.0

    with ThreadPoolExecutor(2) as threads:
        last = threads.submit(work, is_last=True)
        threads.submit(work, is_last=False).result(30)
        seen.set()
        assert last.result(30) == pytest.approx(SWITCH_S)
    assert sys.getswitchinterval() == before
