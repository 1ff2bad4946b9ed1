"""The page in a real browser, as a stranger uses it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.browser.conftest import make_hang
from tests.support.txnsim_server import TxnsimServer
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.trace.trace_file import Recording

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

VIEWS: Final = (
    *("stage", "coordinator", "producers", "lanes", "events", "faults", "cluster", "zoo", "write"),
)
AT_RANDOM: Final = 50
BEFORE_THE_CURE: Final = 16
"""Steps of z27, as far as its transaction hangs and nothing is done about it."""
PICTURES: Final = Path(__file__).parents[3] / ".cache" / "browser" / "pictures"
PLAY: Final = """async ([name, run, take]) => {
  const { playRun } = __page["api.js"];
  await playRun(name, run, take);
}"""
SAME: Final = """async (positions) => {
  const wrong = [];
  const of = (await (await fetch("/api/v1/runs")).json()).at(-1).id;
  const { traceOrigin } = __page["store.js"];
  const isPlain = (one) => one && typeof one === "object" && !Array.isArray(one);
  const ordered = (one) => (isPlain(one) ? Object.fromEntries(Object.entries(one).sort()) : one);
  const plain = (one) => JSON.stringify(one, (_, value) => ordered(value));
  for (const index of positions) {
    const event = __sim.events[index];
    const { run, take } = traceOrigin.value;
    const where = new URLSearchParams({ at: event.i, of, run, take });
    const told = (await (await fetch(`/api/v1/explain?${where}`)).json()).state;
    const mine = __sim.stateAt(index);
    if (plain(told) !== plain(mine)) wrong.push([event.i, plain(told), plain(mine)]);
  }
  return wrong;
}"""


def make_one_hang(page: Page) -> None:
    make_hang(page)
    page.wait_for_selector(".cause.hangs")


def test_a_stranger_makes_a_transaction_hang_hears_why_and_ends_it(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    make_one_hang(page)
    assert "its coordinator will send no marker here" in page.inner_text("#why")
    assert "hanging" in page.inner_text(".tape")
    page.keyboard.press("3")
    page.wait_for_selector("tr.hangs")
    assert "transactional id billing" in page.inner_text("tr.hangs")
    page.keyboard.press("1")
    page.click("#repair")
    page.wait_for_selector(".cause.healthy")
    assert "ABORT marker" in page.inner_text(".tape")


def test_the_same_by_keyboard_alone(fresh_server: TxnsimServer, new_page: Any) -> None:
    page = new_page(fresh_server.http)
    page.wait_for_selector("#practise")
    press_until(page, "document.activeElement.id === 'practise'")
    page.keyboard.press("Enter")
    page.wait_for_selector("#past")
    page.keyboard.press("l")
    page.wait_for_selector(".cause.hangs")
    page.keyboard.press("w")
    page.wait_for_function("() => document.activeElement.id === 'why'")
    press_until(page, "document.activeElement.id === 'repair'")
    page.keyboard.press("Enter")
    page.wait_for_selector(".cause.healthy")


def press_until(page: Page, condition: str) -> None:
    for _ in range(60):
        if page.evaluate(condition):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no way by Tab to: {condition}")


@pytest.mark.parametrize(
    ("name", "run_name"), [("z01", "V-"), ("z11", "V-/before"), ("z21", "TV2")]
)
def test_the_browsers_state_is_the_servers_at_any_event(
    name: str, run_name: str, server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    page.evaluate(PLAY, [name, run_name, "armed"])
    count = page.evaluate("__sim.count.value")
    step = max(1, count // AT_RANDOM)
    assert page.evaluate(SAME, list(range(0, count, step))) == []


def test_a_run_of_the_zoo_opens_and_its_values_lead_back_to_their_causes(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    page.keyboard.press("8")
    page.locator("[data-story~=z01] button.bad").first.click()
    page.wait_for_selector(".link-state.done")
    page.keyboard.press("Home")
    page.keyboard.press("v")
    assert "check.violation" in page.inner_text("#event h2")
    page.keyboard.press("1")
    page.wait_for_selector("#why .cause")
    page.click("button.value")
    assert "log.lso" in page.inner_text("#event h2")
    page.keyboard.press("[")
    assert "marker.written" in page.inner_text("#event h2")


def test_a_run_is_played_step_by_step_driven_and_taken_back(
    server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(server.http)
    page.keyboard.press("8")
    page.check("#stop-first")
    page.locator("[data-story~=z01] button.bad").first.click()
    page.wait_for_selector(".drive:has-text('step 1 of')")
    for step in range(2, 12):
        page.click("#step")
        page.wait_for_selector(f".drive:has-text('step {step} of')")
    page.click("#step")  # another producer writes, and is not read
    page.wait_for_selector(".drive:has-text('step 12 of')")
    page.keyboard.press("1")
    page.wait_for_selector(".cause.hangs")
    page.click("#repair")
    page.wait_for_selector(".cause.healthy")
    page.click("#back")
    page.wait_for_selector(".tape:has-text('hanging'), .cause.hangs")
    page.click("#leave")
    page.wait_for_selector(".link-state.live")


def test_what_was_committed_in_a_run_is_ended_with_commit(
    server: TxnsimServer, new_page: Any
) -> None:
    """The page once wrote an ABORT by a button that said COMMIT."""
    page = new_page(server.http)
    page.evaluate(PLAY.replace("take)", "take, 1, { paused: true })"), ["z27", "TV2/4.3", "armed"])
    page.keyboard.press("1")
    for _ in range(BEFORE_THE_CURE):
        story_text = page.inner_text(".drive")
        page.click("#step")
        page.wait_for_function(
            "(shown) => document.querySelector('.drive').innerText !== shown", arg=story_text
        )
    page.wait_for_selector("#repair:has-text('End it: write COMMIT')")
    page.click("#repair")
    page.wait_for_selector(".cause.healthy")
    markers = page.evaluate("__sim.events.filter((one) => one.k === 'marker.written')")
    assert [marker["d"]["committed"] for marker in markers if marker["d"]["tp"] == "t-0"] == [True]


def test_a_link_repeats_a_run_with_what_was_done_to_it(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    page.evaluate(PLAY.replace("take)", "take, 1, { paused: true })"), ["z01", "V-", "armed"])
    page.click("#step")
    page.wait_for_selector(".drive:has-text('step 2 of')")
    page.keyboard.press("7")
    page.get_by_role("button", name="Kill broker/3").click()
    page.get_by_role("cell", name="○ down").wait_for()
    page.keyboard.press("s")
    assert '"do":"kill"' in page.inner_text("#share-command")
    assert "run_scenario(" in page.inner_text("#share-pytest")
    assert "The last 20 events" in page.inner_text("#share-issue")
    link = page.inner_text("#share-link")
    other_page = new_page(link)
    other_page.wait_for_selector(".drive:has-text('step 2 of')")
    events_as_json = [
        page_of_run.evaluate("JSON.stringify(__sim.events)") for page_of_run in (page, other_page)
    ]
    assert events_as_json[0] == events_as_json[1]


def test_the_command_and_the_pytest_test_that_are_shared_repeat_the_run(
    server: TxnsimServer, new_page: Any, tmp_path: Path
) -> None:
    page = new_page(server.http)
    page.evaluate(PLAY, ["z01", "V-", "armed"])
    page.keyboard.press("s")
    program, *command = shlex.split(page.inner_text("#share-command"))
    assert program == "txnsim"
    outcome("-m", "txnsim", *command, "--trace", str(tmp_path))
    (trace_file,) = tmp_path.glob("*.jsonl")
    events_of_page = json.loads(
        page.evaluate("JSON.stringify(__sim.events.map((e) => [e.i, e.t, e.k]))")
    )
    assert [[e.i, e.t, e.k] for e in Recording.read(trace_file).events] == events_of_page
    test = tmp_path / "test_shared.py"
    test.write_text(page.inner_text("#share-pytest"), encoding="utf-8")
    output = outcome("-m", "pytest", "-q", "-p", "no:cacheprovider", str(test))
    assert "1 passed" in output
    # It said nothing of the verdict, and failed where the run must be convicted.
    assert 'observed == ("stuck-last-stable-offset",)' in test.read_text("utf-8")


def outcome(*command: str) -> str:
    process = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        check=False,
        text=True,
    )
    return process.stdout + process.stderr


def test_events_are_searched_and_walked_by_keyboard(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    page.evaluate(PLAY, ["z01", "V-", "armed"])
    page.keyboard.press("/")
    page.wait_for_function("() => document.activeElement.id === 'query'")
    page.keyboard.type("kind:marker.written")
    page.wait_for_selector("[role=status]:has-text('2 of')")
    page.focus(".events")
    page.keyboard.press("Home")
    assert page.locator("[aria-selected=true]").count() == 1
    page.keyboard.press("ArrowDown")
    assert "marker.written" in page.inner_text("[aria-selected=true]")


STREAMED: Final = """(before) => {
  const all = Array.from({ length: __sim.count.value }, (_, at) => __sim.events[at]);
  return all.filter((event) => event.i > before);
}"""


@pytest.mark.parametrize("level", ["brief", "full"])
def test_events_that_are_streamed_are_those_of_the_trace(
    fresh_server: TxnsimServer, new_page: Any, level: str
) -> None:
    page = new_page(fresh_server.http)
    page.wait_for_selector(".link-state.live")
    page.evaluate("(level) => __page['api.js'].postJson('/trace', { level })", level)
    event_before = page.evaluate("__sim.events[__sim.count.value - 1].i")
    make_one_hang(page)
    page.click("#repair")
    page.wait_for_selector(".cause.healthy")
    streamed = {event["i"]: event for event in page.evaluate(STREAMED, event_before)}
    assert len(streamed) > 30
    header, *lines, _ = page.evaluate("fetch('/api/v1/trace').then((it) => it.text())").splitlines()
    nodes = json.loads(header)["nodes"]
    for event in map(json.loads, lines):
        if event["i"] in streamed:
            assert streamed[event["i"]] == {**event, "node": nodes[event["n"]]}


def test_a_broken_connection_loses_no_event(fresh_server: TxnsimServer, new_page: Any) -> None:
    page = new_page(fresh_server.http, expects=("net::ERR_",))
    page.wait_for_selector("#practise")
    page.context.set_offline(True)
    ask(fresh_server.http, "/api/v1/practise", {})
    page.context.set_offline(False)
    page.wait_for_selector(".cause.hangs")
    event_indexes = [event["i"] for event in page.evaluate("__sim.events.map(({ i }) => ({ i }))")]
    assert event_indexes == list(range(len(event_indexes)))


def test_faults_are_armed_released_and_taken_back(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    page.keyboard.press("6")
    page.click("#arm")
    page.locator("main section").get_by_role("cell", name="page-1", exact=True).wait_for()
    page.get_by_role("button", name="Disarm page-1").click()
    page.locator("main section").get_by_role("cell", name="page-1", exact=True).wait_for(
        state="detached"
    )


def test_a_rule_of_ones_own_is_armed_and_a_wrong_one_is_refused_with_the_reason(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, expects=("422",))
    page.keyboard.press("6")
    page.select_option("#plan", label="a rule of your own …")
    page.select_option("#own-point", "peer.request")
    page.select_option("#own-rule-api", "WriteTxnMarkers")
    page.select_option("#own-do", "error")
    page.fill("#own-action-error", "NO_SUCH_ERROR")
    page.click("#arm")
    page.wait_for_selector(".problem:has-text(\"no Kafka error 'NO_SUCH_ERROR'\")")
    page.select_option("#own-do", "delay")
    page.fill("#own-action-delay_ms", "500")
    page.fill("#own-rule-limit", "2")
    page.click("#arm")
    page.locator("main section").get_by_role("cell", name="page-1", exact=True).wait_for()
    (rule,) = armed_rules(fresh_server)
    assert (rule["point"], rule["api"], rule["limit"]) == ("peer.request", "WriteTxnMarkers", 2)
    assert rule["action"] == {"do": "delay", "delay_ms": 500}


def test_every_field_that_a_rule_has_is_in_the_form(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    page.keyboard.press("6")
    page.select_option("#plan", label="a rule of your own …")
    rules: list[dict[str, Any]] = [
        {
            "id": "first", "point": "log.append", "role": "follower", "kind": "marker",
            "nth": 2, "limit": 4, "action": {"do": "hold"},
        },
        {
            "id": "last", "point": "client.request", "client_id": "app",
            "client_instance_id": "q80DZSmwTU-UDSGqKDIy0A", "transactional_id": "app",
            "action": {"do": "drop"},
        },
        {
            "id": "all else", "point": "peer.request", "api": "WriteTxnMarkers", "broker": 2,
            "source": "broker/1", "producer_id": 7, "topic": "t", "partition": 3,
            "committed": False, "occurrences": [2, 5], "probability": 0.5,
            "after": "first", "until": "last", "then": {"do": "delay", "delay_ms": 50},
            "action": {"do": "crash", "broker": 3, "lose_unflushed": True, "restart_after_ms": 100},
        },
    ]  # fmt: skip
    tried_fields = {name for rule in rules for name in rule}
    assert tried_fields == set(FaultRule.__struct_fields__)
    for rule in rules:
        fill_in(page, rule)
        page.click("#arm")
        page.locator("main section").get_by_role("cell", name=rule["id"], exact=True).wait_for()
    assert armed_rules(fresh_server) == rules


def fill_in(page: Page, rule: dict[str, Any]) -> None:
    """Fill the form for a fault rule with this rule."""
    page.fill("#own-id", rule["id"])
    page.select_option("#own-point", rule["point"])
    for part in ("action", "then"):
        if part in rule:
            page.select_option({"action": "#own-do", "then": "#own-then"}[part], rule[part]["do"])
            for name in rule[part].keys() - {"do"}:
                set_to(page, f"#own-{part}-{name}", rule[part][name])
    for control_locator in page.locator("[id^=own-rule-]").all():
        name = str(control_locator.get_attribute("id"))
        set_to(page, f"#{name}", rule.get(name.removeprefix("own-rule-"), ""))


def set_to(page: Page, control: str, value: object) -> None:
    """Set a control of the page to the value that the API has."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    if isinstance(value, bool):
        text = text.lower()
    if page.locator(control).evaluate("(one) => one.tagName") == "SELECT":
        page.select_option(control, text)
    else:
        page.fill(control, text)


def armed_rules(server: TxnsimServer) -> list[dict[str, Any]]:
    """The rules in force."""
    with urllib.request.urlopen(f"{server.http}/api/v1/faults") as answer:
        return [fault["rule"] for fault in json.load(answer)]


def test_rules_at_every_point_are_built_with_what_the_api_takes_there(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    page.keyboard.press("6")
    page.select_option("#plan", label="a rule of your own …")
    points = [str(point) for point in FaultPoint]
    assert page.locator("#own-point option").all_inner_texts() == points
    for point_number, point in enumerate(points, start=1):
        page.select_option("#own-point", point)
        if point == FaultPoint.LOG_APPEND:
            page.select_option("#own-rule-role", "leader")
            page.select_option("#own-rule-kind", "marker")
            page.fill("#own-rule-topic", "t")
            page.fill("#own-rule-partition", "3")
        if point == FaultPoint.NOW:
            page.select_option("#own-do", "clock")
        page.click("#arm")
        name = f"page-{point_number}"
        page.locator("main section").get_by_role("cell", name=name, exact=True).wait_for()
    rules = {armed_rule["point"]: armed_rule for armed_rule in armed_rules(fresh_server)}
    assert set(rules) == set(points)
    criteria = {"role": "leader", "kind": "marker", "topic": "t", "partition": 3, "limit": 1}
    assert rules["log.append"] == {
        "id": "page-8", "point": "log.append", "action": {"do": "hold"}, **criteria
    }  # fmt: skip
    assert rules["log.index"]["action"] == {"do": "pass"}
    assert rules["now"]["action"] == {"do": "clock", "by_ms": 60_000, "broker": None}


def test_what_a_live_cluster_has_recorded_is_saved_and_told(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    make_one_hang(page)
    page.keyboard.press("s")
    assert "\ntxnsim trace convert trace.jsonl" in page.inner_text("main")
    assert "its coordinator will send no marker here" in page.inner_text("#share-issue")
    with page.expect_download() as download:
        page.click("#share-save")
    saved = download.value
    assert saved.suggested_filename == "trace.jsonl"
    recording = Recording.from_lines("saved", Path(saved.path()).read_bytes().splitlines())
    assert any(event.k == "pid.open" for event in recording.events)


def test_a_broker_is_killed_and_started_again(fresh_server: TxnsimServer, new_page: Any) -> None:
    page = new_page(fresh_server.http)
    page.keyboard.press("7")
    page.get_by_role("button", name="Kill broker/2").click()
    page.get_by_role("cell", name="○ down").wait_for()
    page.get_by_role("button", name="Start broker/2").click()
    page.get_by_role("cell", name="○ down").wait_for(state="detached")


def test_where_nothing_is_recorded_the_page_says_so_and_offers_to(
    browser: object, new_page: Any
) -> None:
    assert browser
    with TxnsimServer(arguments=("--http", "0")) as quiet_server:
        context_page = new_page(quiet_server.http, expects=("409 (Conflict)", "net::ERR_"))
        context_page.get_by_role("button", name="Record from now on").click()
        context_page.wait_for_selector(".link-state.live")
        context_page.close()  # before the server ends, whose refusals it would complain about


def test_where_nothing_is_recorded_the_page_does_not_say_that_nothing_is_there(
    browser: object, new_page: Any
) -> None:
    assert browser
    with TxnsimServer(arguments=("--http", "0")) as quiet_server:
        ask(quiet_server.http, "/api/v1/practise", {})
        page = new_page(quiet_server.http, expects=("409 (Conflict)", "net::ERR_"))
        page.wait_for_selector("#off")
        for number in range(1, 8):
            page.keyboard.press(str(number))
            page.wait_for_function(
                f"() => __page['store.js'].shownView.value === '{VIEWS[number - 1]}'"
            )
            # Both in one look: the list of lessons may come between two.
            view_script = "document.querySelector('main .view').innerText"
            unrecorded_text = "document.querySelector('#unrecorded').innerText"
            assert page.evaluate(f"() => {view_script} === {unrecorded_text}")
            body_text = page.inner_text("body")
            assert [
                claim for claim in ("yet at", "is written", "is shown here") if claim in body_text
            ] == []
        assert (
            f"--bootstrap-server {quiet_server.bootstrap.split(',')[0]} find-hanging" in body_text
        )
        page.keyboard.press("1")
        page.get_by_role("button", name="Record from now on").click()
        page.wait_for_selector(".cause.hangs")
        page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_is_accessible_in_both_themes_and_has_its_picture(
    theme: str, fresh_server: TxnsimServer, new_page: Any, axe: str
) -> None:
    page = new_page(fresh_server.http, color_scheme=theme, bypass_csp=True)
    make_one_hang(page)
    page.evaluate(axe)
    PICTURES.mkdir(parents=True, exist_ok=True)
    violations = {}
    for number, view in enumerate((*VIEWS, "help", "share", "lesson"), 1):
        page.keyboard.press({"help": "?", "share": "s", "lesson": "8"}.get(view, str(number)))
        if view == "zoo":
            page.wait_for_selector("table.zoo")
        if view == "lesson":
            page.keyboard.press("Escape")
            page.click("#lesson-L1")
            page.wait_for_selector("#lesson p")
        result = page.evaluate("axe.run({ resultTypes: ['violations'] })")
        for violation_rule in result["violations"]:
            violations[f"{view} {violation_rule['id']}"] = [
                node["html"][:120] for node in violation_rule["nodes"]
            ][:3]
        page.screenshot(path=PICTURES / f"{view}-{theme}.png")
    assert violations == {}


def ask(base: str | None, path: str, body: object) -> Any:
    assert base is not None
    request = urllib.request.Request(
        base + path,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())
