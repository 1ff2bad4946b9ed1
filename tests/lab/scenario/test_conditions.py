from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.stories import call, failure, small, told
from txnsim.errors import ConfigError
from txnsim_lab.scenario import _conditions as conditions
from txnsim_lab.target.cluster import POLL_MAX_MS

OPEN = [
    call("init-producer-id"),
    call("begin"),
    call("add-partitions", partitions="t-0"),
    call("produce", partition="t-0", value="r1"),
]


@pytest.mark.parametrize(
    "condition",
    [
        {"open": "t-0"},
        {"transaction": {"id": "app", "is": ["Empty", "Ongoing"]}},
        {"high-watermark": {"partition": "t-0", "offset": 1}},
        {"stable": {"partition": "t-0", "offset": 0}},
        {"leader": {"partition": "t-1", "is": 2}},
        {"in-sync": "t-0"},
    ],
)
def test_what_is_so_is_not_waited_for_in_vain(condition: dict[str, Any]) -> None:
    assert told([*OPEN, {"wait-until": condition}, call("abort")]).as_declared


def test_a_marker_is_waited_for() -> None:
    slow = {"id": "slow", "point": "peer.request", "api": "WriteTxnMarkers",
            "action": {"do": "delay", "delay_ms": 700}}  # fmt: skip
    steps = [
        *OPEN,
        {"arm": slow},
        call("commit"),
        {"expect": {"partition": "t-0", "committed": [], "uncommitted": ["r1"], "stable": 0}},
        {"wait-until": {"marker": "t-0"}},
        {"expect": {"partition": "t-0", "committed": ["r1"], "stable": 2, "high-watermark": 2}},
    ]
    result = told(steps)
    assert result.as_declared, result.verdict
    assert 700 < result.duration_ms < 700 + 4 * POLL_MAX_MS + 400


def test_what_never_comes_about_fails_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "PATIENCE_MS", 1_000)
    result = told([*OPEN, {"wait-until": {"transaction": {"id": "app", "is": "Dead"}}}])
    assert "in vain until app is Dead" in result.verdict.because[0]
    rule = {"id": "never", "point": "client.request", "api": "DeleteTopics"}
    struck = told([{"hold": rule}, {"wait-until": {"struck": "never"}}])
    assert "0 of 1 strikes" in struck.verdict.because[0]


@pytest.mark.parametrize(
    ("expectation", "because"),
    [
        ({"committed": ["r1"]}, "read_committed readers of t-0 get (), expected ('r1',)"),
        ({"stable": 5}, "the last stable offset of t-0 is 0, expected 5"),
        ({"high-watermark": 5}, "the high watermark of t-0 is 1, expected 5"),
    ],
)
def test_what_is_otherwise_than_expected_fails_the_story(
    expectation: dict[str, Any], because: str
) -> None:
    result = told([*OPEN, {"expect": {"partition": "t-0", **expectation}}])
    assert failure(result) == because


HELD_RULE = {"id": "slow", "point": "peer.request", "api": "WriteTxnMarkers"}


@pytest.mark.parametrize(
    ("condition", "case"),
    [
        ({"transaction": {"id": "app", "is": "CompleteCommit"}}, "app is PrepareCommit"),
        ({"transaction": {"id": "none", "is": "Empty"}}, "none is not known to any coordinator"),
        ({"marker": "t-0"}, "t-0: producer 0, epoch 0: a transaction is open since 0"),
        ({"open": "t-1"}, "t-1 knows no producer"),
        ({"stable": {"partition": "t-0", "offset": 2}}, "last stable offset is 0, the high water"),
        ({"high-watermark": {"partition": "t-0", "offset": 9}}, "the high watermark 1"),
        ({"leader": {"partition": "t-1", "is": 9}}, "t-1: broker 2 leads; in sync "),
    ],
)
def test_who_waits_in_vain_is_told_what_is_the_case_and_what_still_holds(
    condition: dict[str, Any], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "PATIENCE_MS", 1_000)
    steps = [
        *OPEN,
        {"hold": HELD_RULE},
        call("commit", background="end"),
        {"wait-until": condition},
    ]
    because = told(steps).verdict.because[0]
    where, _, rest = because.partition(": waited 1000 ms in vain until ")
    assert re.fullmatch(r"small\.yaml:\d+: steps\.6\.wait-until", where)
    assert case in rest
    assert "slow" in rest, "a forgotten release"


def test_a_call_that_is_not_answered_names_the_fault_that_holds_it() -> None:
    rule = {"id": "late", "point": "client.response", "api": "EndTxn"}
    steps = [
        *OPEN,
        {"hold": rule},
        call("commit", background="end"),
        {"wait-until": {"struck": "late"}},
    ]
    because = told([*steps, {"await": "end"}]).verdict.because[0]
    assert "end (P: commit) is not answered after" in because
    assert "the fault late still holds 1 at client.response" in because
    assert "`release: late`" in because


def test_a_strike_that_is_waited_for_in_vain_names_what_still_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conditions, "PATIENCE_MS", 1_000)
    never = {"id": "never", "point": "client.request", "api": "DeleteTopics"}
    steps = [
        *OPEN,
        {"hold": HELD_RULE},
        call("commit", background="end"),
        {"wait-until": {"struck": "slow"}},
        {"hold": never},
    ]
    because = told([*steps, {"wait-until": {"struck": "never"}}]).verdict.because[0]
    assert "0 of 1 strikes" in because
    assert "the fault slow still holds 1 at peer.request" in because


def test_a_flush_that_does_not_return_is_expected_to_have_no_answer() -> None:
    actors = {"app": {"plays": "application"}}
    hold = {"id": "late", "point": "client.request", "api": "Produce", "client_id": "app"}
    steps = [
        call("begin", "app"),
        {"hold": hold},
        call("send", "app", partition="t-0", value="r1"),
        call("await-ack", "app", background="flush"),
        {"wait-until": {"struck": "late"}},
        {"advance": "10s"},
        {"only": "armed", "expect": {"unanswered": "flush"}},
        {"release": "late"},
        {"await": "flush"},
        call("commit", "app"),
    ]
    result = told(steps, actors=actors)
    assert result.as_declared, result.verdict
    late = [*steps[:-1], {"expect": {"unanswered": "flush"}}]
    assert failure(told(late, actors=actors)) == "flush is answered, expected no answer yet"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stable": 1}, "expected partition, or group and positions, or unanswered alone"),
        ({"group": "g"}, "expected partition, or group and positions, or unanswered alone"),
        ({"partition": "t-0", "group": "g"}, "expected one of committed, uncommitted, records"),
        ({"partition": "t-0"}, "expected one of committed, uncommitted, records"),
        ({"unanswered": "x"}, "expect.unanswered: no step before names 'x'"),
        ({"group": "g", "positions": {"q-0": 1}}, "expect.positions.q-0: no topic 'q'"),
    ],
)
def test_an_expectation_is_of_a_partition_a_group_or_a_call(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        small([{"expect": given}])
    assert message in str(refused.value)
