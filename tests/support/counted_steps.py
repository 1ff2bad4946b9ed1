"""How much of txnsim runs without a break: lines of its code, callback by callback of the loop.

Lines count each turn of a loop and of a comprehension. They are the same on every machine. What a
test or a client does in the same process is left out.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, Self

import txnsim
from txnsim.runtime.clock import LoopClock

_ROOT: Final = f"{Path(txnsim.__file__).parent}/"
_OF_THE_WORLD: Final = ("runtime/", "client/")
"""Folders whose code is no work of a broker: sockets, time, and clients."""
_CALLBACKS: Final = (asyncio.Handle._run.__code__, LoopClock._run_callback.__code__)
"""Where a callback begins: at the loop, or at the cluster's clock, which yields between timers."""
_TESTS: Final = str(Path(__file__).parents[1])


class CountedSteps:
    """A context manager that counts executed lines while it is entered."""

    def __init__(self) -> None:
        self.total = 0
        self.longest = 0
        """Lines of the longest callback of the loop."""
        self.longest_name = ""
        self.by_name: Counter[str] = Counter()
        """Lines per callback, by the first function of txnsim in it."""
        self.longest_by_name: Counter[str] = Counter()
        self._known: dict[CodeType, str] = {}
        self._is_inside = self._is_foreign = False
        self._count = 0
        self._name = ""
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(
        self,
        exception_class: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.settrace(self._before)
        self._end()

    def _call(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        code = frame.f_code
        if code in _CALLBACKS:
            self._end()
            self._is_inside = True
            return self._callback
        if not self._is_inside or self._is_foreign:
            return None
        name = self._known.get(code)
        if name is None:
            name = self._known[code] = _name(code)
        if not name:
            self._is_foreign = not self._name and code.co_filename.startswith(_TESTS)
            return None
        if not self._name:
            self._name = name
        return self._line

    def _line(self, _frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line":
            self._count += 1
        return self._line

    def _callback(self, _frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "return":
            self._end()
        return self._callback

    def _end(self) -> None:
        if self._count and not self._is_foreign:
            self.total += self._count
            self.by_name[self._name] += self._count
            if self._count > self.longest_by_name[self._name]:
                self.longest_by_name[self._name] = self._count
            if self._count > self.longest:
                self.longest, self.longest_name = self._count, self._name
        self._is_inside = self._is_foreign = False
        self._count, self._name = 0, ""


def _name(code: CodeType) -> str:
    """``file:function`` of a broker's code; nothing for all other code."""
    file_name = code.co_filename
    if file_name.startswith(_ROOT) and not file_name[len(_ROOT) :].startswith(_OF_THE_WORLD):
        return f"{file_name[len(_ROOT) :]}:{code.co_qualname.partition('.<locals>')[0]}"
    return "wire/generated" if file_name.startswith("<") and "frozen" not in file_name else ""
