from __future__ import annotations

import msgspec
import pytest

from tests.support.small_trace import small
from tests.support.traces import hung_at, told_run
from txnsim.errors import BadInputError, ConfigError
from txnsim_lab.scenario.teaching.facts import FACTS, fact, in_words, is_fact


def test_facts_are_read_from_the_trace() -> None:
    run = told_run()
    until = tuple(event for event in run.events if event.i <= hung_at(run))
    run = msgspec.structs.replace(run, events=until)
    assert fact(run, "cause payments-0") == "hanging transaction"
    assert fact(run, "lso payments-0") == "1"
    assert fact(run, "withheld payments-0") == "3"
    assert fact(run, "gets payments-0") == "nothing"
    assert fact(run, "markers payments-0") == "ABORT"
    assert fact(run, "known-epoch payments-0") == "0"
    assert fact(run, "refused payments-0") == "nothing"
    assert fact(run, "marker-refused payments-0") == "nothing"
    assert fact(run, "answer abort") == "NONE"
    with pytest.raises(BadInputError, match="no rule late is armed"):
        fact(run, "struck late")
    assert fact(run, "epoch app") == "1"
    assert fact(run, "state app") in ("CompleteAbort", "Empty")


def test_what_was_committed_or_not_transactional_is_got() -> None:
    assert fact(told_run(), "gets payments-0") == "2, 3"  # the operator has ended what hung
    assert fact(told_run(), "markers payments-0") == "ABORT, ABORT"


def test_each_fact_has_its_words() -> None:
    assert in_words("reads orders-0") == "what a consumer reads of orders-0"
    assert in_words("lso payments-0") == "last stable offset of payments-0"
    assert all(is_fact(f"{name} payments-0") for name in FACTS)
    assert not is_fact("lso")


@pytest.mark.parametrize("words", ["lso orders-0", "gets orders-0", "known-epoch orders-0"])
def test_a_partition_that_the_trace_does_not_have_is_told(words: str) -> None:
    with pytest.raises(BadInputError, match="orders-0"):
        fact(told_run(), words)


def test_what_is_no_fact_is_told() -> None:
    with pytest.raises(BadInputError, match="nothing of shop"):
        fact(small(("broker/1",)), "state shop")
    with pytest.raises(BadInputError, match="'commit' was answered"):
        fact(told_run(), "answer commit")
    with pytest.raises(ConfigError, match="no fact 'weather'"):
        fact(told_run(), "weather payments-0")
