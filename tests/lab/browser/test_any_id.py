"""Ids are data: whatever a user calls a transaction, a client, a group or a rule is shown."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from tests.lab.browser.conftest import show
from tests.lab.browser.test_one_moment import IS_OF_NOW, ask, explanation_of_event
from tests.support.small_trace import small
from tests.support.txnsim_server import TxnsimServer
from txnsim.trace.trace_file import Recording
from txnsim_lab.trace.state import state_at

pytestmark = pytest.mark.browser

IDS: Final = (
    *("__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "undefined", "null"),
    *("<img src=x onerror=alert(1)>", "&amp;'\"`${1}", "😀 é", "a/b:c", "a|b c", "7", "x" * 200),
    "y" * 32_767,
)
READ_TABLES: Final = """() => {
  const { brokers, logs, transactions, owed, faults, offsets } = __sim.stateAt(__sim.at.value);
  return [transactions, owed, faults, offsets].map((one) => Object.keys(one).sort());
}"""
FITS: Final = """() => {
  const view = document.querySelector("main > .view");
  return view.scrollWidth <= view.clientWidth;
}"""
CLEAN: Final = """() => [
  Object.keys(Object.prototype), Object.keys(Object), ({}).state, ({}).pid, Object.state, "".state,
]"""
CHOSEN: Final = """([id, tp]) => {
  const { chooseView, chosenPartition, chosenTransactionalId } = __page["store.js"];
  [chosenTransactionalId.value, chosenPartition.value] = [id, tp];
  chooseView("stage");
}"""


def hanging(ids: tuple[str, ...]) -> Recording:
    """For each id a transaction hangs, and a coordinator owes the marker of another transaction."""
    coordinator, nodes, events = "broker/1/txn/0", ["broker/1", "broker/1/txn/0", "fault"], []
    for producer_id, name in enumerate(ids):
        partition_name = f"t-{producer_id}"
        log = f"broker/1/log/{partition_name}"
        nodes.append(log)
        fields = {"tp": partition_name, "pid": producer_id, "epoch": 0}
        move = {"pid": producer_id, "epoch": 0, "pending": None, "timeout_ms": 60_000}
        tx = f"{name}/{producer_id}:0"
        rule = {"rule": name, "point": "peer.request", "action": "hold", "held": 1}
        events += [
            ("broker/1", "node.role", (), "", {**fields, "role": "leader"}),
            (
                coordinator,
                "txn.complete",
                (),
                tx,
                move | {"state": "Ongoing", "partitions": [partition_name]},
            ),
            (log, "log.append", (), tx, {**fields, "base": 0, "last": 0, "seq": 0, "txn": True}),
            (log, "pid.open", (), tx, {**fields, "first": 0}),
            (coordinator, "txn.complete", (), tx, move | {"state": "Empty", "partitions": []}),
            (coordinator, "marker.owed", (), tx, {"tp": "u-0", "committed": True}),
            ("fault", "fault.arm", (), "", rule),
            (
                coordinator,
                "group.offset_pending",
                (),
                tx,
                {"group": name, "tp": "g-0", "offset": 1},
            ),
        ]
    return small(tuple(nodes), *events, level="brief")


def test_every_id_of_a_recording_is_shown_in_every_view(
    server: TxnsimServer, new_page: Any
) -> None:
    """Two of these vanished, one of them what held the readers back."""
    page = new_page(server.http)
    page.wait_for_selector(".link-state.live")
    recording = hanging(IDS)
    show(page, recording)
    state = state_at(recording.events, recording.nodes, level=recording.level)
    tables = (state.transactions, state.owed, state.faults, state.offsets)
    assert page.evaluate(READ_TABLES) == [sorted(table, key=utf16) for table in tables]
    for topic_number, name in enumerate(IDS):
        page.evaluate(CHOSEN, [name, f"t-{topic_number}"])
        page.wait_for_selector(f".partition.focus:has-text('t-{topic_number}')")
        strip = page.locator(".believes .strip:not(.partition)").first
        assert strip.locator("h3").inner_text().startswith(name)
        assert f"{name}/1" in page.inner_text(".partition.focus .cell.hanging")
        assert page.locator(".bracket.hangs").count() > 0
        assert f"transaction of producer id {topic_number}" in page.inner_text("#why")
        assert page.evaluate(FITS)
        page.keyboard.press("2")
        assert page.input_value("#txn") == name
        assert "u-0" in page.inner_text("table:has-text('Markers that are owed')")
    page.keyboard.press("3")
    rows = page.locator(".producers td.coordinator").all_inner_texts()
    assert sorted(rows) == sorted(" ".join(name.split()) for name in IDS)
    page.keyboard.press("6")
    rules = page.locator("table:has-text('Fault rules in force') td:first-child").all_inner_texts()
    assert sorted(rules) == sorted(IDS)
    page.keyboard.press("4")
    page.wait_for_selector(".lane-box")
    page.keyboard.press("5")
    page.wait_for_selector(".row.now")
    assert page.evaluate(CLEAN) == [[], [], None, None, None, None]
    page.keyboard.press("1")


def utf16(text: str) -> bytes:
    """Sort key: JavaScript compares texts by UTF-16 units."""
    return text.encode("utf-16-be")


def test_a_stock_client_may_have_any_id(fresh_server: TxnsimServer, new_page: Any) -> None:
    page = new_page(fresh_server.http)
    page.wait_for_selector(".link-state.live")
    ids = list(IDS)

    def begin(transactional_id: str) -> Producer:
        client = Producer(
            {
                "bootstrap.servers": fresh_server.bootstrap,
                "transactional.id": transactional_id,
                "client.id": transactional_id,
            }
        )
        client.init_transactions()
        client.begin_transaction()
        client.produce("orders", transactional_id.encode(), partition=0)
        client.flush()
        return client

    with ThreadPoolExecutor(4) as pool:
        producers = list(pool.map(begin, ids))
        ask(fresh_server, "faults", {"id": "__proto__", "point": "client.request", "api": "EndTxn"}
            | {"client_id": "constructor", "action": {"do": "hold"}})  # fmt: skip
        page.wait_for_function(
            "(ids) => ids.every((id) => __sim.stateAt(__sim.at.value).transactions[id]?.state"
            " === 'Ongoing') && __sim.stateAt(__sim.at.value).faults['__proto__']",
            arg=ids,
        )
        page.wait_for_function(IS_OF_NOW)
        assert page.get_attribute("[data-verdict]", "data-verdict") == "open"
        event = page.evaluate("() => Number(document.querySelector('.stage').dataset.event)")
        explanation = explanation_of_event(fresh_server, event)
        assert explanation is not None
        assert sorted(explanation["state"]["transactions"]) == sorted(ids)
        assert any(f"{name} is open" in page.inner_text("#verdict") for name in ids)
        page.keyboard.press("6")
        page.get_by_role("button", name="Disarm __proto__").click()
        page.wait_for_function("() => !__sim.stateAt(__sim.at.value).faults['__proto__']")
        list(pool.map(Producer.abort_transaction, producers))
    page.keyboard.press("1")
    page.wait_for_selector("[data-verdict=healthy]")
    assert page.evaluate(CLEAN) == [[], [], None, None, None, None]
