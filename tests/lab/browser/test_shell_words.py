"""A line that the page offers for a shell has each name as one word, whoever has made the trace."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.txnsim_server import TxnsimServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

HOSTILE: Final = (
    "plain-name",
    "",
    "a b",
    "x; rm -rf ~",
    "$(touch here)",
    "`touch here`",
    "it's",
    "'; touch here; '",
    "a\nb",
    'say "so"',
    "--flag=*",
    "\\",
    "ä ü 漢字",
)


@pytest.fixture
def page(server: TxnsimServer, new_page: Any) -> Page:
    """A page, for its modules."""
    new_tab: Page = new_page(server.http)
    return new_tab


def test_each_text_is_one_word_of_a_shell(page: Page) -> None:
    words = page.evaluate('(texts) => texts.map(__page["share.js"].shellWord)', list(HOSTILE))
    assert [shlex.split(word) for word in words] == [[text] for text in HOSTILE]


def test_the_command_of_a_run_has_no_other_words(page: Page) -> None:
    for text in HOSTILE:
        run_words = {"name": text, "run": text, "take": text, "seed": text}
        command = page.evaluate('(one) => __page["share.js"].scenarioArguments(one)', run_words)
        assert shlex.split(command) == [text, "--mode", text, f"--{text}", "--seed", text]
