"""Histories: what is noted, refused and left out, and who judges them."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from tests.support.hand_made_histories import HistoryBuilder
from txnsim.types import TopicPartition
from txnsim_lab.check._skipped import skipped_input
from txnsim_lab.check.anomaly import Kind, convict
from txnsim_lab.check.history import History, HistoryError, TransactionFate, require_answers
from txnsim_lab.check.observations import (
    Added,
    Began,
    Ended,
    Healed,
    Isolation,
    Outcome,
    Position,
    PositionsRead,
    Read,
    Record,
    Seen,
    SentOffsets,
    Wrote,
)

T0 = TopicPartition("t", 0)
BEGAN = Began(at_ms=1, who="p", transaction="T1", transactional_id="app")
ADDED = Added(at_ms=2, who="p", transaction="T1", partitions=(T0,))
WROTE = Wrote(at_ms=3, who="p", transaction="T1", topic="t", partition=0, value="r1", offset=0)
REFUSED = Wrote(
    at_ms=4, who="p", transaction="T1", topic="t", partition=0, value="r2", outcome=Outcome.FAILED
)
SENT = SentOffsets(
    at_ms=5, who="p", transaction="T1", group="g", topic="in", partition=0, position=9
)
ENDED = Ended(at_ms=6, who="p", transaction="T1", commit=True)
READ = Read(
    at_ms=7,
    who="r",
    transaction="T1",
    topic="t",
    partition=0,
    asked=0,
    next_offset=2,
    records=(Record(offset=0, value="r1"),),
)
DIRTY = Read(
    at_ms=8,
    who="u",
    topic="t",
    partition=0,
    isolation=Isolation.READ_UNCOMMITTED,
    asked=0,
    next_offset=1,
)
NOT_READ = Read(
    at_ms=9, who="r", topic="t", partition=0, asked=9, next_offset=9, error="OFFSET_OUT_OF_RANGE"
)
ELSEWHERE = Read(at_ms=9, who="r", topic="t", partition=1, asked=0, next_offset=0)
ALL = (BEGAN, ADDED, WROTE, REFUSED, SENT, ENDED, READ, DIRTY, NOT_READ, ELSEWHERE)


def test_a_history_is_a_sequence_that_grows() -> None:
    history = History(ALL[:2])
    history.add(WROTE)
    assert len(history) == 3
    assert list(history) == [BEGAN, ADDED, WROTE]
    assert history[2] is WROTE
    assert list(history.until(1)) == [BEGAN]


def test_reads_are_those_without_an_error() -> None:
    history = History(ALL)
    assert [read for _, read in history.reads()] == [READ, DIRTY, ELSEWHERE]
    assert list(history.reads(T0)) == [(6, READ), (7, DIRTY)]
    assert list(history.committed_reads(T0)) == [(6, READ)]
    assert list(history.writes()) == [(2, WROTE), (3, REFUSED)]


def test_a_transaction_is_gathered_from_its_observations() -> None:
    transaction = History(ALL).transactions()["T1"]
    assert transaction.transactional_id == "app"
    assert transaction.writes == ((2, WROTE), (3, REFUSED))
    assert transaction.acknowledged == ((2, WROTE),)
    assert transaction.positions == ((4, SENT),)
    assert transaction.ends == ((5, ENDED),)
    assert transaction.reads == ((6, READ),)


def test_a_transaction_that_nobody_saw_begin_has_no_id() -> None:
    transactions = History([Healed(at_ms=1, who="h"), WROTE]).transactions()
    assert list(transactions) == ["T1"]
    assert transactions["T1"].transactional_id is None


OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("ends", "fate"),
    [
        pytest.param([], TransactionFate(), id="no end"),
        pytest.param([(True, OK)], TransactionFate(is_committed=True), id="commit"),
        pytest.param(
            [(True, UNKNOWN)], TransactionFate(may_be_committed=True), id="commit without an answer"
        ),
        pytest.param([(True, FAILED)], TransactionFate(is_aborted=True), id="commit refused"),
        pytest.param([(False, OK)], TransactionFate(is_aborted=True), id="abort"),
        pytest.param(
            [(False, UNKNOWN)], TransactionFate(is_aborted=True), id="abort without an answer"
        ),
        pytest.param([(False, FAILED)], TransactionFate(is_aborted=True), id="abort refused"),
        pytest.param(
            [(True, UNKNOWN), (True, OK)],
            TransactionFate(is_committed=True),
            id="commit, at the second attempt",
        ),
        pytest.param(
            [(True, UNKNOWN), (True, FAILED)],
            TransactionFate(may_be_committed=True),
            id="a refused repetition does not undo the first attempt",
        ),
        pytest.param(
            [(True, UNKNOWN), (False, OK)],
            TransactionFate(may_be_committed=True),
            id="an abort behind a commit without an answer may have ended the next one",
        ),
    ],
)
def test_the_fate_is_what_the_producer_was_told(
    ends: list[tuple[bool, Outcome]], fate: TransactionFate
) -> None:
    history = History(
        Ended(at_ms=1, who="p", transaction="T1", commit=is_commit, outcome=outcome)
        for is_commit, outcome in ends
    )
    history.add(WROTE)
    fate_found = history.transactions()["T1"].fate
    assert fate_found == fate
    assert fate_found.is_undecided == (fate == TransactionFate())


def test_a_history_survives_its_lines() -> None:
    history = History(ALL)
    lines = history.to_lines()
    assert len(lines.splitlines()) == len(ALL)
    assert list(History.from_lines(lines)) == list(history)


def test_empty_lines_and_comments_are_left_out() -> None:
    text = b"# a story\n\n" + History([BEGAN]).to_lines() + b"  \n"
    assert list(History.from_lines(text)) == [BEGAN]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"\n{", "line 2: "),
        (b'{"seen":"dreamt","at_ms":1,"who":"p"}', "line 1: .*dreamt"),
        (b'{"seen":"healed","at_ms":1}', "line 1: .*who"),
        (b'{"seen":"healed","at_ms":1,"who":"\xff"}', "line 1: "),
    ],
)
def test_a_line_that_is_no_observation_is_told(text: bytes, complaint: str) -> None:
    with pytest.raises(HistoryError, match=complaint):
        History.from_lines(text)


def test_what_is_derived_is_made_once_until_something_is_added() -> None:
    history_lengths: list[int] = []

    def length(history: History) -> int:
        history_lengths.append(len(history))
        return len(history)

    history = History([BEGAN])
    assert [history.derived(length), history.derived(length)] == [1, 1]
    history.add(WROTE)
    assert history.derived(length) == 2
    assert history_lengths == [1, 2]
    assert history.transactions()["T1"].writes == ((1, WROTE),)


# skipped-input, one thing at a time; whole stories are in tests/lab/checkers/histories.


def test_without_a_position_there_is_nothing_to_judge() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise()
    history_builder.begin()
    assert skipped_input(history_builder.history) == ()


def test_a_position_whose_members_reads_are_not_told_convicts_nobody() -> None:
    history_builder = HistoryBuilder()
    history_builder.send_offsets("T1", 20)
    history_builder.commit()
    history_builder.positions(20)
    assert skipped_input(history_builder.history) == ()


def input_position(offset: int) -> tuple[Position, ...]:
    return (Position(topic="in", partition=0, offset=offset),)


def polled_in_an_abort(
    *, redone: str | None = None, outcome: Outcome = Outcome.OK
) -> HistoryBuilder:
    """in-0@0 is polled in T1, which is aborted; T2 does in-0@1 and commits the position behind."""
    history_builder = HistoryBuilder()
    input_fields = {"topic": "in", "partition": 0, "client_name": "p"}
    history_builder.read(0, {0: "a"}, 1, **input_fields, transaction="T1")
    history_builder.write("T1", "A", of=input_position(0))
    history_builder.abort("T1")
    history_builder.read(1, {1: "b"}, 2, **input_fields, transaction="T2")
    history_builder.write("T2", "B", of=input_position(1))
    if redone is not None:
        history_builder.write(redone, "A again", outcome=outcome, of=input_position(0))
    history_builder.send_offsets("T2", 2)
    history_builder.commit("T2")
    history_builder.read(0, {0: "a", 1: "b"}, 2, topic="in", partition=0)
    return history_builder


def test_an_input_of_an_abort_needs_its_output_where_outputs_name_their_inputs() -> None:
    (anomaly,) = skipped_input(polled_in_an_abort().history)
    assert anomaly.because == (
        "the position of g on in-0 was 2, and no member of the group has processed 0"
    )
    assert anomaly.evidence == (0, 5)
    history_builder = polled_in_an_abort(redone="T2", outcome=Outcome.FAILED)
    assert len(skipped_input(history_builder.history)) == 1


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNKNOWN])
def test_an_output_that_may_be_there_shows_that_the_work_was_done(outcome: Outcome) -> None:
    assert skipped_input(polled_in_an_abort(redone="T2", outcome=outcome).history) == ()


def test_outputs_of_another_group_say_nothing_of_this_one() -> None:
    history_builder = HistoryBuilder()
    input_fields = {"topic": "in", "partition": 0, "client_name": "p"}
    history_builder.read(0, {0: "a"}, 1, **input_fields, transaction="T1")
    history_builder.abort("T1")
    history_builder.send_offsets("T2", 1)
    history_builder.commit("T2")
    history_builder.write("T3", "A", of=input_position(7), client_name="q")
    history_builder.read(0, {0: "a"}, 1, topic="in", partition=0)
    assert skipped_input(history_builder.history) == ()


def test_an_observation_knows_its_partition() -> None:
    observed_write = Wrote(at_ms=1, who="p", topic="t", partition=2, value="r1")
    assert observed_write.place == TopicPartition("t", 2)
    assert Position(topic="in", partition=1, offset=10).place == TopicPartition("in", 1)


def test_each_kind_has_a_name_of_its_own() -> None:
    tags = [observation_class.__struct_config__.tag for observation_class in get_args(Seen)]
    assert len(set(tags)) == len(tags)


def test_what_is_not_said_is_the_usual_case() -> None:
    text = b'{"seen":"wrote","at_ms":1,"who":"p","topic":"t","partition":0,"value":"r1"}'
    write = msgspec.json.decode(text, type=Seen)
    assert isinstance(write, Wrote)
    assert (write.outcome, write.transaction, write.offset) == (Outcome.OK, None, -1)
    assert msgspec.json.encode(write) == text
    read = Read(at_ms=1, who="r", topic="t", partition=0, asked=0, next_offset=0)
    assert read.isolation is Isolation.READ_COMMITTED


@pytest.mark.parametrize(
    "observation",
    [
        Added(at_ms=1, who="p", transaction="T1", partitions=(TopicPartition("t", 0),)),
        PositionsRead(
            at_ms=1, who="r", group="g", positions=(Position(topic="in", partition=0, offset=1),)
        ),
    ],
)
def test_nested_values_come_back_as_written(observation: Seen) -> None:
    assert msgspec.json.decode(msgspec.json.encode(observation), type=Seen) == observation


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `valeu`"):
        msgspec.json.decode(
            b'{"seen":"wrote","at_ms":1,"who":"p","topic":"t","partition":0,"valeu":"r1"}',
            type=Seen,
        )


def test_evidence_is_in_order_and_each_piece_once() -> None:
    anomaly = convict(Kind.DUPLICATE, "so it is", 9, 2, 9)
    assert anomaly.evidence == (2, 9)
    assert (anomaly.kind, anomaly.because) == (Kind.DUPLICATE, "so it is")


@pytest.mark.parametrize(
    ("observations", "complaint"),
    [
        ((), "no observation in it"),
        ((BEGAN,), "no answer of a broker in it"),
        (
            (BEGAN, msgspec.structs.replace(WROTE, outcome=Outcome.UNKNOWN)),
            "no answer of a broker in it",
        ),
    ],
)
def test_a_history_without_an_answer_is_refused(
    observations: tuple[Seen, ...], complaint: str
) -> None:
    with pytest.raises(HistoryError, match=complaint):
        require_answers(History(observations))


@pytest.mark.parametrize("answer", [WROTE, REFUSED, ENDED, DIRTY])
def test_a_history_with_an_answer_can_be_judged(answer: Seen) -> None:
    require_answers(History((BEGAN, answer)))
