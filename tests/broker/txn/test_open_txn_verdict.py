from __future__ import annotations

import msgspec
import pytest

from txnsim.txn.open_txn_verdict import (
    Cause,
    Coordinated,
    Holder,
    OpenTxnStatus,
    Standing,
    judge_one,
    program_at,
    repair_command,
    sentences,
    withheld,
)
from txnsim.txn.past_decision import Decided, Decision
from txnsim.types import TopicPartition

PARTITION = TopicPartition("t", 0)


def coordinated(
    state: str = "Ongoing", *, pid: int = 7, epoch: int = 0, listed: bool = True
) -> Coordinated:
    return Coordinated(
        transactional_id="app",
        coordinator_id=2,
        state=state,
        producer_id=pid,
        producer_epoch=epoch,
        lists_partition=listed,
        timeout_ms=60_000,
    )


def standing(cause: Cause, holder: Holder | None = None, *, others: int = 0) -> Standing:
    return Standing(
        partition=PARTITION,
        cause=cause,
        last_stable_offset=1,
        high_watermark=4,
        holder=holder,
        others=others,
    )


def holder(verdict: OpenTxnStatus) -> Holder:
    return Holder(
        producer_id=7,
        producer_epoch=0,
        quiet_ms=2_500,
        verdict=verdict,
        reason="so it is",
        transactional_id="app",
        coordinator_id=2,
    )


@pytest.mark.parametrize(
    ("transactional_id", "known", "verdict", "words"),
    [
        (None, None, OpenTxnStatus.HANGING, "no coordinator knows producer id 7"),
        ("app", None, OpenTxnStatus.HANGING, "has forgotten transactional id app"),
        ("app", coordinated(pid=8), OpenTxnStatus.HANGING, "goes on with producer id 8"),
        ("app", coordinated(listed=False), OpenTxnStatus.HANGING, "without this partition"),
        ("app", coordinated("PrepareAbort", epoch=1), OpenTxnStatus.DECIDED, "the outcome stands"),
        ("app", coordinated(epoch=1), OpenTxnStatus.HANGING, "which no marker will end"),
        ("app", coordinated(), OpenTxnStatus.ALIVE, "transaction.timeout.ms=60000"),
    ],
)
def test_an_open_transaction_is_judged_by_what_its_coordinator_says(
    transactional_id: str | None, known: Coordinated | None, verdict: OpenTxnStatus, words: str
) -> None:
    found, reason = judge_one(7, 0, transactional_id, known)
    assert found is verdict
    assert words in reason


@pytest.mark.parametrize(
    ("verdict", "advice"),
    [
        (OpenTxnStatus.HANGING, "txnsim txns repair --topic t --partition 0 --yes"),
        (OpenTxnStatus.DECIDED, "Look at broker 2"),
        (OpenTxnStatus.ALIVE, "--transactionalId app"),
    ],
)
def test_the_words_say_what_holds_readers_and_what_to_do(
    verdict: OpenTxnStatus, advice: str
) -> None:
    first, second, third, last = sentences(standing(Cause.HANGING, holder(verdict), others=2))
    assert first == withheld(1, 4)
    assert "producer id 7, epoch 0" in second
    assert "2 s ago; so it is." in second
    assert advice in third
    assert last == "Transactions that are open behind it: 2."


@pytest.mark.parametrize("verdict", OpenTxnStatus)
def test_only_what_hangs_has_a_command(verdict: OpenTxnStatus) -> None:
    command = repair_command(PARTITION, verdict, program=program_at("b:1", "--command-config", "f"))
    assert command == (
        "txnsim txns --bootstrap-server b:1 --command-config f repair --topic t --partition 0 --yes"
        if verdict is OpenTxnStatus.HANGING
        else None
    )


def test_a_command_is_that_of_the_cluster() -> None:
    assert program_at(None) == "txnsim txns"
    there = msgspec.structs.replace(
        standing(Cause.ALIVE, holder(OpenTxnStatus.ALIVE)), program=program_at("b:1")
    )
    assert "txnsim txns --bootstrap-server b:1 forceTerminate" in sentences(there)[2]


@pytest.mark.parametrize(
    ("decision", "guess"),
    [(Decision.UNKNOWN, "--guess abort, or --guess commit"), (Decision.ABORTED, "")],
)
def test_what_was_decided_is_said_and_a_guess_is_asked_for(decision: Decision, guess: str) -> None:
    decided = Decided(decision=decision, because="a log says so")
    hanging = msgspec.structs.replace(holder(OpenTxnStatus.HANGING), decided=decided)
    advice = sentences(standing(Cause.HANGING, hanging))[2]
    assert f"It hangs. {decided}. To end it: " in advice
    assert advice.endswith(f"{guess}." if guess else "--yes.")


def test_where_nothing_is_open_replication_may_hold_the_end() -> None:
    nothing = standing(Cause.NOTHING)
    assert "No transaction holds readers back" in sentences(nothing)[0]
    assert len(sentences(nothing)) == 2
    late = Standing(
        partition=PARTITION,
        cause=Cause.UNREPLICATED,
        last_stable_offset=1,
        high_watermark=4,
        not_in_sync=[3],
    )
    assert "matter of replication" in sentences(late)[1]
    assert "Replicas [3]" in sentences(late)[2]


def test_a_transaction_that_is_alone_has_none_behind_it() -> None:
    assert len(sentences(standing(Cause.ALIVE, holder(OpenTxnStatus.ALIVE)))) == 3


def test_what_is_not_on_all_replicas_is_no_transaction() -> None:
    written = sentences(standing(Cause.WRITTEN))
    assert len(written) == 2
    assert "No transaction is open there" in written[1]
