"""Actions on crossings as values: checked when they are made, and said in words."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from txnsim.errors import ErrorCode
from txnsim.faults.actions import (
    Corrupt,
    CrossingAction,
    Delay,
    Disconnect,
    Drop,
    DropAnswer,
    Duplicate,
    Fail,
    Hold,
    Pass,
    Reorder,
    Rewrite,
    Slice,
    Stall,
    Throttle,
)
from txnsim.faults.crossings import DamagedPart, RewriteHow, Rewriting, Slices

WORDS = [
    (Pass(), {"do": "pass"}, "pass"),
    (Hold(), {"do": "hold"}, "hold"),
    (Delay(delay_ms=5), {"do": "delay", "delay_ms": 5}, "delay 5 ms"),
    (Reorder(behind=2), {"do": "reorder", "behind": 2}, "reorder behind 2"),
    (Stall(), {"do": "stall", "stall_ms": None}, "stall"),
    (Stall(stall_ms=0), {"do": "stall", "stall_ms": 0}, "stall 0 ms"),
    (Drop(), {"do": "drop"}, "drop"),
    (DropAnswer(), {"do": "drop-answer"}, "drop-answer"),
    (
        Fail(error="not_coordinator"),
        {"do": "error", "error": "not_coordinator"},
        "error NOT_COORDINATOR",
    ),
    (Duplicate(times=3), {"do": "duplicate", "times": 3}, "duplicate 3"),
    (
        Rewrite(field="committed_offset", how=RewriteHow.ADD, value=5),
        {
            "do": "rewrite",
            "field": "committed_offset",
            "how": "add",
            "value": 5,
            "entry": None,
        },
        "rewrite committed_offset: add 5",
    ),
    (
        Rewrite(field="aborted_transactions", how=RewriteHow.CLEAR),
        {
            "do": "rewrite",
            "field": "aborted_transactions",
            "how": "clear",
            "value": None,
            "entry": None,
        },
        "rewrite aborted_transactions: clear",
    ),
    (
        Rewrite(field="aborted_transactions", how=RewriteHow.INSERT, entry={"producer_id": 7}),
        {
            "do": "rewrite",
            "field": "aborted_transactions",
            "how": "insert",
            "value": None,
            "entry": {"producer_id": 7},
        },
        "rewrite aborted_transactions: insert producer_id=7",
    ),
    (Throttle(throttle_ms=70), {"do": "throttle", "throttle_ms": 70}, "throttle 70 ms"),
    (Corrupt(what=DamagedPart.CRC), {"do": "corrupt", "what": "crc"}, "corrupt crc"),
    (
        Slice(bytes=10, every_ms=5),
        {"do": "slice", "bytes": 10, "every_ms": 5},
        "slice 10 bytes every 5 ms",
    ),
    (Disconnect(), {"do": "disconnect"}, "disconnect"),
    (Disconnect(reset=True), {"do": "disconnect", "reset": True}, "disconnect with reset"),
]


def test_a_slice_is_told_to_who_writes() -> None:
    assert Slice(bytes=10, every_ms=5).slices == Slices(size=10, every_ms=5)


@pytest.mark.parametrize(("action", "value", "words"), WORDS)
def test_actions_are_read_written_and_said(
    action: CrossingAction, value: dict[str, object], words: str
) -> None:
    assert msgspec.to_builtins(action) == value
    assert msgspec.convert(value, CrossingAction) == action
    assert str(action) == words


def test_every_action_is_here() -> None:
    assert {type(action) for action, _, _ in WORDS} == set(CrossingAction.__args__)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Delay(delay_ms=-1),
        lambda: Reorder(behind=0),
        lambda: Stall(stall_ms=-1),
        lambda: Duplicate(times=0),
        lambda: Throttle(throttle_ms=0),
        lambda: Fail(error="NO_SUCH"),
        lambda: Delay(delay_ms=10**15),
        lambda: Reorder(behind=2**40),
        lambda: Stall(stall_ms=10**15),
        lambda: Duplicate(times=1_001),
        lambda: Throttle(throttle_ms=2**31),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"expected \d to \d+|no Kafka error"):
        make()


@pytest.mark.parametrize(
    ("how", "value", "why"),
    [
        (RewriteHow.ADD, None, "value is missing: add needs one"),
        (RewriteHow.CLEAR, 1, "value has no meaning with clear"),
        (RewriteHow.INSERT, None, "entry is missing: insert needs one"),
        (RewriteHow.SET, 1 << 63, r"value.*expected -\d+ to \d+"),
    ],
)
def test_a_rewriting_that_makes_no_sense_is_refused(
    how: RewriteHow, value: int | None, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        Rewrite(field="committed_offset", how=how, value=value)


def test_an_entry_is_for_insert_alone() -> None:
    with pytest.raises(ValueError, match="entry has no meaning with clear"):
        Rewrite(field="aborted_transactions", how=RewriteHow.CLEAR, entry={"producer_id": 7})


def test_a_rewriting_is_what_an_answer_is_changed_by() -> None:
    action = Rewrite(field="committed_offset", how=RewriteHow.ADD, value=3)
    assert action.rewriting == Rewriting(field="committed_offset", how=RewriteHow.ADD, value=3)


def test_an_error_is_a_code() -> None:
    assert Fail(error="NOT_COORDINATOR").code is ErrorCode.not_coordinator
