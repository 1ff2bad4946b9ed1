"""The way of somebody who has read nothing: each step is taken because the screen names it.

From the address that ``txnsim serve --ui`` prints to a transaction that hangs, the reason, and the
repair. Where people stumbled, a step here asks for what was mended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.browser.conftest import make_hang
from tests.support.txnsim_server import TxnsimServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

CLICKS_MAX: Final = 25
"""Ten minutes are enough for so many decisions, with reading in between."""
TERMS: Final = """() => [...document.querySelectorAll(
  "main .view th, main .view caption, main .view dt, main .view h2, main .cause, nav button"
)].map(({ firstChild }) => (firstChild?.nodeName === "#text" ? firstChild.nodeValue.trim() : ""))
  .filter(Boolean)"""
PLAIN: Final = {
    *("a moment ago", "why does the reader wait?", "does a reader wait?"),
    *("see what happens to kafka transactions, step by step", "no fault rule is in force"),
    *("still to arrive", "to be ended by"),
    # Sentences and everyday words; what they name stands in the list of words as well.
    *("do", "rule", "arm a rule", "broker", "brokers", "partitions", "what happens", "none"),
    *("reading …", "not yet on all replicas", "marker not replicated"),
    *("why is the last stable offset here?", "the last move, and what caused it", "scenarios"),
    *("no transaction holds readers back", "the marker is still owed", "nothing is written yet"),
    *("or learn how it works", "move the leader to", "producers by partition"),
    *(
        "the application believes",
        "the application knows",
        "the coordinator believes",
        "not there yet",
        "the partition believes",
    ),
    *("the coordinator says", "the partition says"),
    *("✖ ✓",),
    *(
        "fault rules in force",
        "faults",
        "scenarios",
        "stories",
        "stories and lessons",
        "write a story",
    ),
}


class Newcomer:
    """Clicks what the screen names, and counts."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    def choose(self, button_name: str) -> None:
        self.page.get_by_role("button", name=button_name).first.click()
        self.clicks += 1

    def sees(self, expected_text: str, selector: str = "body") -> None:
        self.page.locator(selector).filter(has_text=expected_text).first.wait_for()


def test_from_the_address_to_a_hang_its_reason_and_its_repair(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    me = Newcomer(new_page(fresh_server.http))
    # It was not said where a client has to connect to.
    me.sees(f"bootstrap.servers={fresh_server.bootstrap.split(',')[0]}")
    # The cluster's own first event, "input", with "args {}" and a long number, greeted everybody.
    assert me.page.locator("aside").is_hidden()
    me.choose("Watch it happen")
    me.sees("step 1 of 6", ".step-of")
    for number in range(2, 7):
        me.choose("step ▶")
        me.sees(f"step {number} of 6", ".step-of")
    me.sees("hanging transaction", "#why")
    me.sees("so they do not get the last 2 offsets", "#why")
    me.sees("its coordinator will send no marker here", "#why")
    # Coordinator and partition stood on two tabs: that they disagree was read nowhere.
    me.sees(
        "billing hangs on orders-0: readers get nothing from offset 1 on",
        "#verdict",
    )
    # Why verification prevents it stood in a step that never happens.
    me.sees("How to prevent it: compare", ".story")
    # What to do on a cluster of one's own stood nowhere.
    me.sees("PartitionsWithLateTransactionsCount", "#at-work")
    me.sees("abort --topic orders --partition 0 --start-offset 1", "#at-work")
    me.sees("raise transaction.version to 2", "#at-work")
    # What the button had done was nowhere told.
    me.sees("The ABORT marker is written", ".story")
    # What a marker is to readers stood nowhere. That others' records wait too was not seen.
    me.sees("a record that tells readers how billing/1 has ended", ".story")
    me.sees("read_committed consumers stop at offset 1", ".readers")
    me.sees("“paid”", ".tape .unread")
    # Who looked up a word, and then chose a view, went on seeing the words.
    me.choose("Help")
    me.sees("An open transaction on a partition that no marker of its coordinator will ever end")
    me.choose("Producers and groups")
    me.sees("transactional id billing is Empty without this partition", "tr.hangs")
    me.choose("Picture")
    # Fields of an event came in another order each time.
    order = "[...document.querySelectorAll('#event table th')].map((one) => one.textContent)"
    fields = me.page.evaluate(order)
    assert fields == sorted(fields)
    # "pid.open" explained nothing: each kind of event has a sentence now.
    me.choose("pid.open")
    me.sees("a producer opened a transaction on a partition", "aside")
    me.choose("Now")
    me.choose("End it: write ABORT")
    me.sees("No transaction holds readers back", "#why")
    me.sees("ABORT marker", ".tape")
    me.sees("No transaction holds readers back", "#verdict")
    # It was refused a second time.
    me.choose("Make another one hang")
    me.sees("step 7 of 12", ".step-of")
    me.choose("Now")
    me.sees("billing-2 hangs", "#verdict")
    # Lessons were found by nobody: they stood in a view called Zoo.
    me.choose("Stories and lessons")
    me.sees("L1: A produce that comes late")
    me.page.wait_for_selector("table.zoo")  # the server does not end while it reads the scenarios
    assert me.clicks < CLICKS_MAX
    # Runs in virtual time logged among the lines of the server, with dates of years ago.
    assert "2023-11-14" not in fresh_server.log_text


def test_every_term_on_the_screen_is_among_the_words(
    fresh_server: TxnsimServer, new_page: Any
) -> None:
    page = new_page(fresh_server.http)
    terms = set(page.evaluate(TERMS))
    make_hang(page)
    page.wait_for_selector(".cause.hangs")
    for number in range(1, 9):
        page.keyboard.press(str(number))
        if number == 8:
            page.wait_for_selector("table.zoo")
        terms |= set(page.evaluate(TERMS))
    known_terms = page.evaluate("Object.keys(__page['words.js'].WORD_MEANINGS)")
    known_words = {part.lower() for term in known_terms for part in term.split(", ")} | {
        *known_terms,
        *PLAIN,
    }
    terms_in_lower_case = {term_word.lower() for term_word in terms}
    missing = {
        term
        for term in terms_in_lower_case
        if term not in known_words
        and not any(
            term in (f"{known_word}s", known_word.removesuffix("s")) for known_word in known_words
        )
    }
    assert sorted(missing) == []


def test_verdicts_and_states_are_among_the_words(server: TxnsimServer, new_page: Any) -> None:
    page = new_page(server.http)
    page.keyboard.press("8")
    page.wait_for_selector("table.zoo")
    verdicts = {
        word
        for page_text in page.locator(".run small").all_inner_texts()
        for word in page_text.split(", ")
        if word != "healthy"
    }
    page.keyboard.press("?")
    words_text = page.inner_text(".words")
    assert [
        verdict_word for verdict_word in sorted(verdicts) if verdict_word not in words_text
    ] == []
    for state in ("Ongoing", "PrepareCommit", "CompleteAbort", "PrepareEpochFence", "Dead"):
        assert state in words_text
