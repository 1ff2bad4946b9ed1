"""Headline, picture, reason and cure are of one event, or say that it is being read.

``data-verdict`` of the bar is the state's word of ``GET /api/v1/verdict``, and ``data-event`` the
position that its ``at=`` takes. Both are absent while it is read.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.browser.conftest import make_hang, recorded
from tests.lab.browser.steady_transactions import steady_transactions
from tests.lab.browser.test_stage import play_run
from tests.support.txnsim_server import TxnsimServer
from txnsim.verdict.judge import VerdictState
from txnsim_lab.http.page.one_file import one_file

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

SEEN: Final = """
globalThis.__seen = [];
const look = () => {
  const bar = document.querySelector("#verdict");
  if (!bar) return;
  const { verdict = "reading", event } = bar.dataset;
  const cause = document.querySelector("#why:not(.stale) .cause");
  const of = cause && /event #([0-9]+)/.exec(cause.closest("#why").innerText);
  __seen.push({
    verdict, event, stage: document.querySelector(".stage")?.dataset.event, text: bar.innerText,
    count: document.querySelectorAll("[data-verdict]").length, why: of ? of[1] : null,
  });
};
new MutationObserver(look).observe(document, {
  subtree: true, childList: true, attributes: true, characterData: true,
});
"""
"""Looks at the page after each change of it."""


IS_OF_NOW: Final = """() => {
  const { event } = document.querySelector("#verdict").dataset;
  return event === String(__sim.events[__sim.at.value].i);
}"""


def take_samples(page: Page) -> list[dict[str, Any]]:
    """The states that the page has shown since it was opened, or since the last call."""
    samples: list[dict[str, Any]] = page.evaluate("__seen.splice(0)")
    return samples


def assert_one_moment(samples: list[dict[str, Any]]) -> None:
    """Check that each sample's verdict, count and picture belong to the same event."""
    assert samples
    for sample in samples:
        assert sample["count"] == (sample["verdict"] != "reading"), sample
        assert sample["verdict"] in {*VerdictState, "reading"}, sample
        assert (sample["event"] is None) == (sample["verdict"] == "reading"), sample
        # Before the first events have come the verdict stands alone, with nothing drawn below it.
        assert sample["event"] is None or sample["stage"] in (None, sample["event"]), sample
        assert sample["why"] in (None, sample["stage"]), sample
        assert ("No transaction holds" in sample["text"]) == (sample["verdict"] == "healthy"), (
            sample
        )


def test_a_link_to_a_hang_never_says_that_all_is_well(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    event_index = play_run(page, "z01", "V-")
    page.wait_for_function("(at) => location.hash.includes(`at=${at}&`)", arg=event_index)
    other_page = new_page(page.url, script=SEEN)
    other_page.wait_for_selector("[data-verdict=hangs]")
    other_page.wait_for_selector("#why:not(.stale) .cause.hangs")
    samples = take_samples(other_page)
    assert_one_moment(samples)
    assert {sample["verdict"] for sample in samples} == {"reading", "hangs"}
    # Each step is read anew, and says so meanwhile.
    for key in ("ArrowLeft", "ArrowLeft", "ArrowRight", ",", "Home", "End", "l"):
        other_page.keyboard.press(key)
        other_page.wait_for_function(IS_OF_NOW)
    samples = take_samples(other_page)
    assert_one_moment(samples)
    assert {"reading", "open", "healthy"} <= {sample["verdict"] for sample in samples}


def test_a_reload_of_a_cluster_in_which_one_hangs_never_says_that_all_is_well(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, script=SEEN)
    make_hang(page)
    page.wait_for_selector("[data-verdict=hangs]")
    assert_one_moment(take_samples(page))
    page.reload()
    page.wait_for_selector("[data-verdict=hangs]")
    samples = take_samples(page)
    assert_one_moment(samples)
    assert {sample["verdict"] for sample in samples} == {"reading", "hangs"}
    assert "Nothing is written yet" not in " ".join(sample["text"] for sample in samples)


def test_a_page_in_a_file_has_each_verdict_at_once(new_page: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    path.write_text(one_file([("z01 V-", recorded("z01", "V-"))]), encoding="utf-8")
    page = new_page(path.as_uri(), offline=True, script=SEEN)
    page.wait_for_selector(".cause.hangs")
    take_samples(page)
    page.evaluate("__sim.go(__sim.at.value)")
    for key in (",", ",", ".", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_selector("[data-verdict=hangs]")
    samples = take_samples(page)
    assert_one_moment(samples)
    assert {"reading", "healthy"}.isdisjoint({sample["verdict"] for sample in samples[-1:]})
    assert "reading" not in {sample["verdict"] for sample in samples}


def test_two_runs_side_by_side_have_one_headline(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http, script=SEEN)
    page.evaluate("__page['api.js'].playRun('z01', 'V-', 'armed')")
    page.wait_for_selector("[data-verdict=hangs]")
    page.click("#compare")
    page.wait_for_selector(".side .verdict.line.hangs")
    # The other run has its own moment; it says so until that is read.
    page.locator(".side").nth(1).locator(".verdict.healthy").wait_for()
    page.keyboard.press(",")
    page.wait_for_selector("#verdict[data-event]")
    assert_one_moment(take_samples(page))


# Against what explain says


def judged_state(explanation: Mapping[str, Any]) -> str:
    """The judge's word in an answer of ``explain``, which has to fit what is open there."""
    state: str = explanation["verdict"]["state"]
    verdicts = {open_transaction["verdict"] for open_transaction in explanation["open"]}
    assert ("hanging" in verdicts) <= (state in ("hangs", "no-leader", "unknown")), explanation
    return state


def explanation_of_event(server: TxnsimServer, event_index: int) -> dict[str, Any] | None:
    """The server's explanation of an event; None for a dropped event."""
    try:
        with urllib.request.urlopen(
            f"{server.http}/api/v1/explain?at={event_index}", timeout=120
        ) as answer:
            explanation: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return None
    return explanation


SAMPLE: Final = """() => {
  globalThis.__samples = [];
  const sample = () => {
    if (__seen.length) __samples.push(__seen.at(-1));
    requestAnimationFrame(sample);
  };
  sample();
}"""
LATE_MARKERS: Final = {
    "id": "late-markers",
    "point": "peer.request",
    "api": "WriteTxnMarkers",
    "topic": "steady",
    "action": {"do": "delay", "delay_ms": 15},
}
"""So that markers are owed when somebody looks: else they are written before the loop turns."""
IS_SAMPLED: Final = """(state) =>
  __samples.some((sample) => sample.verdict === state && sample.event !== null)"""
RATE: Final = 200
SAMPLES: Final = 240


@pytest.mark.parametrize("sample_count", [SAMPLES, pytest.param(1_000, marks=pytest.mark.nightly)])
def test_no_headline_contradicts_what_is_explained_of_its_event_while_clients_commit(
    new_page: Any, sample_count: int
) -> None:
    """The picture was of the newest event, and the headline of one that was long past."""
    with TxnsimServer(arguments=("--ui", "--http", "0", "--topic", "steady:4")) as server:
        with steady_transactions(server.bootstrap, "steady", 4, rate=RATE):
            ask(server, "faults", LATE_MARKERS)
            page = new_page(server.http, script=SEEN)
            page.wait_for_selector("[data-verdict]")
            page.evaluate(SAMPLE)
            explanation_by_event: dict[int, dict[str, Any] | None] = {}
            for so, state, path, body in (
                (sample_count // 3, "", "practise", {}),
                (2 * sample_count // 3, "hangs", "repairs", {"topic": "orders", "partition": 0}),
                (sample_count, "waits", "", {}),
            ):
                page.wait_for_function("(so) => __samples.length >= so", arg=so)
                if state:
                    page.wait_for_function(IS_SAMPLED, arg=state)
                explain_sampled(server, page, explanation_by_event)
                if path:
                    ask(server, path, body)
            # A busy machine judges few events in the time of so many samples.
            page.wait_for_function(
                "(so) => new Set(__samples.map((one) => one.event ?? '')).size > so",
                arg=sample_count / 20,
            )
            explain_sampled(server, page, explanation_by_event)
            samples_taken = page.evaluate("__samples")
            assert_one_moment(take_samples(page))
            page.context.close()
        assert_one_moment(samples_taken)
        verdict_by_event = {
            int(sample["event"]): sample["verdict"]
            for sample in samples_taken
            if sample["event"] is not None
        }
    compared = {
        event: judged_state(explanation)
        for event, explanation in explanation_by_event.items()
        if explanation is not None
    }
    assert {event: verdict_by_event[event] for event in compared} == compared
    # It has compared something, while very much happened.
    assert max(compared) - min(compared) > sample_count
    assert len(compared) > sample_count / 40
    assert {"hangs", "waits"} <= set(compared.values())
    assert sum(sample["event"] is not None for sample in samples_taken) > sample_count / 2


def explain_sampled(
    server: TxnsimServer, page: Any, explanation_by_event: dict[int, dict[str, Any] | None]
) -> None:
    """Ask for the explanations of all events that have been sampled, before they are dropped."""
    sampled_events = page.evaluate("__samples.map((sample) => sample.event)")
    for event in {int(event) for event in sampled_events if event is not None}:
        if event not in explanation_by_event:
            explanation_by_event[event] = explanation_of_event(server, event)


def ask(server: TxnsimServer, path: str, body: object) -> None:
    request = urllib.request.Request(
        f"{server.http}/api/v1/{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=60).close()
