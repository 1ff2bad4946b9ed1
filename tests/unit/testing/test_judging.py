"""Assertions and their messages."""

from __future__ import annotations

import pytest

from tests.support.testing_plays import aborted, committed
from tests.support.within import within
from txnsim.client.inspection.hanging import OpenTransaction
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.txn_views import ProducerState
from txnsim.faults.actions import Hold
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.faults import FaultState
from txnsim.testing.judging import all_faults_struck, no_hanging_transactions
from txnsim.testing.virtual import run_virtual
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.past_decision import Decided, Decision
from txnsim.types import TopicPartition

HANGING = JudgedTransaction(
    transaction=OpenTransaction(
        partition=TopicPartition("orders", 1),
        producer=ProducerState(
            producer_id=7,
            producer_epoch=0,
            last_sequence=0,
            last_timestamp_ms=0,
            coordinator_epoch=None,
            txn_start_offset=3,
        ),
    ),
    verdict=OpenTxnStatus.HANGING,
    reason="no coordinator knows producer id 7",
    decided=Decided(decision=Decision.COMMITTED, because="so it is"),
)


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


def test_what_hangs_is_named_with_its_reason_and_its_end() -> None:
    no_hanging_transactions((), bootstrap="b:1")
    with pytest.raises(AssertionError) as refusal:
        no_hanging_transactions((HANGING,), bootstrap="b:1")
    assert str(refusal.value).splitlines() == [
        "1 transaction hangs:",
        "  orders-1 since offset 3: producer 7, epoch 0: no coordinator knows producer id 7",
        "    It was committed: end it with COMMIT, as so it is",
        "    txnsim txns --bootstrap-server b:1 repair --topic orders --partition 1 --yes",
    ]
    with pytest.raises(AssertionError, match="2 transactions hang:"):
        no_hanging_transactions((HANGING, HANGING), bootstrap="b:1")


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
