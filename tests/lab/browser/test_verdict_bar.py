"""The page says what the judge says: the rows in which it once said what was not so.

The bar has the state's word of ``GET /api/v1/verdict`` in ``data-verdict``, the event in
``data-event``, and how many events it is behind in ``data-lag``. "live" stands only at 0.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.lab.browser.conftest import make_hang
from tests.support.txnsim_server import TxnsimServer
from txnsim_lab.scenario.teaching.lessons import lessons

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

IS_CURRENT: Final = """() => {
  const bar = document.querySelector("#verdict[data-verdict]");
  return bar?.dataset.lag === "0" && document.querySelector(".link-state.live");
}"""


def request(server: TxnsimServer, method: str, path: str, body: object = None) -> Any:
    asked_request = urllib.request.Request(
        f"{server.http}/api/v1/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(asked_request, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def agrees_with_the_judge(page: Page, server: TxnsimServer) -> str:
    """The state that the bar shows, which is what the judge says at that event."""
    page.wait_for_function(IS_CURRENT)
    bar_locator = page.locator("#verdict")
    state, event = (
        bar_locator.get_attribute("data-verdict"),
        bar_locator.get_attribute("data-event"),
    )
    answer = request(server, "GET", f"verdict?at={event}")
    assert (answer["state"], answer["position"]) == (state, int(event or -1))
    assert answer["headline"] in bar_locator.inner_text()
    return str(state)


def begin(
    server: TxnsimServer,
    name: str,
    topic: str = "orders",
    *,
    settings: Mapping[str, object] | None = None,
) -> Producer:
    """A client with an open transaction on partition 0 of a topic."""
    client = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "transactional.id": name,
            "log_level": 0,
            **(settings or {}),
        }
    )
    client.init_transactions()
    client.begin_transaction()
    client.produce(topic, b"one", partition=0)
    client.flush()
    return client


def test_a_deleted_topic_holds_nobody(fresh_server: TxnsimServer, new_page: Any) -> None:
    page = new_page(fresh_server.http)
    make_hang(page)
    page.wait_for_selector("[data-verdict=hangs]")
    assert agrees_with_the_judge(page, fresh_server) == "hangs"
    request(fresh_server, "DELETE", "topics/orders")
    page.wait_for_selector("[data-verdict=healthy]")
    assert agrees_with_the_judge(page, fresh_server) == "healthy"
    assert page.locator("#repair").count() == 0


def test_a_reset_cluster_is_empty_also_in_a_new_browser(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    make_hang(page)
    page.wait_for_selector("[data-verdict=hangs]")
    request(fresh_server, "POST", "reset")
    page.wait_for_selector("[data-verdict=healthy]")
    assert agrees_with_the_judge(page, fresh_server) == "healthy"
    other_page = new_page(fresh_server.http)
    assert agrees_with_the_judge(other_page, fresh_server) == "healthy"


def test_recording_that_is_switched_off_and_on_is_noticed(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, expects=("409",))
    client = begin(fresh_server, "app")
    page.wait_for_selector("[data-verdict=open]")
    request(fresh_server, "POST", "trace", {"level": "off"})
    page.wait_for_selector(".link-state:has-text('recording stopped at #')")
    assert page.locator(".link-state.live").count() == 0
    client.commit_transaction()
    page_of_off = new_page(fresh_server.http, expects=("409",))
    page_of_off.wait_for_selector(".link-state:has-text('recording stopped at #')")
    request(fresh_server, "POST", "trace", {"level": "brief"})
    for shown_page in (page, page_of_off):
        shown_page.wait_for_selector("[data-verdict=healthy]")
        assert agrees_with_the_judge(shown_page, fresh_server) == "healthy"


def test_the_verdict_is_of_the_cluster_and_not_of_the_chosen_partition(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    """The bar was once green for one partition, beside nine that were open."""
    page = new_page(fresh_server.http)
    request(fresh_server, "POST", "topics", {"name": "quiet", "partitions": 1})
    begin(fresh_server, "app")
    page.wait_for_selector("[data-verdict=open]")
    page.evaluate("__page['store.js'].chosenPartition.value = 'quiet-0'")
    assert agrees_with_the_judge(page, fresh_server) == "open"
    assert "app is open on orders-0" in page.inner_text("#verdict")


def test_a_dead_leader_is_said(fresh_server: TxnsimServer, new_page: Any) -> None:
    """The page once said "They agree. Its producer can end it" of a partition without a leader."""
    page = new_page(fresh_server.http)
    topic = {"name": "solo", "partitions": 1, "replication_factor": 1}
    request(fresh_server, "POST", "topics", topic)
    begin(fresh_server, "app", "solo")
    page.wait_for_selector("[data-verdict=open]")
    (partition,) = request(fresh_server, "GET", "topics/solo")["partitions"]
    request(fresh_server, "POST", f"brokers/{partition['leader']}/kill")
    page.wait_for_selector("[data-verdict=no-leader]")
    assert agrees_with_the_judge(page, fresh_server) == "no-leader"
    assert "Start broker " in page.inner_text("#verdict")


def test_deleted_records_are_not_drawn(fresh_server: TxnsimServer, new_page: Any) -> None:
    page = new_page(fresh_server.http)
    make_hang(page)
    page.wait_for_selector("[data-verdict=hangs]")
    assert page.locator(".drawn .batch").count() == 3
    admin = AdminClient({"bootstrap.servers": fresh_server.bootstrap})
    (deletion_future,) = admin.delete_records([TopicPartition("orders", 0, 3)]).values()
    assert deletion_future.result().low_watermark == 3
    # The producer's state outlives its records. A real Kafka 4.4.0 does the same: DescribeProducers
    # names the open transaction, and the last stable offset stays at the log's start.
    page.wait_for_selector("#verdict:has-text('the log begins at 3')")
    assert "readers get nothing from offset 3 on" in page.inner_text("#verdict")
    assert agrees_with_the_judge(page, fresh_server) == "hangs"
    assert page.locator(".drawn .batch").count() == 0
    assert page.locator(".healthy").count() == 0


def test_a_marker_that_a_rule_holds_does_not_come_by_itself(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    """The page once said "They will agree" of a marker that a rule holds without a limit."""
    page = new_page(fresh_server.http)
    client = begin(fresh_server, "app")
    hold = {"id": "kept", "point": "peer.request", "api": "WriteTxnMarkers"}
    request(fresh_server, "POST", "faults", hold | {"action": {"do": "hold"}})
    client.commit_transaction()
    page.wait_for_selector("[data-verdict=waits]:has-text(\"The fault rule 'kept' holds\")")
    assert agrees_with_the_judge(page, fresh_server) == "waits"


def answer_part(page: Page) -> None:
    """Answer the open question of a lesson."""
    page.wait_for_selector("[name=guess]")
    page.wait_for_function("() => !__page['store.js'].isRunBusy.value")
    page.check("[name=guess] >> nth=0")
    page.click("#lesson-answer")
    page.wait_for_selector("#lesson-next")
    page.wait_for_selector("[data-verdict]")


def picture_texts(page: Page) -> str:
    return " | ".join(page.locator(".drawn text").all_text_contents())


def test_a_marker_that_is_not_sent_again_is_not_on_its_way(
    server: TxnsimServer, new_page: Any
) -> None:
    """Kafka 2.4 gives the marker up (lesson L4). The picture once said "on its way" of it."""
    page = new_page(f"{server.http}/#lesson=L4&part=1")
    answer_part(page)
    assert page.get_attribute("#verdict", "data-verdict") == "waits"
    assert "does not send again" in page.inner_text("#verdict")
    assert "COMMIT marker, not sent again" in picture_texts(page)
    assert "on its way" not in page.inner_text("main") + picture_texts(page)


@pytest.mark.parametrize(
    ("part", "torn_text", "application", "asked"),
    [(3, "“r2”", "aborted ✓", "abort"), (4, "“r2”", "committed ✓", "commit")],
)
def test_wrong_data_is_red_and_the_record_is_drawn(
    part: int, torn_text: str, application: str, asked: str, *, server: TxnsimServer, new_page: Any
) -> None:
    """Green stood over a transaction that was torn (lesson L3), and over a write that was lost.
    The application's row was of a transaction that the application never had.
    """
    page = new_page(f"{server.http}/#lesson=L3&part={part}")
    answer_part(page)
    assert page.get_attribute("#verdict", "data-verdict") == "wrong-data"
    wrong_batches = page.locator(".drawn .batch.wrong-data")
    assert any(torn_text in text for text in wrong_batches.all_text_contents())
    texts = picture_texts(page)
    assert f"asks to {asked} | {application} | COORDINATOR" in texts
    assert "APPLICATION | app |" in texts
    assert page.locator("[data-readers='wrong data']").count() == 1


def test_what_an_application_asked_is_what_it_sent(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    client = begin(fresh_server, "app", settings={"transaction.timeout.ms": 3000})
    page.wait_for_selector("[data-verdict=open]")
    request(fresh_server, "POST", "clock", {"advance_ms": 20_000})
    page.wait_for_selector("[data-verdict=healthy]")
    with pytest.raises(Exception, match=r"(?i)epoch|fenced|state"):
        client.commit_transaction(10)
    page.wait_for_selector(".drawn .app:has-text('asked to commit, got')")


def test_no_reader_is_made_up(fresh_server: TxnsimServer, new_page: Any) -> None:
    page = new_page(fresh_server.http)
    begin(fresh_server, "app")
    page.wait_for_selector("[data-verdict=open]")
    page.wait_for_selector("#verdict:has-text('no consumer waits at this moment')")
    assert "a reader waits" not in page.inner_text("main")


def test_what_is_not_answered_is_not_live(fresh_server: TxnsimServer, new_page: Any) -> None:
    """The page once called a slow stream "live", and one whose question had failed."""
    page = new_page(fresh_server.http, expects=("500", "net::ERR_"))
    page.wait_for_function(IS_CURRENT)
    page.route("**/explain?*", lambda route: route.fulfill(status=500, json={"error": "it failed"}))
    begin(fresh_server, "app")
    page.wait_for_selector("#verdict:has-text('it failed')")
    assert page.locator(".link-state.live").count() == 0
    page.unroute("**/explain?*")  # it is asked again
    assert agrees_with_the_judge(page, fresh_server) == "open"
    page.route("**/api/v1/verdict", lambda _route: None)  # no answer comes
    page.wait_for_selector(".link-state:has-text('no answer for')")


SLOW: Final = """
const realFetch = globalThis.fetch;
globalThis.fetch = async (address, options) => {
  const response = await realFetch(address, options);
  if (!String(address).includes("/events/packed")) return response;
  const never = new ReadableStream({ pull: () => new Promise(() => null) });
  return new Response(never, { headers: response.headers });
};
"""
"""A stream of which nothing arrives."""


def test_a_stream_that_is_behind_says_how_far(fresh_server: TxnsimServer, new_page: Any) -> None:
    page = new_page(fresh_server.http, script=SLOW)
    page.wait_for_selector("[data-lag='0']")
    begin(fresh_server, "app")
    page.wait_for_selector(".link-state:has-text('events behind')")
    offset_lag = int(page.get_attribute("#verdict", "data-lag"))
    assert offset_lag > 5
    assert page.locator(".link-state.live").count() == 0


def test_who_looks_back_is_told_that_and_not_that_the_page_is_behind(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    make_hang(page)
    page.wait_for_selector("[data-verdict=hangs]")
    page.evaluate("__page['player.js'].goToStep(2)")
    page.wait_for_selector(".link-state:has-text('events have followed')")
    assert "behind" not in page.inner_text(".link-state")
    assert int(page.get_attribute("#verdict", "data-lag")) > 0


ROWS: Final = """() => Object.fromEntries(
  [...document.querySelectorAll("[data-partition]")].map(({ dataset }) => [
    dataset.partition, [dataset.readers.replace(/\\d+ s$/, "N s"), dataset.leader]]))"""


BEFORE_QUIET: Final = """() => {
  const { goToEvent, stateAt } = __page["store.js"];
  let index = 0;
  while (!("busy-0" in stateAt(index).logs)) index += 1;
  goToEvent(index);
}"""


def test_a_table_tells_where_readers_of_each_partition_stand(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    for name in ("busy", "quiet", "solo"):
        topic = {"name": name, "partitions": 1, "replication_factor": 1}
        request(fresh_server, "POST", "topics", topic)
    begin(fresh_server, "app", "busy").commit_transaction()
    begin(fresh_server, "app-2", "busy")
    page.wait_for_selector("[data-partition=busy-0][data-readers^=open]")
    leaders = {
        name: str(request(fresh_server, "GET", f"topics/{name}")["partitions"][0]["leader"])
        for name in ("quiet", "busy", "solo")
    }
    rows = page.evaluate(ROWS)
    assert rows["busy-0"] == ["open, N s", leaders["busy"]]
    assert rows["quiet-0"] == ["move", leaders["quiet"]]
    # A row chooses the partition of the picture; the bar stays the cluster's.
    page.click("[data-partition=quiet-0]")
    page.wait_for_selector(".drawn :text('quiet-0')")
    assert "app-2 is open on busy-0" in page.inner_text("#verdict")
    request(fresh_server, "DELETE", "topics/quiet")
    page.wait_for_selector("[data-partition=quiet-0][data-readers=deleted]")
    page.evaluate(BEFORE_QUIET)  # it was not deleted before it was made
    page.wait_for_selector("[data-partition=quiet-0][data-readers='not there']")
    page.evaluate("__page['store.js'].goToNewest()")
    request(fresh_server, "POST", f"brokers/{leaders['solo']}/kill")
    page.wait_for_selector("[data-partition=solo-0][data-readers='no leader'][data-leader=none]")


CONTRAST: Final = """() => {
  const style = getComputedStyle(document.querySelector("#play"));
  const luminance = (color) => {
    const parts = color.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [low, high] = [style.color, style.backgroundColor].map(luminance).sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_button_that_stops_can_be_read(theme: str, server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http, color_scheme=theme)
    page.evaluate("__page['api.js'].playRun('z01', 'V-', 'armed')")
    page.wait_for_selector("#verdict[data-verdict]")
    page.keyboard.press("Home")
    page.click("#play")
    page.wait_for_selector("#play.primary[aria-pressed=true]:has-text('pause')")
    assert page.evaluate(CONTRAST) >= 4.5


def test_presented_without_a_story_the_picture_fills_the_screen(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http, viewport={"width": 1920, "height": 1080})
    begin(fresh_server, "app")
    page.wait_for_selector("[data-verdict=open]")
    page.click("#present")
    page.wait_for_selector("body.presented")
    assert page.locator("svg.drawn").bounding_box()["width"] > 1_700


QUESTIONS: Final = (("L1", 1), ("L1", 4), ("L2", 1), ("L3", 1), ("L4", 1), ("L5", 2), ("L9", 1))


@pytest.mark.parametrize(("name", "part"), QUESTIONS)
def test_while_a_question_is_open_no_view_and_no_title_tells_its_answer(
    name: str, part: int, *, server: TxnsimServer, new_page: Any
) -> None:
    """What the judge says, and what the run has shown so far, stands on no view, title or tab."""
    page = new_page(f"{server.http}/#lesson={name}&part={part}")
    page.wait_for_selector("[name=guess]")
    page.wait_for_function("() => !__page['store.js'].isRunBusy.value")
    page.wait_for_function("() => __page['store.js'].judgedMoment.value.serverExplanation")
    verdict = page.evaluate("__page['store.js'].judgedMoment.value.serverExplanation.verdict")
    answers = [verdict["headline"]] if verdict["state"] != "healthy" else []
    for judged in verdict["partitions"]:
        answers += [judged["summary"], judged["holder_mark"], *judged["sentences"]]
    title = lessons()[name].title
    for key in ("1", "2", "3", "4", "5", "6", "7", "8", "9", "s", "s", "1"):
        page.keyboard.press(key)
        page.wait_for_function("() => document.querySelector('main .view')")
        page_text = page.inner_text("body") + page.title() + page.content()
        assert [answer for answer in answers if answer and answer in page_text] == []
        assert key == "8" or title not in page.inner_text("body")  # a title may tell it
        assert key not in "234567" or page.locator("#hidden-view").count() == 1
        assert page.locator("tr.hangs, tr.waits, tr.open, .batch.wrong-data").count() == 0
    assert page.locator("#lesson h2").inner_text().startswith(f"{name} part")
    assert "Watch for" in page.inner_text("#lesson")


HOUSE_WORDS: Final = re.compile(r"(?<![\w/])(?:V[-+]|TV2\+?|z\d\d|[Zz]oo)(?![\w-])")
"""Labels of runs and numbers of stories: commands take them, and no stranger knows them."""


def test_no_view_has_the_words_of_the_house(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    page.wait_for_selector(".first")
    texts = [page.inner_text("body")]
    page.evaluate("__page['api.js'].playRun('z01', 'V-', 'armed')")
    page.wait_for_selector("#verdict[data-verdict=hangs]")
    for key in ("1", "2", "3", "4", "5", "6", "7", "8", "9", "?"):
        page.keyboard.press(key)
        page.wait_for_function(
            "() => !/Reading the (scenarios|lessons)/.test(document.body.innerText)"
        )
        texts.append(page.inner_text("body") + page.title())
    assert [word for text in texts for word in HOUSE_WORDS.findall(text)] == []
    assert not any("its readers" in text.lower() for text in texts)
