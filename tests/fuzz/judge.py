"""Plays inputs of one target and holds each against what is demanded of all."""

from __future__ import annotations

import hashlib
import resource
import time
import traceback
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

import txnsim
from tests.fuzz.target import LOOP_MS, MEMORY_MIB, Target, Violation

PACKAGE: Final = f"{Path(txnsim.__file__).parent}/"


class Find(msgspec.Struct, frozen=True, kw_only=True):
    """An input that broke a property."""

    kind: str
    """One word or two and a place: finds of the same kind count once."""
    story: str
    """What happened, with a traceback where there is one."""


class Judge:
    """Plays inputs to a target, and measures time and memory of each."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._bugs: list[MutableMapping[str, Any]] = []
        self.slowest_ms = 0.0
        self.most_mib = 0.0
        self._resident_kib = 0
        self._until_rest = 0
        structlog.configure(
            processors=[self._note_event], logger_factory=structlog.ReturnLoggerFactory()
        )

    def play(self, fuzz_bytes: bytes) -> Find | None:
        """Play an input; return the broken property, or None."""
        if not self._until_rest:
            self._reset_memory()
        self._until_rest -= 1
        begun_ns = time.thread_time_ns()
        try:
            longest_ms = self._target.play(fuzz_bytes)
        except Exception as error:  # noqa: BLE001 - what it is decides whether it is a find
            return _find_of_error(error)
        finally:
            took_ms = (time.thread_time_ns() - begun_ns) / 1e6
        if self._bugs:
            return self._find_in_log()
        if longest_ms is not None:
            took_ms = longest_ms
        self.slowest_ms = max(self.slowest_ms, took_ms)
        if took_ms > LOOP_MS:
            return Find(kind="time", story=f"{took_ms:.0f} ms of CPU without a break")
        grown_mib = (_peak_kib() - self._resident_kib) / 1024 - len(fuzz_bytes) / 2**20
        self.most_mib = max(self.most_mib, grown_mib)
        if grown_mib > MEMORY_MIB:
            self._until_rest = 0
            return Find(kind="memory", story=f"{grown_mib:.0f} MiB more than it carries")
        return None

    def _reset_memory(self) -> None:
        """Begin a new account of memory: what a corpus and caches take is no input's."""
        self._until_rest = 2_000
        Path("/proc/self/clear_refs").write_text("5")  # the peak is what is resident now
        self._resident_kib = _peak_kib()

    def _note_event(self, _logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        is_bug = method in ("error", "critical", "exception")
        if is_bug and event["event"] not in self._target.allowed:
            self._bugs.append(event)
        return ""

    def _find_in_log(self) -> Find:
        event = self._bugs[0]
        self._bugs.clear()
        error = event.get("exc_info")
        if isinstance(error, BaseException):
            find = _find_of_error(error)
            request = f"{event.get('api')} v{event.get('version')}"
            return Find(kind=find.kind, story=f"{event['event']}: {request}\n{find.story}")
        return Find(kind=f"log: {event['event']}", story=repr(event))


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _find_of_error(error: BaseException) -> Find:
    """Finds of one kind have the same error from the same line of ours."""
    stack = traceback.extract_tb(error.__traceback__)
    own_frames = [frame for frame in stack if frame.filename.startswith(PACKAGE)]
    location = ""
    if own_frames:
        last_frame = own_frames[-1]
        location = f" {last_frame.filename.removeprefix(PACKAGE)}:{last_frame.lineno}"
    reason = str(error)[:40] if isinstance(error, Violation) else ""
    story = "".join(traceback.format_exception(error))
    return Find(kind=f"{type(error).__name__}{location} {reason}".strip(), story=story)


def name_of(fuzz_bytes: bytes) -> str:
    """The file name of an input."""
    return hashlib.sha256(fuzz_bytes).hexdigest()[:16]
