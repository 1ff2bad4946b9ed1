"""What the page shows of a recording: of which run, how much of it, and what can't be shown."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from tests.lab.browser.conftest import make_hang
from tests.lab.browser.test_page import PICTURES
from tests.support.small_trace import small
from tests.support.traces import trace_of_run
from tests.support.txnsim_server import TxnsimServer
from txnsim.trace.trace_file import Recording
from txnsim_lab.scenario.catalog import scenarios
from txnsim_lab.trace.state import state_at

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

AT_RANDOM: Final = 50
PARTS: Final = 8
"""Into so many tests the scenarios are split: on a busy machine one would take minutes."""
LONG: Final = 60_000
"""Events of a long recording: the page keeps lines of those behind the first 50,000."""
READ: Final = """async ([text, positions]) => {
  const { loadTrace } = __page["api.js"];
  await loadTrace(new Response(text), { kind: "file", index: 0, title: "a test", moments: [] });
  const { indexOfPosition } = __page["store.js"];
  const isPlain = (one) => one && typeof one === "object" && !Array.isArray(one);
  const ordered = (one) => (isPlain(one) ? Object.fromEntries(Object.entries(one).sort()) : one);
  const plain = (one) => JSON.stringify(one, (_, value) => ordered(value));
  return positions.map((at) => plain(__sim.stateAt(indexOfPosition(at))));
}"""


def _as_sorted_json(value: object) -> str:
    plain_value = msgspec.json.decode(msgspec.json.encode(value))
    return msgspec.json.encode(_sort_keys(plain_value)).decode()


def _sort_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sort_keys(value[key]) for key in sorted(value)}
    return [_sort_keys(element) for element in value] if isinstance(value, list) else value


def differences(page: Page, text: bytes, recording: Recording, positions: list[int]) -> list[int]:
    """Positions after which the page's state is another than the reader's in Python."""
    states_of_page = page.evaluate(READ, [text.decode(), positions])
    states = (
        state_at(recording.events_through(position), recording.nodes, level=recording.level)
        for position in positions
    )
    return [
        position
        for position, state_of_page, state_of_reader in zip(
            positions, states_of_page, states, strict=True
        )
        if _sort_keys(msgspec.json.decode(state_of_page))
        != _sort_keys(msgspec.json.decode(_as_sorted_json(state_of_reader)))
    ]


@pytest.mark.parametrize("part", range(PARTS))
def test_the_browsers_state_is_the_readers_at_fifty_events_of_every_scenario(
    server: TxnsimServer, new_page: Any, part: int
) -> None:
    page = new_page(server.http)
    wrong_positions: dict[str, list[int]] = {}
    with ThreadPoolExecutor(1) as executor:  # Playwright has a loop running in this thread
        for scenario in list(scenarios().values())[part::PARTS]:
            label = next(iter(scenario.runs))
            text = executor.submit(trace_of_run, scenario.name, label).result()
            recording = Recording.from_lines(scenario.name, text.splitlines())
            event_indexes = [event.i for event in recording.events]
            positions = event_indexes[:: max(1, len(event_indexes) // AT_RANDOM)]
            different_positions = differences(page, text, recording, positions)
            if different_positions:
                wrong_positions[f"{scenario.name} {label}"] = different_positions
    assert wrong_positions == {}


def test_a_long_recording_is_whole_and_every_state_of_it_can_be_reached(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    events: list[tuple[str, str, tuple[int, ...], str, dict[str, object]]] = [
        ("broker/1/log/t-0", "node.role", (), "", {"role": "leader", "epoch": 0, "tp": "t-0"})
    ]
    for turn in range(LONG // 2):
        batch = {"tp": "t-0", "base": turn, "last": turn, "pid": 7, "epoch": 0, "seq": turn}
        node_name = "broker/1/log/t-0"
        events.append((node_name, "log.append", (), "app/7:0", batch | {"txn": False}))
        events.append((node_name, "log.lso", (len(events) - 1,), "", {"tp": "t-0", "to": turn + 1}))
    recording = small(("broker/1/log/t-0",), *events)
    positions = [0, 999, 1_000, 49_999, 50_000, 50_001, LONG - 3, LONG]
    assert differences(page, recording.to_lines(), recording, positions) == []
    assert page.evaluate("__sim.events.length") == LONG + 1
    page.evaluate("__sim.go(55000)")
    page.wait_for_selector(".tape .cell.more")
    assert page.locator(".tape .cell").count() < 100
    page.keyboard.press("/")
    page.wait_for_function("() => document.activeElement.id === 'query'")
    page.keyboard.type("kind:log.append base=29999")
    page.wait_for_selector("[role=status]:has-text('1 of 60,001 events')")


def test_a_snapshot_tells_which_positions_are_pending(server: TxnsimServer, new_page: Any) -> None:
    """The page once kept what was pending before, and did not read the snapshot."""
    pending = {"group": "gone", "tp": "t-0", "offset": 1}
    positions = [{"group": "g", "tp": "t-0", "offset": 5, "pid": 7}, {**pending, "group": "done"}]
    empty_state: dict[str, object] = {
        "brokers": [],
        "faults": [],
        "partitions": [],
        "transactions": [],
    }
    snapshot = {**empty_state, "part": 0, "trace": "full", "positions": positions}
    recording = small(
        ("broker/1",),
        ("broker/1", "group.offset_pending", (), "app/7:0", pending),
        ("broker/1", "snapshot", (), "", snapshot),
        ("broker/1", "note", (), "", {"text": "more"}),
    )
    page = new_page(server.http)
    assert differences(page, recording.to_lines(), recording, [0, 1, 2]) == []
    assert page.evaluate("Object.keys(__sim.stateAt(2).offsets)") == ["g t-0"]


PARSED: Final = """async ([text, ...asked]) => {
  const { loadTrace } = __page["api.js"];
  await loadTrace(new Response(text), { kind: "file", index: 0, title: "a test", moments: [] });
  const { Trace } = __page["book.js"];
  const { parseEvent } = Trace.prototype;
  let parsed = 0;
  Trace.prototype.parseEvent = function (...line) {
    parsed += 1;
    return parseEvent.apply(this, line);
  };
  const found = await (LOOK)(...asked);
  Trace.prototype.parseEvent = parseEvent;
  return [parsed, found];
}"""
DRAW: Final = """async (view, at) => {
  __page["store.js"].chooseView(view);
  __sim.go(at);
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  for (let n = 0; n < 3; n += 1) await frame();
}"""
TAPE: Final = """(at, lso) => {
  const { far, cells, earlierCount } = __page["tape.js"].tapeOf("t-0", at, { lso });
  const placed = cells.map(({ i, first }) => [i, first]);
  return { far: far && [far.cell.first, far.cell.how, far.between], cells: placed, earlierCount };
}"""


def look_at_recording(
    page: Page, recording: Recording, look: str, *arguments: object
) -> tuple[int, Any]:
    """How many lines of a recording a look at it parses, and what it finds."""
    text = recording.to_lines().decode()
    parsed, look_result = page.evaluate(PARSED.replace("LOOK", look), [text, *arguments])
    return parsed, look_result


def test_a_moment_of_a_long_recording_needs_few_of_its_lines(
    server: TxnsimServer, new_page: Any
) -> None:
    """Which transaction a batch belongs to was asked of each transaction before it, in the text."""
    nodes = ("broker/1/log/t-0", "broker/1/txn/7")
    entry = {"pid": 7, "epoch": 0, "partitions": ["t-0"], "timeout_ms": 60_000, "pending": None}
    role = {"role": "leader", "epoch": 0, "tp": "t-0"}
    events: list[Any] = [(nodes[0], "node.role", (), "", role)]
    for turn in range(LONG // 5):
        batch = {"tp": "t-0", "base": 2 * turn, "last": 2 * turn, "pid": 7, "epoch": 0, "seq": turn}
        marker = {"tp": "t-0", "offset": 2 * turn + 1, "pid": 7, "epoch": 0, "committed": True}
        events += [
            (nodes[1], "txn.complete", (), "app/7:0", {**entry, "state": "Ongoing"}),
            (nodes[0], "log.append", (len(events),), "app/7:0", {**batch, "txn": True}),
            (nodes[0], "marker.written", (len(events),), "app/7:0", marker),
            (nodes[1], "txn.complete", (), "app/7:0", {**entry, "state": "CompleteCommit"}),
            (nodes[0], "log.lso", (), "", {"tp": "t-0", "to": 2 * turn + 2}),
        ]
    recording = small(nodes, *events)
    page = new_page(server.http)
    for view in ("stage", "lanes"):
        parsed, _ = look_at_recording(page, recording, DRAW, view, LONG // 2 + 1)
        assert 0 < parsed < 20_000, (view, parsed)  # 4,000 of them lead to the state


def test_an_old_hang_is_found_without_a_look_at_what_was_written_since(
    server: TxnsimServer, new_page: Any
) -> None:
    """Every write behind the last stable offset was read for each move of the cursor."""
    node_name, open_offset = "broker/1/log/t-0", 9
    batch = {"tp": "t-0", "pid": -1, "epoch": -1, "seq": -1, "txn": False}
    events: list[Any] = [
        (node_name, "node.role", (), "", {"role": "leader", "epoch": 0, "tp": "t-0"})
    ]

    def write_batches(offsets: range, **fields: object) -> None:
        for base_offset in offsets:
            data = {**batch, "base": base_offset, "last": base_offset, **fields}
            events.append((node_name, "log.append", (), "", data))

    write_batches(range(2))
    write_batches(range(2, 3), pid=7, epoch=0, seq=0, txn=True)
    write_batches(range(3, LONG // 2))
    end = LONG // 2 - open_offset
    role_data = {"role": "leader", "epoch": 1, "tp": "t-0", "end": end}
    events.append((node_name, "node.role", (), "", role_data))
    write_batches(range(end, LONG))
    page = new_page(server.http)
    parsed, tape = look_at_recording(page, small((node_name,), *events), TAPE, len(events) - 1, 2)
    assert parsed < 1_000
    assert [first_offset for _, first_offset in tape["cells"]] == list(range(LONG - 60, LONG))
    assert (tape["far"], tape["earlierCount"]) == ([2, "open", LONG - 3 - 60], 2)


def test_what_an_old_leader_writes_or_cuts_off_is_not_on_the_tape_of_the_new_one(
    server: TxnsimServer, new_page: Any
) -> None:
    """A follower's truncation took the new leader's records from the tape when it came late."""
    old_leader, new_leader = "broker/1/log/t-0", "broker/2/log/t-0"
    batch = {"tp": "t-0", "pid": -1, "epoch": -1, "seq": -1, "txn": False}

    def led(node_name: str, epoch: int, end: int) -> tuple[Any, ...]:
        data = {"role": "leader", "epoch": epoch, "tp": "t-0", "end": end}
        return node_name, "node.role", (), "", data

    def write_batch(node_name: str, base_offset: int) -> tuple[Any, ...]:
        return node_name, "log.append", (), "", {**batch, "base": base_offset, "last": base_offset}

    recording = small(
        (old_leader, new_leader),
        led(old_leader, 0, 0),
        *(write_batch(old_leader, base_offset) for base_offset in range(3)),
        led(new_leader, 1, 2),  # it does not have the last one
        write_batch(old_leader, 3),  # which is not told of it yet
        *(write_batch(new_leader, base_offset) for base_offset in range(2, 5)),
        (old_leader, "log.truncate", (), "", {"tp": "t-0", "epoch": 1, "to": 2}),
        write_batch(new_leader, 5),
    )
    page = new_page(server.http)
    cell_before, cell_after = [1, 0], [2, 1]
    for event_index, cells in (
        (3, [cell_before, cell_after, [3, 2]]),
        (5, [cell_before, cell_after]),
        (8, [cell_before, cell_after, [6, 2], [7, 3], [8, 4]]),
        (10, [cell_before, cell_after, [6, 2], [7, 3], [8, 4], [10, 5]]),
    ):
        assert look_at_recording(page, recording, TAPE, event_index, 0)[1]["cells"] == cells, (
            event_index
        )


def test_a_recorded_run_says_so_and_offers_nothing_that_it_can_not_do(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    page.keyboard.press("8")
    page.locator("[data-story~=z01] button.bad").first.click()
    page.wait_for_selector(".link-state.done")
    assert "recorded run" in page.inner_text("#verdict")
    assert page.inner_text("#live") == "Now"
    for key, shown_text in (
        ("6", "This is a recorded run: faults"),
        ("7", "This is a recorded run: brok"),
    ):
        page.keyboard.press(key)
        page.wait_for_selector(f"main :text('{shown_text}')")
        assert page.locator("main section.view button").count() == 0
    page.keyboard.press("8")
    page.click("#to-live")
    page.wait_for_selector(".link-state.live")
    assert page.inner_text("#live") == "Now"


def test_a_page_that_goes_away_ends_its_run(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    page.keyboard.press("8")
    page.check("#stop-first")
    page.locator("[data-story~=z01] button.bad").first.click()
    page.wait_for_selector(".drive:has-text('step 1 of')")
    number = page.evaluate("__page['store.js'].traceOrigin.value.id")
    page.goto("about:blank")
    other_page = new_page(server.http)
    other_page.wait_for_function(
        "async (id) => (await (await fetch(`/api/v1/runs/${id}`)).json()).state === 'cancelled'",
        arg=number,
    )


def test_a_head_that_the_ring_has_dropped_is_named_and_the_rest_begins_with_a_snapshot(
    browser: object, new_page: Any, tmp_path: Path
) -> None:
    assert browser
    config = tmp_path / "small.yaml"
    config.write_text("settings:\n  trace_ring_bytes: 40000\ntopics:\n  orders: 3\n")
    with TxnsimServer(arguments=("--ui", "--http", "0", "--config", str(config))) as txnsim_server:
        page = new_page(txnsim_server.http)
        page.wait_for_selector(".link-state.live")
        move_count = 0
        while not page.evaluate(MOVE):  # leaders that move fill the trace
            move_count += 3
            assert move_count < 3_000, "a ring of 40,000 bytes has dropped nothing"
        page.reload()
        page.wait_for_selector("#gap")
        assert "is no longer kept" in page.inner_text("#gap")
        assert "trace_ring_bytes" in page.inner_text("#gap")
        page.wait_for_selector(".link-state.live")
        log_names = page.evaluate("Object.keys(__sim.stateAt(__sim.at.value).logs)")
        assert {"orders-0", "orders-1", "orders-2"} <= set(log_names)
        page.close()


MOVE: Final = """async () => {
  for (const leader of [1, 2, 3]) {
    const body = JSON.stringify({ topic: "orders", partition: 0, leader });
    const headers = { "Content-Type": "application/json" };
    await fetch("/api/v1/leaders", { method: "POST", headers, body });
  }
  const trace = await (await fetch("/api/v1/trace")).text();
  return JSON.parse(trace.split("\\n", 1)[0]).first > 0;
}"""
"""Moves a leader three times; returns whether the ring has dropped its head."""


def test_recording_that_is_switched_off_is_told_with_what_was_recorded_before(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, expects=("409 (Conflict)", "net::ERR_"))
    make_hang(page)
    page.wait_for_selector(".cause.hangs")
    page.evaluate(
        "(level) => fetch('/api/v1/trace', { method: 'POST', headers: { 'Content-Type':"
        " 'application/json' }, body: JSON.stringify({ level }) })",
        "off",
    )
    page.reload()
    page.wait_for_selector("#off")
    assert "What was recorded before ends at #" in page.inner_text("#off")
    page.wait_for_selector(".cause.hangs")
    page.get_by_role("button", name="Record from now on").click()
    page.wait_for_selector(".link-state.live")


def test_the_first_picture_of_the_page_shows_who_waits_for_what(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http, color_scheme="light", is_unfolded=False)
    page.set_viewport_size({"width": 1200, "height": 860})
    page.keyboard.press("8")
    page.locator("[data-story~=z01] button.bad").first.click()
    page.wait_for_selector(".link-state.done")
    page.wait_for_selector(".cause.hangs")  # it opens at the decisive event
    page.wait_for_selector(".drawn .figure")
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / "story-light.png")
