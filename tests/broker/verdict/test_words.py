"""Where readers stand, and the sentences for it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.broker.test_shell_text import PROGRAM, words_received
from tests.support.hostile_names import HOSTILE_NAMES
from txnsim.shell_text import ShellText, command_line, option
from txnsim.txn.open_txn_verdict import (
    DISCARD_WARNING,
    OpenTxnStatus,
    partition_options,
    program_at,
)
from txnsim.txn.past_decision import DecisionEvidence, PastDecision
from txnsim.types import TopicPartition
from txnsim.verdict import words
from txnsim.verdict.reader_standing import BlockingTxn, Cause, ReaderStanding
from txnsim.verdict.words import (
    NAMED_GROUPS_MAX,
    age_text,
    standing_advice,
    standing_sentences,
    standing_summary,
    withheld_sentence,
)

PARTITION = TopicPartition("t", 0)


def standing(
    cause: Cause, blocking_txn: BlockingTxn | None = None, *, other_holder_count: int = 0
) -> ReaderStanding:
    return ReaderStanding(
        partition=PARTITION,
        cause=cause,
        last_stable_offset=1,
        high_watermark=4,
        blocking_txn=blocking_txn,
        later_open_count=other_holder_count,
    )


def holder(status: OpenTxnStatus) -> BlockingTxn:
    return BlockingTxn(
        producer_id=7,
        producer_epoch=0,
        quiet_ms=2_500,
        verdict=status,
        reason="so it is",
        transactional_id="app",
        coordinator_id=2,
    )


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (OpenTxnStatus.HANGING, "txnsim txns repair --topic t --partition 0 --yes"),
        (OpenTxnStatus.DECIDED, "Look at broker 2"),
        (OpenTxnStatus.ALIVE, "--transactionalId app"),
    ],
)
def test_the_words_say_what_holds_readers_and_what_to_do(
    status: OpenTxnStatus, advice: str
) -> None:
    first_sentence, second_sentence, third_sentence, last_sentence = standing_sentences(
        standing(Cause.HANGING, holder(status), other_holder_count=2)
    )
    assert first_sentence == withheld_sentence(1, 4)
    assert "producer id 7, epoch 0" in second_sentence
    assert "2 s ago; so it is." in second_sentence
    assert advice in third_sentence
    assert last_sentence == "Transactions that are open behind it: 2."


@pytest.mark.parametrize("is_two_phase", [False, True])
def test_who_is_told_to_fence_a_producer_is_told_what_that_discards(*, is_two_phase: bool) -> None:
    """The application is gone, and a checkpoint of Flink may count the records as committed."""
    lingering_txn = msgspec.structs.replace(holder(OpenTxnStatus.ALIVE), is_two_phase=is_two_phase)
    advice = standing_sentences(standing(Cause.ALIVE, lingering_txn))[2]
    words_before_command, _, command = advice.partition(DISCARD_WARNING)
    assert "first" in words_before_command, "what to look at comes before the command"
    assert "checkpoint" in DISCARD_WARNING
    assert "forceTerminateTransaction --transactionalId app" in command


def test_a_command_is_that_of_the_cluster() -> None:
    assert program_at(None) == "txnsim txns"
    reader_standing = msgspec.structs.replace(
        standing(Cause.ALIVE, holder(OpenTxnStatus.ALIVE)), program=program_at("b:1")
    )
    assert (
        "txnsim txns --bootstrap-server b:1 forceTerminate"
        in standing_sentences(reader_standing)[2]
    )


@pytest.mark.parametrize(
    ("decision", "guess"),
    [
        (PastDecision.UNKNOWN, " --guess"),
        (PastDecision.ABORTED, ""),
    ],
)
def test_what_was_decided_is_said_and_a_guess_is_asked_for(
    decision: PastDecision, guess: str
) -> None:
    evidence = DecisionEvidence(decision=decision, because="a log says so")
    hanging_txn = msgspec.structs.replace(holder(OpenTxnStatus.HANGING), decided=evidence)
    advice = standing_sentences(standing(Cause.HANGING, hanging_txn))[2]
    assert f"It hangs. {evidence}. To end it: " in advice
    assert advice.endswith(guess or "--yes")
    assert standing_advice(standing(Cause.HANGING, hanging_txn)) == f"It hangs. {evidence}."
    assert standing_advice(standing(Cause.UNREPLICATED, hanging_txn)) == ""


def test_where_nothing_is_open_replication_may_hold_the_end() -> None:
    idle_standing = standing(Cause.NOTHING)
    assert "No transaction holds readers back" in standing_sentences(idle_standing)[0]
    assert len(standing_sentences(idle_standing)) == 2
    late_standing = ReaderStanding(
        partition=PARTITION,
        cause=Cause.UNREPLICATED,
        last_stable_offset=1,
        high_watermark=4,
        not_in_sync=[3],
    )
    assert "matter of replication" in standing_sentences(late_standing)[1]
    assert "Replicas [3]" in standing_sentences(late_standing)[2]


def test_a_transaction_that_is_alone_has_none_behind_it() -> None:
    assert len(standing_sentences(standing(Cause.ALIVE, holder(OpenTxnStatus.ALIVE)))) == 3


def test_share_groups_that_wait_there_are_named_up_to_ten() -> None:
    alive_standing = standing(Cause.ALIVE, holder(OpenTxnStatus.ALIVE))
    share_groups = [
        ("g", None),
        *((f"g{offset}", offset) for offset in range(NAMED_GROUPS_MAX + 1)),
    ]
    standing_with_groups = msgspec.structs.replace(alive_standing, share_groups=share_groups)
    assert standing_sentences(standing_with_groups)[:-1] == standing_sentences(alive_standing)
    assert standing_sentences(standing_with_groups)[-1] == (
        "Share groups with read_committed get nothing from there on either: g, g0 (start offset 0),"
        f" {', '.join(f'g{at} (start offset {at})' for at in range(1, NAMED_GROUPS_MAX - 1))}"
        " and 2 more."
    )
    standing_of_ten = msgspec.structs.replace(
        alive_standing, share_groups=[("g", None)] * NAMED_GROUPS_MAX
    )
    assert standing_sentences(standing_of_ten)[-1].endswith("g, g.")


def test_what_is_not_on_all_replicas_is_no_transaction() -> None:
    sentences = standing_sentences(standing(Cause.WRITTEN))
    assert len(sentences) == 2
    assert "No transaction is open there" in sentences[1]


@pytest.mark.parametrize("status", [OpenTxnStatus.HANGING, OpenTxnStatus.ALIVE])
def test_a_command_ends_its_sentence_and_names_what_was_meant(
    status: OpenTxnStatus, tmp_path: Path
) -> None:
    """The line can be pasted as it is into a shell, with the remark behind the command."""
    shell_lines, expected = [], []
    for name in HOSTILE_NAMES:
        blocking_txn = msgspec.structs.replace(holder(status), transactional_id=name)
        held_standing = msgspec.structs.replace(
            standing(Cause.HANGING, blocking_txn),
            partition=TopicPartition(name, 0),
            program=command_line(PROGRAM),
        )
        advice = standing_sentences(held_standing)[2]
        shell_lines.append(ShellText(advice[advice.index(f" {PROGRAM} ") :]))
        if status is OpenTxnStatus.ALIVE:
            expected.append(["forceTerminateTransaction", *option("--transactionalId", name)])
        else:
            partition_words = partition_options(TopicPartition(name, 0))
            expected.append(["repair", *partition_words, "--yes", "--guess"])
    assert words_received("sh", shell_lines, tmp_path / "home") == expected


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [(-5, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (3_599_999, "59 min"), (7_200_000, "2 h")],
)
def test_an_age_is_told_in_the_largest_unit_that_it_fills(age_ms: int, text: str) -> None:
    assert age_text(age_ms) == text


def test_a_summary_leaves_out_an_age_that_is_unknown() -> None:
    summary = standing_summary(age_ms=None, records_behind=1, readers=(), share_groups=None)
    assert summary == "1 offset withheld from readers · no consumer waits at this moment"


def test_a_summary_calls_a_timestamp_one() -> None:
    """A record may be stamped an hour before it is written: "for 1 h" was said after a second."""
    summary = standing_summary(age_ms=3_600_000, records_behind=2, readers=(), share_groups=None)
    assert summary.startswith("its first record is 1 h old by its timestamp · 2 offsets")


@pytest.mark.parametrize(
    ("state", "owed_count", "was_last_committed", "sentence"),
    [
        ("Ongoing", 0, None, "app is open"),
        ("PrepareCommit", 2, None, "app is decided: commit; 2 markers are owed"),
        ("PrepareAbort", 1, None, "app is decided: abort; its marker is owed"),
        ("PrepareEpochFence", 0, None, "app is being fenced"),
        ("CompleteAbort", 0, True, "app is over: aborted; no marker is owed"),
        ("Empty", 0, False, "app is over: aborted; no marker is owed"),
        ("Empty", 0, None, "app has begun no transaction"),
    ],
)
def test_a_coordinator_is_told_in_a_sentence(
    state: str, owed_count: int, was_last_committed: bool | None, sentence: str
) -> None:
    assert (
        words.coordinator_sentence(
            "app", state, owed_count=owed_count, is_last_commit=was_last_committed
        )
        == sentence
    )


def test_a_transaction_that_was_committed_is_not_ended_with_kafkas_own_tool() -> None:
    """Kafka's own tool writes ABORT markers only."""
    committing_advice = words.real_kafka_advice(PARTITION, 1, is_commit=True)
    assert committing_advice.end_command is None
    assert "its records would be lost" in committing_advice.end
    aborting_advice = words.real_kafka_advice(PARTITION, 1, is_commit=False)
    assert (aborting_advice.end, aborting_advice.end_command) == (
        "",
        "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic t --partition 0"
        " --start-offset 1",
    )


def test_a_command_for_a_real_kafka_quotes_names() -> None:
    advice = words.real_kafka_advice(TopicPartition("x;touch FILE", 0), 1, is_commit=False)
    assert "--topic 'x;touch FILE' --partition 0" in advice.find_command


@pytest.mark.parametrize("transactional_id", ["a b", "a transaction of x"])
def test_a_transactional_id_keeps_its_letters_in_a_headline(transactional_id: str) -> None:
    open_headline = words.open_headline(transactional_id, 7, PARTITION, first_offset=1, log_start=0)
    assert open_headline == f"{transactional_id} is open on t-0 since offset 1"
    hanging_headline = words.hanging_headline(
        transactional_id, 7, PARTITION, first_offset=1, log_start=0, stands_at=1
    )
    assert hanging_headline.startswith(f"A transaction of {transactional_id} hangs on t-0: ")


def test_a_headline_names_the_producer_where_no_coordinator_knows_it() -> None:
    open_headline = words.open_headline(None, 7, PARTITION, first_offset=1, log_start=0)
    assert open_headline == "A transaction of producer 7 is open on t-0 since offset 1"
    hanging_headline = words.hanging_headline(
        None, 7, PARTITION, first_offset=1, log_start=0, stands_at=None
    )
    assert hanging_headline == "A transaction of producer 7 hangs on t-0: open since offset 1"


def test_an_operators_marker_is_named_as_such() -> None:
    assert words.operator_marker_label(is_commit=True) == "COMMIT by an operator"
    assert words.operator_marker_sentence("app", "t-0", is_commit=False) == (
        "An operator has written the ABORT marker of app on t-0. Readers discard its records."
    )
