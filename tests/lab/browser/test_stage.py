"""The stage: the story, what coordinators and partitions believe, and where they disagree."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.browser.conftest import judge_what_is_made, make_hang, show, until_judged
from tests.support.small_trace import small
from tests.support.txnsim_server import TxnsimServer
from txnsim.verdict.judge import judge_cluster
from txnsim_lab.trace.followed_trace import FollowedTrace

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PLAY: Final = """async ([name, run]) => {
  await __page["api.js"].playRun(name, run, "armed");
  const { events, shownIndex } = __page["store.js"];
  return events[shownIndex.value].i;
}"""


PRESSED: Final = """(key) => {
  dispatchEvent(new KeyboardEvent("keydown", { key }));
  const { index, serverExplanation } = __page["store.js"].judgedMoment.value;
  return [index, Boolean(serverExplanation)];
}"""
"""The event that is shown at once when a key is pressed, and whether it is explained."""
ONE_IN_FULL: Final = """line => {
  const strips = [...document.querySelectorAll(".believes .strip:not(.partition)")];
  const [first, other] = strips.map((one) => one.innerText.replace(/\\s+/g, " "));
  const inFull = strips.map((one) => one.querySelectorAll(".states").length).join();
  return inFull === "1,0" && first.startsWith("billing-2") && other.includes(line);
}"""
"""In one look: a living cluster is judged after each event, and drawn anew between two looks."""


def play_run(page: Page, name: str, run_name: str) -> int:
    """Play a run of a story; return the event at which the page shows it."""
    event_index: int = page.evaluate(PLAY, [name, run_name])
    page.wait_for_selector("#verdict p")
    page.wait_for_selector("#why:not(.stale) .cause")
    return event_index


def test_a_run_opens_where_coordinator_and_partition_disagree(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    event_index = play_run(page, "z01", "V-")
    assert event_index < page.evaluate("__sim.count.value") - 1
    page.wait_for_selector("#verdict.hangs")
    assert page.inner_text("#verdict h2") == (
        "✖ A transaction of app hangs on payments-0: readers get nothing from offset 1 on"
    )
    assert page.inner_text(".story .now").startswith("The held request is released.")
    # The record's value, what became of it, whose it is.
    assert page.inner_text(".cell.hanging").split("\n") == ["1", "“late”", "! hanging", "app/1"]
    assert "read_committed consumers stop at offset 1" in page.inner_text(".readers")
    assert page.locator(".message.released").first.inner_text().startswith("late-producer")


def test_a_late_marker_belongs_to_the_transaction_that_it_was_for(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    play_run(page, "z21", "TV2")
    cells = page.locator(".partition:has-text('t-0') .cell").all_inner_texts()
    owners = [cell_text.split("\n")[-1] for cell_text in cells[:5]]
    assert owners == ["app/1", "app/1", "app/2", "app/1", "app/2"]
    assert page.get_attribute("#verdict", "data-verdict") == "wrong-data"
    assert "t-0" in page.inner_text("#verdict")


def test_held_messages_look_held_and_the_story_is_walked_by_its_captions(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    play_run(page, "z01", "V-")
    page.get_by_role("button", name="No answer comes, and it gives up on the record.").click()
    held_text = page.locator(".message.held").first.inner_text()
    assert "Produce “late”" in held_text
    assert "held by late-produce" in held_text
    page.wait_for_selector(".belief:has-text('app is open.')")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".story .now") == "It aborts the transaction."
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".story .now").startswith("No answer comes")


def test_a_transaction_has_a_bracket_and_readers_and_clients_are_drawn(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    play_run(page, "z01", "V-")
    assert page.inner_text(".bracket.hangs em") == "open from here · no marker will come"
    assert page.locator("li:has(.end) .bracket.hangs.in").count() == 1
    assert page.inner_text(".caret.lso") == "LSO 1"
    clients = page.locator(".clients .end-of").all_inner_texts()
    assert clients == ["late-producer InitProducerId", "reader Fetch"]
    assert "was held, released, 2 times" in page.inner_text(".message.released")
    # A marker that is written again said nothing of why.
    play_run(page, "z12", "V-/before")
    assert "app is decided: commit; no marker is owed" in page.inner_text(".belief")
    cell_again = page.locator(".cell:has(.again)")
    assert "COMMIT marker, again" in cell_again.first.inner_text()
    assert "its coordinator was loaded anew" in cell_again.first.inner_text()


PAUSED: Final = """async ([name, run, steps]) => {
  const { playRun, sendRunCommand } = __page["api.js"];
  await playRun(name, run, "armed", 1, { paused: true });
  await sendRunCommand("go", { steps });
}"""


def test_what_is_held_is_lost_doubled_or_released_and_the_next_one_is_held_by_a_click(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    page.evaluate(PAUSED, ["z01", "V-", 4])
    held_message = page.locator(".message.held")
    held_message.locator(".what button").click()
    held_message.get_by_role("button", name="Drop it").click()
    page.wait_for_selector("#said:has-text('What late-produce held is lost.')")
    page.wait_for_selector(".message.lost:has-text('“late”')")
    page.click("#back")
    held_message.locator(".what button").click()
    held_message.get_by_role("button", name="Deliver it twice").click()
    page.wait_for_selector(".message.doubled")
    page.click("#back")
    held_message.get_by_role("button", name="Release").click()
    page.wait_for_selector(".message.released")
    message = page.locator(".message").filter(has_text="AddPartitionsToTxn").first
    message.locator(".what button").click()
    message.get_by_role("button", name="Hold the next AddPartitionsToTxn of late-producer").click()
    page.wait_for_selector("#said:has-text('The rule page-1 waits')")
    assert page.evaluate("__sim.stateAt(__sim.at.value).faults['page-1'].point") == "client.request"


def test_a_question_about_what_is_taken_back_is_taken_back_too(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    answered_condition = "() => __sim.explained.value?.at === __sim.events[__sim.at.value].i"
    page.evaluate(PAUSED, ["z01", "V-", 3])
    page.wait_for_function(
        answered_condition
    )  # else the question that is held may be asked already
    late_routes: list[Any] = []
    page.route(
        "**/api/v1/explain*",
        lambda route: late_routes.append(route) if not late_routes else route.continue_(),
    )
    with page.expect_request("**/api/v1/explain*"):
        page.evaluate("""async () => __page["api.js"].sendRunCommand("go", { steps: 1 })""")
    while not late_routes:
        page.wait_for_timeout(10)
    page.evaluate("""async () => __page["api.js"].sendRunCommand("back", { stops: 1 })""")
    late_routes[0].continue_()
    page.wait_for_function(answered_condition)


def test_what_is_late_for_an_earlier_choice_is_not_shown(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    page.evaluate(PAUSED, ["z01", "V-", 3])
    late_routes: list[Any] = []
    page.route(
        "**/api/v1/runs/*/trace*",
        lambda route: late_routes.append(route) if not late_routes else route.continue_(),
    )
    with page.expect_request("**/api/v1/runs/*/trace*"):
        page.evaluate("""() => void (__earlier = __page["api.js"].sendRunCommand("go", {}))""")
    while not late_routes:
        page.wait_for_timeout(10)
    page.evaluate("""async () => await __page["api.js"].playRun("z05", "V-", "armed")""")
    late_routes[0].continue_()
    page.evaluate("async () => await __earlier")
    assert page.locator(".title").inner_text().endswith(" · without verification")


def test_two_runs_are_compared_from_their_first_difference_with_one_cursor(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    play_run(page, "z01", "V-")
    page.keyboard.press("Home")
    page.click("#compare")
    difference = page.wait_for_selector("#difference b").inner_text()
    assert difference.startswith("They differ first in step 6.")
    assert difference.endswith(
        "Without verification: A transaction of app hangs on payments-0: readers get nothing from"
        " offset 1 on."
        " Transactions v2: Produce is refused with INVALID_PRODUCER_EPOCH."
    )
    own_side, other_side = page.locator(".side").all()
    own_side.locator(".verdict.hangs").wait_for()
    assert "No transaction holds readers back" in other_side.locator(".verdict").first.inner_text()
    # Both are drawn: the late record is in one log, and is refused by the other.
    assert own_side.locator(".drawn .batch.hanging").count() == 1
    assert other_side.locator(".drawn .flight.record.refused").count() == 1
    assert other_side.locator(".drawn .batch.hanging").count() == 0
    # One cursor: the other run is as far in the same step of the story.
    for _ in range(3):
        page.click("#step-back")
    page.wait_for_selector(".compare .says:has-text('Step 3 of 9 · It sends a record.')")
    belief = "app is open"
    for side in (own_side, other_side):
        side.locator(f".belief:has-text('{belief}')").wait_for()
    page.wait_for_function("() => location.hash.includes('with=TV2')")
    page.reload()
    page.wait_for_selector("#difference")
    bottoms = "(all) => all.map((one) => one.getBoundingClientRect().bottom)"
    page.set_viewport_size({"width": 1280, "height": 720})
    page.wait_for_selector(".side .drawn")
    # Both pictures are in sight.
    assert max(page.locator(".side .drawn").evaluate_all(bottoms)) < 680
    page.click("#compare-end")
    page.locator(".side").first.wait_for(state="detached")


def test_messages_move_where_motion_is_wanted(server: TxnsimServer, new_page: Any) -> None:
    moving_script = (
        "document.getAnimations().filter((one) => one.animationName === 'travel').length"
    )
    for motion in ("no-preference", "reduce"):
        page = new_page(server.http, reduced_motion=motion, bypass_csp=True)
        # They stand still: who looks late would find that they have ended.
        page.add_style_tag(content="*, *::before { animation-play-state: paused !important }")
        play_run(page, "z01", "V-")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(".message.released")
        assert (page.evaluate(moving_script) > 0) == (motion == "no-preference")


def test_a_step_that_was_foreseen_or_seen_is_explained_at_once(
    server: TxnsimServer, new_page: Any
) -> None:
    """Each step said "Reading this moment …" first, also one that had just been left."""
    page = new_page(server.http)
    play_run(page, "z01", "V-")
    page.keyboard.press("ArrowLeft")
    step_end = page.evaluate("__page['stage.js'].stepAt(__sim.at.value).to + 1")
    next_end = page.evaluate("(index) => __page['stage.js'].stepAt(index).to", step_end)
    for end in (step_end - 1, next_end):  # the one that is left is still being read, too
        page.wait_for_function("(end) => __page['api.js'].keptExplanationOf(end)", arg=end)
    for key, event_index in (("ArrowRight", next_end), ("ArrowLeft", step_end - 1)):
        assert page.evaluate(PRESSED, key) == [event_index, True]


def test_past_and_present_are_told_apart(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    play_run(page, "z01", "V-")
    assert page.inner_text("#past").startswith("Step 6 is shown.")
    assert page.locator("main.past").count() == 1
    page.keyboard.press("l")
    page.locator("#past").wait_for(state="detached")
    assert page.locator("main.past").count() == 0


def test_a_run_plays_by_itself_and_stands_still_when_told(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    play_run(page, "z01", "V-")
    page.keyboard.press("Home")
    page.select_option("#speed", "4")
    page.locator("main section.view").focus()
    page.keyboard.press("Space")
    page.wait_for_function("() => __sim.at.value > 8")
    page.keyboard.press("Space")
    assert page.get_attribute("#play", "aria-pressed") == "false"


def test_the_hang_of_the_button_tells_its_story_and_is_made_again(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    make_hang(page)
    page.wait_for_selector("#verdict.hangs")
    page.wait_for_selector(".story li:nth-child(6)")
    page.click("#repair")
    page.wait_for_selector("#verdict.healthy")
    # The judge says who has ended it; the page adds no word.
    page.wait_for_selector(".story .now:has-text('An operator has written')")
    assert page.inner_text(".story .now") == (
        "An operator has written the ABORT marker of billing on orders-0."
        " Readers discard its records."
    )
    page.wait_for_selector(".drawn :text('ABORT by an operator')")
    make_hang(page)
    page.wait_for_selector(".story li:nth-child(12)")
    page.wait_for_selector("#verdict.hangs")
    # The one that hangs is in full, others are a line; the tape was pushed off the screen.
    page.wait_for_function(
        ONE_IN_FULL, arg="billing Empty billing/1 billing is over: aborted; no marker is owed."
    )
    page.click("#repair")
    page.wait_for_selector("#verdict.healthy")


def test_the_address_brings_back_what_was_shown(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    event_index = play_run(page, "z01", "V-")
    page.wait_for_function(f"() => location.hash.includes('at={event_index}')")
    page.keyboard.press("2")
    page.wait_for_function("() => location.hash.includes('view=coordinator')")
    page.reload()
    page.wait_for_selector("svg.machine")
    assert page.evaluate("__page['store.js'].events[__sim.at.value].i") == event_index
    page.go_back()
    page.wait_for_selector("#verdict.hangs")
    page.go_back()
    page.wait_for_function("() => __page['store.js'].traceOrigin.value.kind === 'live'")


def test_another_cluster_at_the_same_address_is_noticed(new_page: Any) -> None:
    with TxnsimServer(arguments=("--ui", "--http", "0")) as first_server:
        page = new_page(first_server.http, expects=("net::ERR_", "503"))
        make_hang(page)
        page.wait_for_selector("#verdict.hangs")
        assert first_server.http
        port = first_server.http.rsplit(":", 1)[1].strip("/")
    page.wait_for_selector("#gone")
    with TxnsimServer(arguments=("--ui", "--http", port)):
        page.wait_for_selector("#replaced:has-text('Another cluster answers here now')")
        page.locator("#verdict.hangs").wait_for(state="detached")


def test_what_is_done_is_said_and_keys_without_an_aim_say_so(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)

    def expect_said(text: str) -> None:
        page.wait_for_selector(f"#said:has-text('{text}')")

    page.click("#practise")
    page.wait_for_selector(".step-of:text-is('Step 1 of 6')")  # the story says what is done
    page.keyboard.press("l")
    with urllib.request.urlopen(f"{fresh_server.http}/api/v1/explain") as answer:
        newest_index = json.load(answer)["at"]
    page.wait_for_function("(at) => __sim.events.at(-1)?.i >= at", arg=newest_index)
    page.keyboard.press(",")
    page.wait_for_selector("#repair:disabled")  # at an event of the past it is refused
    page.keyboard.press("l")
    page.click("#repair")
    expect_said("The ABORT marker is written on orders-0.")
    assert page.locator("#past").count() == 0
    page.keyboard.press("v")
    expect_said("Nothing to go to: next violation.")
    page.keyboard.press(",")
    page.locator("#said").wait_for(state="detached")
    page.keyboard.press("7")
    page.get_by_role("button", name="Kill broker/3").click()
    expect_said("Broker 3 was killed.")
    page.get_by_role("button", name="Start broker/3").click()
    expect_said("Broker 3 has started.")
    page.keyboard.press("6")
    page.click("#arm")
    expect_said("The rule page-1 is armed.")
    page.get_by_role("button", name="Disarm page-1").click()
    expect_said("The rule page-1 is taken back.")


def test_why_is_grey_while_it_is_asked_anew(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    event_index = play_run(page, "z01", "V-")
    routes: list[Any] = []
    page.route("**/api/v1/explain*", lambda route: routes.append(route))
    page.keyboard.press(",")
    page.wait_for_selector("#why.stale[aria-busy=true]")
    assert f"As of event #{event_index}." in page.inner_text("#why")
    while not routes:
        page.wait_for_timeout(10)
    routes[0].continue_()
    page.wait_for_selector("#why:not(.stale)")
    assert f"As of event #{event_index - 1}." in page.inner_text("#why")


def test_the_focus_stays_and_the_first_tab_skips_to_the_view(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    focused = "document.activeElement.id"
    page.keyboard.press("Tab")
    assert page.inner_text(":focus") == "Skip to the view"
    page.keyboard.press("Enter")
    assert page.get_attribute(":focus", "aria-label") == "Picture"
    page.evaluate(PAUSED, ["z01", "V-", 1])
    page.focus("#step")
    page.keyboard.press("Enter")
    page.wait_for_selector(".drive:has-text('step 3 of')")
    assert page.evaluate(focused) == "step"
    page.click("#leave")
    page.click("#lesson-L1")
    page.focus("#lesson-go")
    page.keyboard.press("Enter")
    page.wait_for_selector("#lesson-next")
    page.wait_for_function(f"() => {focused} === 'lesson-next'")


def test_the_coordinator_may_have_open_what_no_partition_has_a_record_of(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    page.evaluate(PAUSED, ["z01", "V-", 4])
    page.wait_for_selector(".belief:has-text('app is open.')")
    page.wait_for_selector(
        "#verdict:has-text('app is open at its coordinator with payments-0; no partition has an"
        " open record of it')"
    )


def test_a_high_watermark_is_shown_where_the_trace_tells_it(
    server: TxnsimServer, new_page: Any
) -> None:
    """At brief no event moves it: a single replica's is its log end, others' may be less."""
    page = new_page(server.http)
    high_watermarks = page.evaluate(
        """() => [["full", 3, 1, 4], ["brief", 1, 1, 4], ["brief", 3, 1, 4], ["brief", 3, 4, 4],
          ["brief", 0, 1, 4]].map(([level, replicas, lso, end]) =>
          __page["stage.js"].highWatermark({ level }, { replicas, lso, end, hw: 2 }))"""
    )
    assert high_watermarks == [2, 4, None, 4, None]  # the last one: a trace of an older txnsim
    play_run(page, "z01", "V-")  # three replicas
    assert "high watermark" not in page.inner_text(".partition dl")
    reason = page.get_attribute(".partition dt:last-of-type", "title")
    assert "does not tell how far the followers are" in reason
    play_run(page, "z27", "V+/4.3")  # one
    figures = " ".join(page.locator(".partition dl").all_inner_texts())
    assert "high watermark\n2\nlog end\n2" in figures
    assert "HW 2" in " ".join(page.locator(".tape").all_inner_texts())


LOG, COORDINATOR, OFFSETS = "broker/1/log/t-0", "broker/1/txn/0", "__consumer_offsets-1"
NODES: Final = ("broker/1", LOG, COORDINATOR, "fault", "client/other", f"broker/1/log/{OFFSETS}")
Row = tuple[str, str, tuple[int, ...], str, object]
LEADS: Final[Row] = ("broker/1", "node.role", (), "", {"tp": "t-0", "role": "leader", "epoch": 0})


def completed_move(name: str, producer_id: int, state: str, *partitions: str) -> Row:
    entry = {"pid": producer_id, "epoch": 0, "pending": None, "timeout_ms": 60_000}
    data = {**entry, "state": state, "partitions": partitions}
    return (COORDINATOR, "txn.complete", (), f"{name}/{producer_id}:0", data)


def owes(name: str, producer_id: int, partition_name: str = "t-0") -> Row:
    return (
        COORDINATOR,
        "marker.owed",
        (),
        f"{name}/{producer_id}:0",
        {"tp": partition_name, "committed": False},
    )


def opened_by(
    name: str, producer_id: int, base_offset: int, partition_name: str = "t-0"
) -> tuple[Row, Row]:
    fields = {"tp": partition_name, "pid": producer_id, "epoch": 0}
    node_name, tx = f"broker/1/log/{partition_name}", f"{name}/{producer_id}:0"
    batch = {**fields, "base": base_offset, "last": base_offset, "seq": 0, "txn": True}
    return (node_name, "log.append", (), tx, batch), (
        node_name,
        "pid.open",
        (),
        tx,
        {**fields, "first": base_offset},
    )


ABORTS: Final = (
    completed_move("app", 7, "Ongoing", "t-0"),
    completed_move("app", 7, "PrepareAbort", "t-0"),
)


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ((LEADS,), "healthy"),
        ((LEADS, completed_move("app", 7, "Empty")), "healthy"),
        ((LEADS, completed_move("app", 7, "Ongoing", "t-0")), "open"),
        ((LEADS, completed_move("app", 7, "Ongoing", OFFSETS)), "open"),
        # A marker is owed, and nothing is open where it is owed: "They agree", it said.
        ((LEADS, *ABORTS, owes("app", 7)), "waits"),
        ((LEADS, *ABORTS), "waits"),
        (
            (
                LEADS,
                completed_move("app", 7, "Ongoing", OFFSETS),
                completed_move("app", 7, "PrepareAbort"),
            ),
            "waits",
        ),
        # Beside one that is open on the same partition.
        (
            (
                LEADS,
                *ABORTS,
                owes("app", 7),
                completed_move("other", 8, "Ongoing", "t-0"),
                *opened_by("other", 8, 0),
            ),
            "waits",
        ),
        ((LEADS, *ABORTS, *opened_by("app", 7, 0)), "waits"),
        # In a topic of Kafka's own.
        (
            (
                LEADS,
                (*LEADS[:4], {"tp": OFFSETS, "role": "leader", "epoch": 0}),
                *opened_by("app", 7, 0, OFFSETS),
            ),
            "hangs",
        ),
    ],
)
def test_the_bar_has_the_words_of_the_judge(
    server: TxnsimServer, new_page: Any, events: tuple[Row, ...], state: str
) -> None:
    page = new_page(server.http)
    page.wait_for_selector(".link-state.live")
    recording = small(NODES, *events, level="brief")
    show(page, recording)
    page.wait_for_selector(f"#verdict[data-verdict={state}]")
    headline = judge_cluster(FollowedTrace.of_recording(recording).facts()).headline
    assert page.inner_text("#verdict h2").endswith(headline)


def held_by_rule(action_name: str, producer_id: int, partition_name: str) -> tuple[Row, ...]:
    rule = {"rule": "late", "point": "peer.request", "action": action_name}
    subjects = [{"pid": producer_id, "partitions": [partition_name]}]
    count = int(not action_name.startswith("delay"))
    hit = {**rule, "api": "WriteTxnMarkers", "held": count, "struck": 1, "about": subjects}
    message = {"api": "WriteTxnMarkers", "peer": "broker/1", "response": False, "correlation": 1}
    return (
        ("fault", "fault.arm", (), "", rule),
        ("fault", "fault.hit", (), "", hit),
        ("broker/1", "msg.hold", (5,), "", message),
    )


@pytest.mark.parametrize(
    ("action_name", "producer_id", "partition_name", "later_count", "expected_lines"),
    [
        ("hold", 7, "t-0", 0, ["ABORT marker held by late"]),
        # Any held WriteTxnMarkers was taken for that of every marker.
        ("hold", 8, "t-0", 0, ["ABORT marker on its way", "WriteTxnMarkers held by late"]),
        ("hold", 7, "u-0", 0, ["ABORT marker on its way", "WriteTxnMarkers held by late"]),
        # What was delayed was held for ever.
        ("delay 2 ms", 7, "t-0", 0, ["ABORT marker delayed by late"]),
        ("delay 2 ms", 7, "t-0", 3, ["ABORT marker on its way"]),
    ],
)
def test_what_is_on_its_way_is_held_only_by_what_holds_it(
    server: TxnsimServer,
    new_page: Any,
    action_name: str,
    producer_id: int,
    partition_name: str,
    later_count: int,
    expected_lines: list[str],
) -> None:
    page = new_page(server.http)
    page.wait_for_selector(".link-state.live")
    later_events = [("client/other", "note", (), "", {"text": "later"})] * later_count
    events = (
        LEADS,
        *ABORTS,
        owes("app", 7),
        *held_by_rule(action_name, producer_id, partition_name),
        *later_events,
    )
    show(page, small(NODES, *events, level="brief"))
    until_judged(page)
    way = page.locator(".way.due .message")
    lines = [
        f"{message.locator('.what button').inner_text()} {message.locator('.how').inner_text()}"
        for message in way.all()
    ]
    assert sorted(lines) == sorted(expected_lines)


def test_what_has_arrived_is_not_on_its_way(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    play_run(page, "z01", "V-")
    assert page.locator(".way.due").count() == 0
    assert page.locator(".way:not(.due) .message.released").count() == 1
    page.get_by_role("button", name="No answer comes, and it gives up on the record.").click()
    page.wait_for_selector(".way.due .message.held")
    assert page.locator(".way.due .message:not(.held)").count() == 0


TAKEN: Final = """(rows) => {
  const { addEvents, events } = __page["store.js"];
  let { i, t } = events[events.length - 1];
  const first = i + 1;
  addEvents(rows.map(([node, k, p, tx, d]) => {
    [i, t] = [i + 1, t + 1];
    return { node, i, t, n: 0, l: i, p: p.map((one) => first + one), k, tx, d };
  }));
}"""
"""Rows as events of the live cluster."""


@pytest.mark.parametrize(
    ("action_name", "message_class", "offer_count"),
    [("hold", "held", 1), ("delay 9000 ms", "delayed", 0)],
)
def test_only_what_is_held_is_released_by_hand(
    fresh_server: TxnsimServer,
    new_page: Any,
    action_name: str,
    message_class: str,
    offer_count: int,
) -> None:
    """No release shortens a delay, and the page would have said that it goes on."""
    page = new_page(fresh_server.http)
    judge_what_is_made(page)
    page.wait_for_selector(".link-state.live")
    page.evaluate(TAKEN, [LEADS, *ABORTS, owes("app", 7), *held_by_rule(action_name, 7, "t-0")])
    message = page.locator(f".message.{message_class}")
    message.wait_for()
    assert message.get_by_role("button", name="Release").count() == offer_count
