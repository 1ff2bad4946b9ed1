"""What a page of a stranger can do to a simulator on the machine of whoever opens it: nothing.

By a name of its own that leads to this machine later (DNS rebinding), and from another place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from tests.lab.browser.conftest import CHROMIUM
from tests.support.txnsim_server import TxnsimServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.browser

NAME: Final = "stranger.example"
TRY: Final = """async ({base, mode}) => {
  const ask = async (path, options) => {
    try {
      const answer = await fetch(base + path, {mode, ...options});
      return [answer.type === "opaque" ? "opaque" : answer.status, answer.type === "opaque" ? "" : await answer.text()];
    } catch (error) {
      return ["failed", String(error)];
    }
  };
  const plain = {method: "POST", headers: {"Content-Type": "text/plain"}};
  return [
    await ask("/api/v1/cluster", {}),
    await ask("/api/v1/trace", {}),
    await ask("/api/v1/brokers/1/kill", {...plain, body: "{}"}),
    await ask("/api/v1/topics", {...plain, body: '{"name": "theirs"}'}),
    await ask("/api/v1/clock", {...plain, body: '{"advance_ms": 1000}'}),
    await ask("/api/v1/faults", {method: "DELETE"}),
  ];
}"""  # noqa: E501 - a line of JavaScript


@pytest.fixture
def server() -> Iterator[TxnsimServer]:
    with TxnsimServer(arguments=("--http", "0", "--topic", "ours:1")) as txnsim_server:
        yield txnsim_server


@pytest.fixture
def led_astray(browser: Browser) -> Iterator[Browser]:
    """A browser for which the stranger's name has this machine's address by now."""
    resolved = f"--host-resolver-rules=MAP {NAME} 127.0.0.1"
    # Newer ones refuse by themselves: here the simulator alone has to.
    unguarded = "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"
    launched_browser = browser.browser_type.launch(
        executable_path=CHROMIUM,
        args=["--disable-gpu", "--disable-dev-shm-usage", resolved, unguarded],
    )
    yield launched_browser
    launched_browser.close()


def test_a_page_by_a_name_that_leads_here_later_gets_nothing(
    server: TxnsimServer, led_astray: Browser
) -> None:
    port = server.ready["http"].rsplit(":", 1)[1]
    page = open_strangers_page(led_astray, f"http://{NAME}:{port}/stranger")
    answers = page.evaluate(TRY, {"base": "", "mode": "cors"})
    assert [status for status, _ in answers] == [400] * 6, answers
    assert all("this port is called by" in text for _, text in answers)
    assert as_it_was(server)


def test_a_page_of_another_place_gets_nothing(server: TxnsimServer, led_astray: Browser) -> None:
    page = open_strangers_page(led_astray, "http://127.0.0.1:1/stranger")
    for mode in ("cors", "no-cors"):
        answers = page.evaluate(TRY, {"base": server.ready["http"], "mode": mode})
        answers_seen = {status for status, _ in answers[2:]}
        assert answers_seen <= {"failed", "opaque"}, "it may send, and learns nothing"
        assert as_it_was(server)
    broker = f"http://{server.bootstrap.split(',')[0]}"
    answers = page.evaluate(TRY, {"base": broker, "mode": "no-cors"})
    assert {status for status, _ in answers} == {"failed"}, "HTTP is no frame of Kafka's"
    assert as_it_was(server)


def open_strangers_page(browser: Browser, url: str) -> Page:
    """The stranger's page, as its own server would have sent it."""
    page = browser.new_page()

    def answer(route: Route) -> Any:
        return route.fulfill(body="<title>a stranger</title>", content_type="text/html")

    page.route(url, answer)
    page.goto(url)
    assert page.title() == "a stranger"
    return page


def as_it_was(server: TxnsimServer) -> bool:
    with httpx.Client(base_url=server.ready["http"]) as client:
        cluster = client.get("/api/v1/cluster").json()
        topics = [topic["name"] for topic in client.get("/api/v1/topics").json()]
    return cluster["brokers_running"] == 3 and topics == ["ours"]
