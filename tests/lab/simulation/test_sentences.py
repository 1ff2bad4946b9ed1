from __future__ import annotations

from typing import Any

import pytest

from txnsim_lab.simulation._sentences import sentence_of


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ({"call": {"who": "w1", "do": "init-producer-id"}}, "w1 asks for an identity"),
        (
            {
                "call": {
                    **{"who": "w1", "do": "produce", "partition": "t-0", "value": "{x}"},
                    **{"broker": 2, "once": True, "background": "late", "error": "any"},
                }
            },
            "w1 writes {x} to t-0 (broker 2, once yes)",
        ),
        (
            {"call": {"who": "w1", "do": "add-partitions", "partitions": ["t-0", "t-1"]}},
            "w1 adds t-0, t-1",
        ),
        (
            {"cluster": {"do": "move-leader", "coordinator-of": "x1", "to": 3}},
            "broker 3 becomes the coordinator of x1",
        ),
        (
            {"cluster": {"do": "isolate", "broker": 2, "from-clients": False}},
            "broker 2 is cut off from the other brokers (from-clients no)",
        ),
        (
            {
                "arm": {
                    "id": "d",
                    "point": "p",
                    "api": "EndTxn",
                    "action": {"do": "drop"},
                    "limit": 1,
                }
            },
            "EndTxn meets drop at p (limit 1)",
        ),
        ({"give-up": "late w1.1"}, "late w1.1 is not waited for any longer"),
        ({"observe": "everything"}, "everything is looked at"),
        ({"care": {"do": "something", "partition": "t-0"}}, "something (partition t-0)"),
        ({"arm": {"id": "d", "action": {"do": "clock", "by_ms": 5}}}, "arm (action clock 5)"),
        ({"advance": 5}, "advance"),
    ],
)
def test_an_act_is_told_in_a_sentence(step: dict[str, Any], sentence: str) -> None:
    assert sentence_of(step) == sentence
