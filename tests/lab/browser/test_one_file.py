"""The page in one file: it opens from disk, and asks the network for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.browser.conftest import recorded
from txnsim_lab.http.page.one_file import one_file

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture
def open_file(new_page: Any, tmp_path: Path) -> Any:
    """Opens a page of runs from disk, with no network."""

    def opened(*runs: str, redacts: bool = False) -> Page:
        path = tmp_path / "run.html"
        named_recordings = [(f"z01 {run_name}", recorded("z01", run_name)) for run_name in runs]
        path.write_text(one_file(named_recordings, redacts=redacts), encoding="utf-8")
        urls: list[str] = []
        page: Page = new_page(path.as_uri(), offline=True, urls=urls)
        assert [url for url in urls if not url.startswith(("file:", "data:"))] == []
        return page

    return opened


def test_it_opens_where_the_transaction_hangs_and_says_why(open_file: Any) -> None:
    page = open_file("V-")
    page.wait_for_selector(".cause.hangs")
    assert "its coordinator will send no marker here" in page.inner_text("#why")
    assert "The judges found stuck-last-stable-offset" in page.inner_text(".notices")
    assert "This file holds record values." in page.inner_text("header")


def test_every_moment_is_explained_while_the_cursor_moves(open_file: Any) -> None:
    page = open_file("V-")
    page.wait_for_selector(".cause.hangs")
    page.keyboard.press("End")
    page.wait_for_selector(".cause.healthy")
    page.keyboard.press("3")
    page.keyboard.press("5")
    page.keyboard.press("/")
    page.wait_for_function("() => document.activeElement.id === 'query'")
    page.keyboard.type("kind:client.deliver after-1")
    page.wait_for_selector("[role=status]:has-text('3 of')")


def test_runs_of_one_file_are_chosen_by_name(open_file: Any) -> None:
    page = open_file("V-", "TV2")
    page.wait_for_selector(".cause.hangs")
    page.select_option("#run", label="z01 TV2")
    page.wait_for_selector(".cause.healthy")
    assert "The judges found" not in page.inner_text(".notices")


def test_a_redacted_file_shows_no_value(open_file: Any) -> None:
    page = open_file("V-", redacts=True)
    assert "Record values are left out" in page.inner_text("header")
    assert page.evaluate("JSON.stringify(__sim.events).includes('after-1')") is False
