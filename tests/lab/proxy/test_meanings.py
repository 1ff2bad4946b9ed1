"""What a proxy can't do is refused with the reason; all else it can."""

from __future__ import annotations

from typing import Any

import pytest

from txnsim.faults.actions import Fail, Hold, Pass
from txnsim.faults.cluster_actions import Crash
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim_lab.proxy.meanings import POINTS, refusal


def rule(point: FaultPoint, action: Any = None, **fields: Any) -> FaultRule:
    return FaultRule(id="f", point=point, action=action or Hold(), **fields)


@pytest.mark.parametrize("point", [one for one in FaultPoint if one is not FaultPoint.NOW])
def test_only_what_passes_can_be_struck(point: FaultPoint) -> None:
    why = refusal(rule(point, Pass()), has_peers=True)
    assert (why is None) is (point in POINTS)
    if why is not None:
        assert "only the simulator" in why
        assert "client.request" in why, "it says what a proxy knows"


@pytest.mark.parametrize("point", [FaultPoint.PEER_REQUEST, FaultPoint.PEER_RESPONSE])
def test_without_peers_nothing_passes_between_brokers(point: FaultPoint) -> None:
    assert "--peer" in (refusal(rule(point), has_peers=False) or "")
    assert refusal(rule(point), has_peers=True) is None


def test_a_proxy_has_no_hands_on_the_cluster() -> None:
    why = refusal(rule(FaultPoint.CLIENT_REQUEST, Crash()), has_peers=True)
    assert "no hands" in (why or "")


@pytest.mark.parametrize(
    ("api", "is_known"), [(None, True), ("Produce", True), (26, True), ("Envelope", False)]
)
def test_an_error_needs_an_answer_that_can_be_made(api: str | int | None, is_known: bool) -> None:
    why = refusal(
        rule(FaultPoint.CLIENT_REQUEST, Fail(error="NOT_COORDINATOR"), api=api), has_peers=False
    )
    assert (why is None) is is_known
    assert is_known or "Envelope" in (why or "")
