"""The third believer: of a transaction an application knows what it was answered, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import KafkaException, Producer

from tests.lab.browser.test_one_moment import ask
from tests.lab.browser.test_stage import play_run
from tests.support.txnsim_server import TxnsimServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PLAYED: Final = "async ([name, run]) => __page['api.js'].playRun(name, run, 'armed')"
KNOWN: Final = """(id) => {
  const { application } = __page["application.js"];
  const { transactionsOf, events } = __page["store.js"];
  const told = [];
  for (let n = 0; n < events.length; n += 1) {
    const some = transactionsOf(id).filter(({ index }) => index <= n);
    const so = some.map((t) => `${t.number} ${application(t, n).text}`).join("; ");
    if (so && so !== told.at(-1)) told.push(so);
  }
  return told;
}"""
ASKED: Final = "does not know: it asked to"


@pytest.mark.parametrize(
    ("name", "run", "expected_lines"),
    [
        ("z01", "V-", ["1 is open", f"1 {ASKED} abort, and has no answer", "1 is aborted ✓"]),
        # Coordinator and partitions have ended its second transaction otherwise.
        (
            "z05",
            "V+",
            [
                "1 is open",
                f"1 {ASKED} commit, and has no answer",
                f"1 {ASKED} commit, and got CONNECTION_LOST",
                f"1 {ASKED} commit, and has no answer",
                "1 is committed ✓",
                "1 is committed ✓; 2 is open",
                "1 is committed ✓; 2 is open; 3 is open",
                f"1 is committed ✓; 2 {ASKED} abort, and has no answer; 3 {ASKED} abort, and has no"
                " answer",
                "1 is committed ✓; 2 is aborted ✓; 3 is aborted ✓",
            ],
        ),
        # A commit that was lost on its way.
        (
            "z24",
            "TV2",
            [
                "1 is open",
                f"1 {ASKED} commit, and has no answer",
                f"1 {ASKED} commit, and got CONNECTION_LOST",
                f"1 {ASKED} commit, and has no answer",
                "1 is committed ✓",
            ],
        ),
    ],
)
def test_an_application_knows_what_it_was_answered(
    server: TxnsimServer, new_page: Any, name: str, run: str, expected_lines: list[str]
) -> None:
    page = new_page(server.http)
    page.evaluate(PLAYED, [name, run])
    assert page.evaluate(KNOWN, "app") == expected_lines


def test_the_stage_says_where_the_application_was_told_otherwise(
    server: TxnsimServer, new_page: Any
) -> None:
    """Coordinator and partition agree: it said that all is well."""
    page = new_page(server.http)
    play_run(page, "z05", "V+")
    page.keyboard.press("End")
    page.wait_for_selector("#verdict[data-verdict=healthy]")
    assert page.inner_text("#verdict").startswith(
        "The application believes otherwise. For it app/2 is aborted ✓. For coordinator and"
        " partitions it is committed."
    )
    assert "app/2 is aborted ✓" in page.locator(".knows.other").all_inner_texts()


@pytest.mark.parametrize("do", ["drop", "hold", "disconnect"])
def test_a_stock_client_knows_nothing_of_an_answer_that_it_did_not_get(
    fresh_server: TxnsimServer, new_page: Any, do: str
) -> None:
    page = new_page(fresh_server.http)
    page.wait_for_selector(".link-state.live")
    client = Producer(
        {
            "bootstrap.servers": fresh_server.bootstrap,
            "transactional.id": "shop",
            "log_level": 0,
        }
    )
    client.init_transactions()
    one_record(client)
    client.commit_transaction()
    is_known(page, "shop/1 is committed ✓")
    one_record(client)
    is_known(page, "shop/2 is open")
    rule = {"id": "unheard", "point": "client.response", "api": "EndTxn", "limit": 1}
    ask(fresh_server, "faults", rule | {"action": {"do": do}})
    if do == "disconnect":  # it asks again at once, and is answered
        client.commit_transaction()
        is_known(page, "shop/2 is committed ✓")
        knowledge = page.evaluate(KNOWN, "shop")
        assert f"1 is committed ✓; 2 {ASKED} commit, and has no answer" in knowledge
        return
    with pytest.raises(KafkaException):
        client.commit_transaction(1)
    is_known(page, "shop/2 does not know: it asked to commit, and has no answer")
    page.wait_for_selector("#verdict:has-text('The application does not know.')")


def one_record(client: Producer) -> None:
    client.begin_transaction()
    client.produce("orders", b"one", partition=0)
    client.flush()


def is_known(page: Page, words: str) -> None:
    page.wait_for_selector(f".knows:has-text('{words}')")
