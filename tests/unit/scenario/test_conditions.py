from __future__ import annotations

from typing import Any

import pytest

from tests.support.stories import call, told
from txnsim.scenario import conditions
from txnsim.scenario.conditions import POLL_MAX_MS

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
    assert result.verdict.because == (because,)
