"""The table of event kinds."""

from __future__ import annotations

import re

from txnsim.runtime.trace_kinds import KINDS, PEER_POLLS, PEER_ROUTINE
from txnsim.wire.apis import APIS


def test_kinds_are_two_part_names_listed_once() -> None:
    from txnsim.runtime import trace_kinds

    assert len(trace_kinds._TABLE) == len(KINDS), "a kind is listed twice"
    single = {"input", "note", "goal", "snapshot"}
    assert {name for name in KINDS if not re.fullmatch(r"[a-z]+\.[a-z_]+", name)} == single


def test_every_kind_says_what_happened_and_what_it_carries() -> None:
    for kind in KINDS.values():
        assert kind.importance in (0, 1, 2), kind.name
        assert kind.meaning, kind.name
        assert kind.fields, kind.name
        assert all(re.fullmatch(r"[a-z][a-z_]*", field) for field in kind.fields), kind.name


def test_what_goes_without_saying_is_hidden_at_first() -> None:
    hidden = {name for name, kind in KINDS.items() if kind.importance == 0}
    assert hidden == {
        "check.pass", "conn.close", "conn.open", "log.hw", "txn.prepare", "verify.ask",
    }  # fmt: skip


def test_kinds_of_which_some_events_are_hidden_say_which() -> None:
    told = {name for name, kind in KINDS.items() if kind.lower}
    assert told == {"msg.send", "msg.recv", "txn.append", "log.lso", "marker.sent", "pid.bump"}
    assert all(KINDS[name].importance for name in told)


def test_exchanges_between_brokers_that_are_hidden_are_named() -> None:
    names = {APIS[key][0] for key in PEER_ROUTINE}
    assert names == {"Fetch", "BrokerHeartbeat", "AddPartitionsToTxn", "WriteTxnMarkers"}
    assert all(name in KINDS["msg.send"].lower for name in names)
    assert {APIS[key][0] for key in PEER_POLLS} == {"Fetch", "BrokerHeartbeat"}
