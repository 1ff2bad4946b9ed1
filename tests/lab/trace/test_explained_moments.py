from __future__ import annotations

import pytest

from tests.support.traces import hung_at, told_run
from txnsim_lab.trace.explain import explain_lso
from txnsim_lab.trace.explained_moments import moments


def test_a_moment_says_what_a_reader_says_of_its_event() -> None:
    run = told_run()
    for one in moments(run):
        for said in one.partitions:
            assert said == explain_lso(run, said.partition, at=one.at)


def test_between_two_moments_nothing_else_would_be_said() -> None:
    run = told_run()
    found = list(moments(run))
    at = hung_at(run)
    last = [one for one in found if one.at <= at][-1]
    (said,) = (one for one in last.partitions if one.partition == "payments-0")
    assert said.cause == "hanging transaction"
    asked = explain_lso(run, "payments-0", at=at)
    assert (said.cause, said.last_stable_offset) == (asked.cause, asked.last_stable_offset)
    assert len(found) < len(run.events) / 2


def test_a_long_trace_is_explained_from_where_the_work_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("txnsim_lab.trace.explained_moments.ANSWERS_MAX", 50)
    run = told_run()
    found = list(moments(run))
    assert found[0].at >= run.events[-50].i
