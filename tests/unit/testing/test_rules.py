"""One rule, however it is written down."""

from __future__ import annotations

import pytest

from txnsim.errors import ConfigError
from txnsim.faults.actions import Delay, Hold
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.testing.rules import fault_rule

RULE = FaultRule(id="late", point=FaultPoint.CLIENT_REQUEST, api="Produce", action=Hold())


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        (RULE, {}),
        (None, {"id": "late", "point": "client.request", "api": "Produce", "action": "hold"}),
        ({"id": "late", "point": "client.request", "api": "Produce", "action": {"do": "hold"}}, {}),
        ("id: late\npoint: client.request\napi: Produce\naction: {do: hold}\n", {}),
        (
            "point: client.request\naction: {do: drop}\n",
            {"id": "late", "api": "Produce", "action": Hold()},
        ),
    ],
    ids=["rule", "keywords", "mapping", "yaml", "yaml and keywords"],
)
def test_every_form_comes_to_the_same_rule(given: object, fields: dict[str, object]) -> None:
    assert fault_rule(given, fields, default_id="fault-1") == RULE


def test_without_an_id_it_gets_one() -> None:
    made = fault_rule(
        None,
        {"point": "client.request", "action": {"do": "delay", "delay_ms": 7}, "topic": None},
        default_id="fault-1",
    )
    assert made == FaultRule(
        id="fault-1", point=FaultPoint.CLIENT_REQUEST, action=Delay(delay_ms=7)
    )


def test_keywords_change_a_rule() -> None:
    assert fault_rule(RULE, {"limit": 1}, default_id="x").limit == 1


def test_what_is_no_rule_is_refused_with_its_field() -> None:
    with pytest.raises(ValueError, match=r"apis: no field 'apis'; did you mean api\?"):
        fault_rule(None, {"point": "client.request", "apis": "x", "action": "hold"}, default_id="x")
    with pytest.raises(ValueError, match="api 'Prodce' is no API of Kafka's"):
        fault_rule(RULE, {"api": "Prodce"}, default_id="x")
    with pytest.raises(ConfigError, match="rule:1: no YAML"):
        fault_rule("{", {}, default_id="x")
