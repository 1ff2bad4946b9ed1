"""Rules that can't strike in a cluster as it is."""

from __future__ import annotations

from typing import Any

import pytest

from txnsim.faults.absent_targets import doubt
from txnsim.faults.actions import Drop
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint

BROKERS = (1, 2, 3)
TOPICS = {"orders": 2}


def said(*, may_create: bool = False, point: FaultPoint, **fields: Any) -> str | None:
    rule = FaultRule(id="r", point=point, action=Drop(), **fields)
    return doubt(rule, brokers=BROKERS, topics=TOPICS, may_create=may_create)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, None),
        ({"broker": 3, "topic": "orders", "partition": 1}, None),
        ({"broker": 9}, "broker: no broker '9'; there are: 1, 2, 3"),
        ({"topic": "oders"}, "topic: no topic 'oders'; did you mean orders? there are: orders"),
        ({"topic": "orders", "partition": 2}, "partition: orders has no 2, only 0 to 1"),
        (
            {"broker": 0, "topic": "orders", "partition": 7},
            "broker: no broker '0'; there are: 1, 2, 3; partition: orders has no 7, only 0 to 1",
        ),
    ],
)
def test_a_rule_for_a_missing_thing_gets_a_warning(
    fields: dict[str, Any], message: str | None
) -> None:
    assert said(point=FaultPoint.PEER_REQUEST, api="WriteTxnMarkers", **fields) == message


def test_a_broker_that_asks_is_one_of_the_cluster_too() -> None:
    told = said(point=FaultPoint.PEER_REQUEST, source="broker/9")
    assert told == "source: no broker '9'; there are: 1, 2, 3"
    assert said(point=FaultPoint.PEER_REQUEST, source="broker/3") is None
    assert said(point=FaultPoint.CLIENT_REQUEST, source="client/9") is None


def test_a_topic_that_may_come_by_itself_is_no_doubt_yet() -> None:
    assert said(point=FaultPoint.CLIENT_REQUEST, topic="later", may_create=True) is None
    assert said(point=FaultPoint.CLIENT_REQUEST, topic="later", may_create=False) is not None
