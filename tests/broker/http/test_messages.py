"""What goes over the control port: rules as they are, and what came of them."""

from __future__ import annotations

import msgspec
import pytest

from txnsim.faults.actions import Hold
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.http.messages import Advance, fault
from txnsim.injection.armed import ArmedRule

RULE = FaultRule(id="late", point=FaultPoint.CLIENT_REQUEST, action=Hold(), api="Produce")


def test_an_armed_rule_is_shown_with_its_counters() -> None:
    armed = ArmedRule(RULE)
    armed.matched, armed.released = 4, 1
    armed.count_strike()
    shown = msgspec.to_builtins(fault(armed))
    assert shown == {
        "rule": {
            "id": "late",
            "point": "client.request",
            "action": {"do": "hold"},
            "api": "Produce",
        },
        "matched": 4,
        "struck": 1,
        "held": 0,
        "released": 1,
        "in_force": True,
        "failure": None,
        "doubt": None,
    }


@pytest.mark.parametrize("body", [b'{"advance_ms": [1]}', b'{"advance": 1}', b"[1]"])
def test_an_advance_is_a_duration_and_nothing_else(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(body, type=Advance)
