from __future__ import annotations

import pytest

from tests.support.traces import hung_at, recording_of_run
from txnsim_lab.trace.explain import explain_lso
from txnsim_lab.trace.explained_moments import moments


def test_a_moment_says_what_a_reader_says_of_its_event() -> None:
    run = recording_of_run()
    for moment in moments(run):
        for partition in moment.partitions:
            assert partition == explain_lso(run, partition.partition, at=moment.at)


def test_between_two_moments_nothing_else_would_be_said() -> None:
    run = recording_of_run()
    found_moments = list(moments(run))
    hung_index = hung_at(run)
    last_moment = [moment for moment in found_moments if moment.at <= hung_index][-1]
    (partition_then,) = (
        partition for partition in last_moment.partitions if partition.partition == "payments-0"
    )
    assert partition_then.cause == "hanging transaction"
    explanation_then = explain_lso(run, "payments-0", at=hung_index)
    assert (partition_then.cause, partition_then.last_stable_offset) == (
        explanation_then.cause,
        explanation_then.last_stable_offset,
    )
    assert len(found_moments) < len(run.events) / 2


def test_a_long_trace_is_explained_from_where_the_work_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("txnsim_lab.trace.explained_moments.ANSWERS_MAX", 50)
    run = recording_of_run()
    found_moments = list(moments(run))
    assert found_moments[0].at >= run.events[-50].i
