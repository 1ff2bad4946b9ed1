"""Assertions and their messages."""

from __future__ import annotations

import pytest

from tests.support.testing_plays import HANGING, aborted, committed
from tests.support.within import within
from txnsim.faults.actions import Hold
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.testing._judging import all_faults_struck, no_hanging_transactions
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.faults import FaultState


def state(*, struck: int = 0, matched: int = 0, may_miss: bool = False) -> FaultState:
    return FaultState(
        rule=FaultRule(id="late", point=FaultPoint.CLIENT_REQUEST, action=Hold()),
        matched=matched,
        struck=struck,
        held=0,
        released=0,
        may_miss=may_miss,
        in_force=True,
    )


def test_what_hangs_fails_a_test() -> None:
    no_hanging_transactions((), bootstrap="b:1")
    with pytest.raises(AssertionError, match="1 transaction hangs:\n  orders-1 since offset 3"):
        no_hanging_transactions((HANGING,), bootstrap="b:1")


def test_a_fault_that_never_struck_is_named() -> None:
    all_faults_struck([state(struck=1), state(may_miss=True)])
    with pytest.raises(AssertionError, match=r"late: nothing matched: \{"):
        all_faults_struck([state()])
    with pytest.raises(AssertionError, match=r"late: 2 crossings matched: \{"):
        all_faults_struck([state(matched=2)])


@within(run_virtual, topics={"input": 2, "output": 1})
async def test_topics_are_compared_by_what_readers_see(kafka: AsyncSimulatedKafka) -> None:
    await committed(kafka, "input", "a", "b")
    await aborted(kafka, "input", "c")
    await committed(kafka, "output", "A", "B")
    await aborted(kafka, "output", "B")
    await kafka.assert_exactly_once("input", "output", derive=bytes.upper)
    await kafka.assert_exactly_once(["A", b"B"], "output")
    await kafka.assert_exactly_once("input", "output", derive=lambda value: [value.upper()])
    await committed(kafka, "output", "B", "C")
    with pytest.raises(AssertionError) as refusal:
        await kafka.assert_exactly_once("input", "output", derive=bytes.upper)
    assert str(refusal.value).splitlines() == [
        "not exactly once, from input to output:",
        "more than once: 1 record",
        "  'B' (written there in a transaction that is aborted)",
        "aborted, but read: 1 record",
        "  'C'",
    ]
    with pytest.raises(TypeError, match="found 7"):
        await kafka.assert_exactly_once([7], "output")
