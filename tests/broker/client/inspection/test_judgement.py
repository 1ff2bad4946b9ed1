"""Open transactions and what becomes of them: one row per case of the comparison."""

from __future__ import annotations

import pytest

from txnsim.client.inspection.hanging import OpenTransaction
from txnsim.client.inspection.judgement import judge
from txnsim.client.inspection.txn_views import ProducerState, TransactionDescription
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
OPEN = OpenTransaction(
    partition=P0,
    producer=ProducerState(
        producer_id=1,
        producer_epoch=3,
        last_sequence=0,
        last_timestamp_ms=0,
        coordinator_epoch=None,
        txn_start_offset=5,
    ),
)


def known(
    state: str, *partitions: TopicPartition, epoch: int = 3, producer_id: int = 1
) -> TransactionDescription:
    return TransactionDescription(
        coordinator_id=2,
        transactional_id="x",
        state=state,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=1000,
        start_time_ms=None,
        partitions=partitions,
    )


@pytest.mark.parametrize(
    ("ids", "description", "verdict", "said"),
    [
        ({}, None, OpenTxnStatus.HANGING, "no coordinator knows producer id 1"),
        ({1: "x"}, None, OpenTxnStatus.HANGING, "forgotten transactional id x"),
        ({1: "x"}, known("CompleteAbort"), OpenTxnStatus.HANGING, "CompleteAbort without this"),
        ({1: "x"}, known("Ongoing", P1), OpenTxnStatus.HANGING, "Ongoing without this partition"),
        ({1: "x"}, known("PrepareAbort", P1), OpenTxnStatus.HANGING, "PrepareAbort without this"),
        ({1: "x"}, known("Ongoing", P0, epoch=4), OpenTxnStatus.HANGING, "of epoch 3"),
        ({1: "x"}, known("Ongoing", P0, producer_id=9), OpenTxnStatus.HANGING, "producer id 9"),
        ({1: "x"}, known("Ongoing", P0, P1), OpenTxnStatus.ALIVE, "transaction.timeout.ms=1000"),
        (
            {1: "x"},
            known("PrepareCommit", P0),
            OpenTxnStatus.DECIDED,
            "PrepareCommit: the outcome",
        ),
        # A transaction that is fenced is ended with the next epoch (transactions v2: each one).
        ({1: "x"}, known("PrepareAbort", P0, epoch=4), OpenTxnStatus.DECIDED, "broker 2"),
        ({1: "x"}, known("PrepareEpochFence", P0, epoch=4), OpenTxnStatus.DECIDED, "broker 2"),
    ],
)
def test_verdicts(
    ids: dict[int, str],
    description: TransactionDescription | None,
    verdict: OpenTxnStatus,
    said: str,
) -> None:
    (finding,) = judge([OPEN], ids, {"x": description})
    assert finding.verdict is verdict
    assert said in finding.reason
    assert finding.transaction is OPEN
    assert finding.transactional_id == ids.get(1)
    assert finding.state == (description.state if description else None)
    assert finding.coordinator_id == (2 if description else None)


def test_only_what_hangs_comes_with_a_command() -> None:
    (hangs,) = judge([OPEN], {}, {})
    assert hangs.command("txns") == "txns repair --topic t --partition 0 --yes"
    (decided,) = judge([OPEN], {1: "x"}, {"x": known("PrepareCommit", P0)})
    assert decided.command("txns") is None
