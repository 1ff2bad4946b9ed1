from __future__ import annotations

import pytest

from tests.support.traces import hung_at, recording_of_run
from txnsim_lab.trace.explain import explain_lso
from txnsim_lab.trace.explained_moments import moments


def test_a_moment_says_what_a_reader_says_of_its_event() -> None:
    recording = recording_of_run()
    for moment in moments(recording):
        for partition in moment.partitions:
            assert partition == explain_lso(recording, partition.partition, at=moment.at)


def test_between_two_moments_nothing_else_would_be_said() -> None:
    recording = recording_of_run()
    found_moments = list(moments(recording))
    hung_index = hung_at(recording)
    last_moment = [moment for moment in found_moments if moment.at <= hung_index][-1]
    (partition_then,) = (
        partition for partition in last_moment.partitions if partition.partition == "payments-0"
    )
    assert partition_then.cause == "hanging transaction"
    explanation_then = explain_lso(recording, "payments-0", at=hung_index)
    assert (partition_then.cause, partition_then.last_stable_offset) == (
        explanation_then.cause,
        explanation_then.last_stable_offset,
    )
    assert len(found_moments) < len(recording.events) / 2


def test_a_long_trace_is_explained_from_where_the_work_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("txnsim_lab.trace.explained_moments.ANSWERS_MAX", 50)
    recording = recording_of_run()
    found_moments = list(moments(recording))
    assert found_moments[0].at >= recording.events[-50].i
