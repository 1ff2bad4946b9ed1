from __future__ import annotations

import pytest

from txnsim.types import TopicPartition
from txnsim_lab.check.history import Fate, History, HistoryError
from txnsim_lab.check.observations import (
    Added,
    Began,
    Ended,
    Healed,
    Isolation,
    Outcome,
    Read,
    Record,
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
        pytest.param([], Fate(), id="no end"),
        pytest.param([(True, OK)], Fate(committed=True), id="commit"),
        pytest.param([(True, UNKNOWN)], Fate(maybe_committed=True), id="commit without an answer"),
        pytest.param([(True, FAILED)], Fate(aborted=True), id="commit refused"),
        pytest.param([(False, OK)], Fate(aborted=True), id="abort"),
        pytest.param([(False, UNKNOWN)], Fate(aborted=True), id="abort without an answer"),
        pytest.param([(False, FAILED)], Fate(aborted=True), id="abort refused"),
        pytest.param(
            [(True, UNKNOWN), (True, OK)], Fate(committed=True), id="commit, at the second attempt"
        ),
        pytest.param(
            [(True, UNKNOWN), (True, FAILED)],
            Fate(maybe_committed=True),
            id="a refused repetition does not undo the first attempt",
        ),
        pytest.param(
            [(True, UNKNOWN), (False, OK)],
            Fate(maybe_committed=True),
            id="an abort behind a commit without an answer may have ended the next one",
        ),
    ],
)
def test_the_fate_is_what_the_producer_was_told(
    ends: list[tuple[bool, Outcome]], fate: Fate
) -> None:
    history = History(
        Ended(at_ms=1, who="p", transaction="T1", commit=commit, outcome=outcome)
        for commit, outcome in ends
    )
    history.add(WROTE)
    found = history.transactions()["T1"].fate
    assert found == fate
    assert found.open == (fate == Fate())


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
    made: list[int] = []

    def length(history: History) -> int:
        made.append(len(history))
        return len(history)

    history = History([BEGAN])
    assert [history.derived(length), history.derived(length)] == [1, 1]
    history.add(WROTE)
    assert history.derived(length) == 2
    assert made == [1, 2]
    assert history.transactions()["T1"].writes == ((1, WROTE),)
