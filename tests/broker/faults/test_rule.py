"""Rules that could never strike, or would not do what they say, are refused when they are made."""

from __future__ import annotations

from typing import Any

import pytest

from txnsim.faults.actions import Corrupt, Delay, Drop, Duplicate, Hold, Pass, Rewrite
from txnsim.faults.cluster_actions import Crash, ResignLeader
from txnsim.faults.crossings import DamagedPart, RewriteHow
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint

P = FaultPoint
CRASH = Crash(broker=1)
CRC = Corrupt(what=DamagedPart.CRC)
CLEAR = Rewrite(field="aborted_transactions", how=RewriteHow.CLEAR)
INSERT = Rewrite(field="aborted_transactions", how=RewriteHow.INSERT, entry={"producer_id": 7})
ADD = Rewrite(field="aborted_transactions", how=RewriteHow.ADD, value=1)
CODE = Rewrite(field="error_code", how=RewriteHow.SET, value=1)


def made(fields: dict[str, Any]) -> FaultRule:
    values: dict[str, Any] = {"id": "f", "point": P.CLIENT_REQUEST, "action": Hold()}
    return FaultRule(**values | fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": ""}, "id is empty"),
        ({"id": "a/b"}, "id 'a/b': leave out the slash"),
        ({"point": P.PEER_RESPONSE, "action": Duplicate()}, "one answer per request"),
        ({"point": P.LOG_INDEX}, "hold has no meaning at log.index"),
        ({"point": P.NOW}, "hold has no meaning at now"),
        ({"then": Drop()}, "then needs an action on the cluster"),
        ({"point": P.LOG_INDEX, "action": CRASH, "then": Hold()}, "then: hold has no meaning"),
        ({"point": P.NOW, "action": Crash()}, "broker is missing"),
        ({"action": CRC}, "needs api Produce"),
        ({"action": CRC, "point": P.NOW}, "corrupt has no meaning at now"),
        ({"action": CRC, "api": "Fetch"}, "needs api Produce"),
        ({"action": CRC, "api": "Produce", "point": P.CLIENT_RESPONSE}, "needs api Fetch"),
        ({"action": CLEAR, "api": "Fetch"}, "it changes answers"),
        ({"action": CLEAR, "point": P.CLIENT_RESPONSE}, "rewrite needs api"),
        ({"action": CLEAR, "point": P.CLIENT_RESPONSE, "api": "EndTxn"}, "no field of that answer"),
        ({"action": ADD, "point": P.CLIENT_RESPONSE, "api": "Fetch"}, "add needs a number"),
        ({"action": INSERT, "point": P.CLIENT_RESPONSE, "api": "Fetch"}, "first_offset is missing"),
        ({"action": CODE, "point": P.CLIENT_RESPONSE, "api": "Fetch"}, "the action error does"),
        ({"action": CLEAR, "point": P.CLIENT_RESPONSE, "api": "Fetchh"}, "Fetchh"),
        ({"api": "Prodcue"}, "Prodcue"),
        ({"api": "Fetch", "point": P.LOG_READ}, "no request crosses it"),
        ({"client_id": "app", "point": P.PEER_REQUEST}, "no client's request crosses it"),
        ({"client_id": "app", "point": P.CONNECTION_OPEN}, "no client's request crosses it"),
        ({"partition": 0}, "needs a topic"),
        ({"api": "WriteTxnMarkers", "transactional_id": "app"}, "does not carry it"),
        ({"api": 27, "transactional_id": "app"}, "on WriteTxnMarkers, which does not carry it"),
        ({"api": "Fetch", "producer_id": 1}, "producer_id can't be matched on Fetch"),
        ({"api": "Produce", "committed": True}, "only EndTxn, WriteTxnMarkers do"),
        ({"kind": "data"}, "it knows no kinds"),
        ({"kind": "date", "point": P.LOG_APPEND}, "it knows data, marker"),
        ({"role": "leader"}, "only log.append knows"),
        ({"role": "boss", "point": P.LOG_APPEND}, "only log.append knows"),
        ({"point": P.NOW, "action": CRASH, "topic": "t"}, "topic can't be asked for at now"),
        ({"point": P.NOW, "action": CRASH, "occurrences": (1,)}, "occurrences can't be asked"),
        ({"nth": 0}, "count from 1"),
        ({"limit": 0}, "count from 1"),
        ({"occurrences": (0,)}, "count from 1"),
        ({"occurrences": (1,), "nth": 2}, "excludes"),
        ({"occurrences": (1,), "limit": 2}, "excludes"),
        ({"probability": 0.0}, "probability is 0.0"),
        ({"probability": 1.5}, "probability is 1.5"),
        ({"after": "f"}, "after names the rule itself"),
        ({"until": "f"}, "until names the rule itself"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"point": P.NOW, "action": CRASH},
        {"point": P.NOW, "action": ResignLeader(topic="t", partition=0)},
        {"action": Crash(), "then": Drop()},
        {"action": CRC, "api": 0},
        {"api": 26, "transactional_id": "app", "producer_id": 1, "committed": False},
        {"action": Corrupt(what=DamagedPart.BYTES)},
        {"point": P.LOG_APPEND, "role": "follower", "kind": "marker"},
        {"point": P.CLOCK_TIMER, "kind": "cleaner", "action": Drop()},
        {"probability": 0.25, "after": "g", "until": "h"},
        {"action": Pass(), "occurrences": (1, 4)},
        {"point": P.CONNECTION_OPEN, "broker": 1, "action": Delay(delay_ms=1)},
    ],
)
def test_other_rules_are_made(fields: dict[str, Any]) -> None:
    assert made(fields).id == "f"


def test_an_entry_that_the_list_can_have_makes_sense() -> None:
    entry = {"producer_id": 7, "first_offset": 3}
    insert = Rewrite(field="aborted_transactions", how=RewriteHow.INSERT, entry=entry)
    assert FaultRule(id="lie", point=P.CLIENT_RESPONSE, api="Fetch", action=insert).action == insert
