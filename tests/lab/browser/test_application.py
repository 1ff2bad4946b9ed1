"""The third believer: of a transaction an application knows what it was answered, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException, Producer

from tests.lab.browser.test_one_moment import ask
from tests.lab.browser.test_stage import play_run
from tests.support.txnsim_server import TxnsimServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_the_stage_says_where_the_application_was_told_otherwise(
    server: TxnsimServer, new_page: Any
) -> None:
    """Coordinator and partition agree here, so the page once said that all was well."""
    page = new_page(server.http)
    play_run(page, "z05", "V+")
    page.keyboard.press("End")
    page.wait_for_selector("#verdict[data-verdict=wrong-data]")


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
    wait_until_known(page, "shop The application asked to commit, and knows that it is committed.")
    one_record(client)
    wait_until_known(page, "shop The application has not asked to end it.")
    rule = {"id": "unheard", "point": "client.response", "api": "EndTxn", "limit": 1}
    ask(fresh_server, "faults", rule | {"action": {"do": do}})
    if do == "disconnect":  # it asks again at once, and is answered
        client.commit_transaction()
        wait_until_known(
            page, "shop The application asked to commit, and knows that it is committed."
        )
        return
    with pytest.raises(KafkaException):
        client.commit_transaction(1)
    wait_until_known(page, "shop The application asked to commit, and has no answer.")


def one_record(client: Producer) -> None:
    client.begin_transaction()
    client.produce("orders", b"one", partition=0)
    client.flush()


def wait_until_known(page: Page, expected_text: str) -> None:
    page.wait_for_selector(f".knows:has-text('{expected_text}')")
