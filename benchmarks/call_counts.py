"""Counts of calls of Python functions, by package, and the walk of a request through the code.

Only functions of txnsim are counted; a coroutine that goes on counts once more, as it is entered
once more. Generated readers and writers of messages belong to ``wire``.
"""

from __future__ import annotations

import cProfile
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import msgspec

import txnsim

ROOT: Final = f"{Path(txnsim.__file__).parent}/"
_GENERATED: Final = "<"
_WORLD: Final = "runtime/virtual/"
"""What stands for sockets and time in a virtual run: a server has none of it."""

CallsByFunction = dict[str, int]
"""``file:function`` -> calls."""


class WalkCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the files and functions that one request goes through."""

    file_count: int
    function_count: int
    file_change_count: int
    """How often the next function lies in another file than the one before."""
    call_count: int


def txnsim_file_of(code: CodeType) -> str | None:
    """Return the file of a function of txnsim within the package; None for all others."""
    file_name = code.co_filename
    if file_name.startswith(ROOT):
        file_name = file_name[len(ROOT) :]
        return None if file_name.startswith(_WORLD) else file_name
    return (
        "wire/generated" if file_name.startswith(_GENERATED) and "frozen" not in file_name else None
    )


def make_call_profile() -> cProfile.Profile:
    """Make a profiler that counts calls between ``enable`` and ``disable``, without builtins."""
    return cProfile.Profile(subcalls=False, builtins=False)


def count_calls_by_function(profile: cProfile.Profile) -> CallsByFunction:
    """Sum what the profiler has counted, for functions of txnsim only."""
    calls_by_function: Counter[str] = Counter()
    for profile_entry in profile.getstats():
        if (
            isinstance(profile_entry.code, CodeType)
            and (file := txnsim_file_of(profile_entry.code)) is not None
        ):
            calls_by_function[f"{file}:{profile_entry.code.co_qualname}"] += profile_entry.callcount
    return dict(calls_by_function)


def group_by_package(calls_by_function: Mapping[str, float]) -> dict[str, float]:
    """Sum calls by the first folder or file of a function's path."""
    calls_by_package: defaultdict[str, float] = defaultdict(int)
    for function_name, call_count in calls_by_function.items():
        file_name = function_name.partition(":")[0]
        calls_by_package[file_name.split("/")[0].removesuffix(".py")] += call_count
    return dict(sorted(calls_by_package.items()))


class CallRecorder:
    """Notes which functions are entered, in order."""

    def __init__(self) -> None:
        self._entered_functions: list[tuple[str, str]] = []

    def start(self) -> None:
        """Begin to note calls."""
        sys.setprofile(self._note_call)

    def stop(self) -> None:
        """Stop noting calls."""
        sys.setprofile(None)

    def counts_until(self, last_function_name: str | None = None) -> WalkCounts:
        """Count the entered functions, up to the first call of ``last_call`` if it is given."""
        call_count = (
            len(self._entered_functions)
            if last_function_name is None
            else self.entered_function_names().index(last_function_name) + 1
        )
        entered_functions = self._entered_functions[:call_count]
        entered_files = [file for file, _ in entered_functions]
        return WalkCounts(
            file_count=len(set(entered_files)),
            function_count=len(set(entered_functions)),
            file_change_count=sum(file != next_file for file, next_file in pairwise(entered_files)),
            call_count=len(entered_files),
        )

    def entered_function_names(self) -> list[str]:
        """Name each entered function, in the order of the calls."""
        return [f"{file}:{name}" for file, name in self._entered_functions]

    def _note_call(self, frame: FrameType, event: str, _event_argument: Any) -> None:
        if event == "call" and (file := txnsim_file_of(frame.f_code)) is not None:
            self._entered_functions.append((file, frame.f_code.co_qualname))
