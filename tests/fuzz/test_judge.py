"""A judge finds what it is there for."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import structlog

from tests.fuzz.judge import Judge
from tests.fuzz.target import Target, Violation


def raise_key_error(_data: bytes) -> None:
    raise KeyError("x")


def raise_violation(_data: bytes) -> None:
    raise Violation("an answer too many")


def burn_cpu(_data: bytes) -> None:
    begun_s = time.thread_time()
    while time.thread_time() - begun_s < 0.12:
        pass


def log_error(_data: bytes) -> None:
    structlog.get_logger("t").error("request failed by a bug", api="Fetch", version=4)


def take_memory(_data: bytes) -> float:
    bytearray(b"x") * (80 << 20)
    return 0.0  # a time of its own: to touch 80 MiB takes over 100 ms on a slow machine


def claim_cpu_ms(_data: bytes) -> float:
    return 130.0


@pytest.mark.parametrize(
    ("play", "kind"),
    [
        (raise_key_error, "KeyError"),
        (raise_violation, "Violation an answer too many"),
        (burn_cpu, "time"),
        (log_error, "log: request failed by a bug"),
        (take_memory, "memory"),
        (claim_cpu_ms, "time"),
    ],
)
def test_each_property_can_be_broken(play: Callable[[bytes], float | None], kind: str) -> None:
    find = Judge(Target(play=play, seeds=tuple)).play(b"x")
    assert find is not None
    assert find.kind == kind


def test_what_breaks_nothing_is_no_find() -> None:
    judge = Judge(Target(play=lambda _: None, seeds=tuple))
    assert judge.play(b"x") is None
    assert judge.slowest_ms < 100


def test_an_error_that_an_operator_has_made_is_no_find() -> None:
    allowed = frozenset({"request failed by a bug"})
    assert Judge(Target(play=log_error, seeds=tuple, allowed=allowed)).play(b"x") is None
