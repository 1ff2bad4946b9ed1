"""The page while events come without end: it goes on answering, and what it says is of now."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from tests.lab.browser.conftest import judge_what_is_made, make_hang
from tests.support.page_flood import FLOOD, MADE
from tests.support.txnsim_server import TxnsimServer

pytestmark = pytest.mark.browser

ASKED: Final = """() => performance.getEntriesByType("resource")
  .filter(({ name }) => name.includes("/explain")).length"""


def test_under_load_there_is_a_rate_a_pause_and_only_what_hangs(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    judge_what_is_made(page)
    make_hang(page)
    page.wait_for_selector(".cause.hangs")
    samples_before = page.evaluate(ASKED)
    page.evaluate(FLOOD)
    page.wait_for_function(
        "() => Number(document.querySelector('#rate')?.textContent.match(/[0-9,]+/)[0]"
        ".replace(',', '')) > 50"
    )
    # "Why" was asked once the cursor rested, and it never did: what it said was long past.
    page.wait_for_function(f"(before) => ({ASKED})() > before + 2", arg=samples_before)
    # In trouble first, in spite of fifty that are busy.
    assert "billing" in page.locator(".believes .strip h3").first.inner_text()
    page.check("#hangs-only")
    page.wait_for_function(
        "() => document.querySelectorAll('.believes .strip:not(.partition)').length === 1"
    )
    page.uncheck("#hangs-only")
    page.keyboard.press("5")
    page.wait_for_function(
        "() => __page['store.js'].eventCount.value > 2000"
        " && document.querySelector('.row.now') && document.querySelectorAll('.row').length > 10"
    )
    page.click("#pause")
    position_text = page.inner_text(".where:not(#rate)")
    so = page.evaluate("__page['store.js'].events.length")
    page.wait_for_function(f"() => __page['store.js'].events.length > {so} + 500")
    assert page.inner_text(".where:not(#rate)").split(" / ")[0] == position_text.split(" / ")[0]
    page.wait_for_selector("#past")
    page.evaluate("clearInterval(__flood)")


BEHIND: Final = """() => {
  const { addEvents, events } = __page["store.js"];
  const { leader, end } = __sim.stateAt(events.length - 1).logs["orders-0"];
  let { i, t } = events[events.length - 1];
  const batch = { tp: "orders-0", pid: -1, epoch: -1, seq: -1, txn: false };
  addEvents(Array.from({ length: 200 }, (_, n) => {
    const d = { ...batch, base: end + n, last: end + n };
    const node = `broker/${leader}/log/orders-0`;
    return { node, i: ++i, t: ++t, n: 0, l: i, p: [], k: "log.append", d };
  }));
}"""
"""Many batches behind the one that hangs."""


def test_what_hangs_far_back_has_its_name_and_numbers_are_whole(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    judge_what_is_made(page)
    make_hang(page)
    page.wait_for_selector("#why:has-text('the transaction of producer id')")
    page.evaluate(BEHIND)
    page.wait_for_selector(".tape .cell.more:has-text('more')")
    assert "the transaction of producer id" in page.inner_text("#why")
    page.keyboard.press("5")
    number = page.locator(".row span").first
    assert number.evaluate(
        "(one) => { one.textContent = '#1500000'; return one.scrollWidth <= one.clientWidth; }"
    )


def test_a_long_recording_is_read_and_then_nothing_says_that_it_is_read(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    page.wait_for_selector(".link-state.live")  # what it reads at its start is read
    page.evaluate("__page['store.js'].readEventCount.value = 227840")
    page.wait_for_selector("text=reading, 227,840 events so far")
    page.evaluate("void __page['api.js'].followLiveTrace()")
    page.wait_for_selector(".link-state.live")
    page.locator("text=events so far").wait_for(state="detached")


MADE_UP: Final = ("/explain?at=",)
"""The server knows nothing of events that are made in the page, and answers 404."""
LOOKED_AT: Final = """async ([view, transactions]) => {
  const { addEvents, chooseView, eventCount, events } = __page["store.js"];
  const { Trace } = __page["book.js"];
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const drawn = async () => {
    while (eventCount.value < events.length || !isJudged()) await frame();
    for (let n = 0; n < 3; n += 1) await frame();
  };
  const isJudged = () => __sim.explained.value?.at === events[events.length - 1].i;
  chooseView(view);
  addEvents(__made(transactions, true));
  await drawn();
  const { event } = Trace.prototype;
  let looks = 0;
  let most = 0;
  const end = () => {
    most = Math.max(most, looks);
    looks = 0;
  };
  Trace.prototype.event = function (index) {
    if (!looks) queueMicrotask(end);
    looks += 1;
    return event.call(this, index);
  };
  addEvents(__made(40, true));
  await drawn();
  Trace.prototype.event = event;
  return [most, document.querySelectorAll("main *").length];
}"""
"""One drawing behind so many transactions and forty: how many events it looks at, and elements.
On a busy machine what is made last may be drawn once more while somebody waits for its verdict.
"""


@pytest.mark.parametrize("view", ["stage", "coordinator", "producers", "lanes", "events"])
def test_a_drawing_costs_the_same_however_much_there_was_before(
    fresh_server: TxnsimServer, new_page: Any, view: str
) -> None:
    """The page once followed causes to the first event, for each cell and line of the inspector."""
    page = new_page(fresh_server.http, expects=MADE_UP)
    page.wait_for_selector(".link-state.live")
    page.evaluate(MADE)
    looks, elements = page.evaluate(LOOKED_AT, [view, 500])
    more_looks, more_elements = page.evaluate(LOOKED_AT, [view, 10_000])
    assert 0 < looks < 40_000
    assert more_looks < 1.2 * looks
    assert more_elements < 1.2 * elements < 6_000


DRAWINGS: Final = 5
SLOW_MS: Final = 60
RESTED: Final = """async ([drawings, slow]) => {
  const { eventCount } = __page["store.js"];
  let so = -1; // it is called at once
  const stop = eventCount.subscribe(() => {
    so += 1;
    for (const until = performance.now() + slow; so && performance.now() < until; );
  });
  const began = performance.now();
  while (so < drawings) await new Promise((done) => setTimeout(done));
  stop();
  return performance.now() - began;
}"""
"""Milliseconds of so many drawings of which each takes so long."""


def test_behind_a_slow_drawing_the_page_rests(fresh_server: TxnsimServer, new_page: Any) -> None:
    page = new_page(fresh_server.http, expects=MADE_UP)
    page.wait_for_selector(".link-state.live")
    page.evaluate(FLOOD)
    took_ms = page.evaluate(RESTED, [DRAWINGS, SLOW_MS])
    page.evaluate("clearInterval(__flood)")
    assert took_ms > (DRAWINGS - 1) * 4 * SLOW_MS  # a quarter of the time is spent on it


READ: Final = """async (bytes) => {
  const { batchesOf } = __page["rows.js"];
  const turns = [];
  let so = 0;
  const { scheduler } = globalThis;
  scheduler.yield = () => {
    turns.push(so);
    return new Promise((done) => setTimeout(done));
  };
  const { body } = new Response(new Uint8Array(bytes));
  for await (const some of batchesOf(body)) so += some.events.length;
  delete scheduler.yield;
  return [so, turns];
}"""


def test_much_that_comes_at_once_is_taken_in_by_turns(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    row = (0, 0, (), "note", "", None, None)
    batches = [(first_event, [row] * 256) for first_event in range(0, 20_480, 256)]
    text = b"".join(map(msgspec.msgpack.encode, [{"nodes": ["a"]}, *batches]))
    events, turns = page.evaluate(READ, list(text))
    assert events == 20_480
    assert max(b - a for a, b in zip([0, *turns], [*turns, events], strict=True)) <= 1_024
