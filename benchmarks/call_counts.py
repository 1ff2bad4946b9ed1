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

Counts = dict[str, int]
"""``file:function`` -> calls."""


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the files and functions that one request goes through."""

    files: int
    functions: int
    changes: int
    """How often the next function lies in another file than the one before."""
    calls: int


def file_of(code: CodeType) -> str | None:
    """The file of a function of txnsim within the package; None for all others."""
    name = code.co_filename
    if name.startswith(ROOT):
        name = name[len(ROOT) :]
        return None if name.startswith(_WORLD) else name
    return "wire/generated" if name.startswith(_GENERATED) and "frozen" not in name else None


def counter() -> cProfile.Profile:
    """A profiler that counts calls between ``enable`` and ``disable``, without builtins."""
    return cProfile.Profile(subcalls=False, builtins=False)


def counts(profile: cProfile.Profile) -> Counts:
    """Calls by function."""
    by_function: Counter[str] = Counter()
    for entry in profile.getstats():
        if isinstance(entry.code, CodeType) and (file := file_of(entry.code)) is not None:
            by_function[f"{file}:{entry.code.co_qualname}"] += entry.callcount
    return dict(by_function)


def by_package(by_function: Mapping[str, float]) -> dict[str, float]:
    """Calls by package."""
    packages: defaultdict[str, float] = defaultdict(int)
    for name, calls in by_function.items():
        file = name.partition(":")[0]
        packages[file.split("/")[0].removesuffix(".py")] += calls
    return dict(sorted(packages.items()))


class Walker:
    """Notes which functions are entered, in order."""

    def __init__(self) -> None:
        self._entered: list[tuple[str, str]] = []

    def start(self) -> None:
        """Begin to note calls."""
        sys.setprofile(self._note_call)

    def stop(self) -> None:
        """Stop noting calls."""
        sys.setprofile(None)

    def walk(self, last_call: str | None = None) -> Walk:
        """Counts of the entered functions, up to the first call of ``last_call`` if it is given."""
        end = len(self._entered) if last_call is None else self.entered().index(last_call) + 1
        calls = self._entered[:end]
        files = [file for file, _ in calls]
        return Walk(
            files=len(set(files)),
            functions=len(set(calls)),
            changes=sum(file != next_file for file, next_file in pairwise(files)),
            calls=len(files),
        )

    def entered(self) -> list[str]:
        """Each function in the order of the calls."""
        return [f"{file}:{name}" for file, name in self._entered]

    def _note_call(self, frame: FrameType, event: str, _arg: Any) -> None:
        if event == "call" and (file := file_of(frame.f_code)) is not None:
            self._entered.append((file, frame.f_code.co_qualname))
