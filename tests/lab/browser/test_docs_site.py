"""The documents as a site, in Chromium: opened from disk, and served below a path."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests import docs_site
from tests.lab.browser.conftest import PATIENCE_MS
from tests.lab.browser.test_site import serve_folder
from tests.support.site import built_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

QUESTIONS: Final = {  # what a newcomer wants to know: what is typed, and the page that answers
    "How do I get a cluster in a test?": ("pytest fixture", "docs/testing.html"),
    "How do I lose a marker in a test?": ("lose a marker", "docs/testing.html"),
    "Can I use it from Rust?": ("rust", "helpers/any/index.html"),
    "How do I test a Spring application?": ("spring kafka", "docs/recipes/spring.html"),
    "Is my client library right?": ("check client library", "docs/exam.html"),
    "Which versions of an API does it know?": ("api versions", "docs/apis.html"),
    "Why does my consumer stand still?": ("consumer stuck", "docs/troubleshooting.html"),
    "Which alert tells me?": ("prometheus alert", "docs/monitoring.html"),
    "Is there something for my class?": ("lessons class", "docs/teaching.html"),
    "What changes with transactions v2?": ("transactions v2", "docs/transactions.html"),
    "What does this error mean?": ("INVALID_PRODUCER_ID_MAPPING", "docs/troubleshooting.html"),
    "And this exception?": ("FencedInstanceIdException", "docs/troubleshooting.html"),
    "And this message?": ("awaiting InitProducerId", "docs/troubleshooting.html"),
    "How do I run it in CI?": ("github actions", "docs/in-ci.html"),
}
"""Written before the site was; two for each reader."""
SHOWN: Final = 5
"""Results that are seen without scrolling."""
RESULTS: Final = "dialog[aria-label=Search] a[role=option]"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that contains the built site."""
    parent_folder = tmp_path_factory.mktemp("documents")
    docs_site.build(parent_folder / "project", built_site())
    return parent_folder


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def search(page: Page, query: str) -> list[str]:
    """The first results, by a click into the search and typing."""
    page.locator(".md-search__button").click()
    page.get_by_role("combobox").fill(query)
    page.locator(RESULTS).first.wait_for()
    return [
        str(link_locator.get_attribute("href"))
        for link_locator in page.locator(RESULTS).all()[:SHOWN]
    ]


def test_twelve_questions_are_answered_from_disk_by_two_clicks(site: Path, page: Page) -> None:
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    unanswered_questions = {}
    for question, (question_words, answer_text) in QUESTIONS.items():
        page.goto((site / "project/index.html").as_uri())
        links = search(page, question_words)
        direct = [link for link in links if f"/{answer_text}?" in link]
        by_index = [link for link in links if "/docs/index.html?" in link]
        if not direct + by_index:
            unanswered_questions[question] = links
            continue
        page.locator(f'{RESULTS}[href="{(direct + by_index)[0]}"]').click()
        if not direct:
            page.locator(f'article a[href="{Path(answer_text).name}"]').first.click()
        page.wait_for_url(f"**/{answer_text}*")
        assert page.locator("article h1").count() == 1
    assert unanswered_questions == {}
    assert {url.partition(":")[0] for url in urls} == {"file"}


def test_a_story_plays_where_the_site_is_served_and_says_the_command_on_disk(
    site: Path, page: Page
) -> None:
    page.goto((site / "project/docs/transactions.html").as_uri())
    page.get_by_role("link", name="z01 V-").first.click()
    page.get_by_text("python -m http.server", exact=True).wait_for()
    with serve_folder(site) as url:
        page.goto(f"{url}project/docs/testing.html")
        assert search(page, "prometheus alert")[0].startswith(f"{url}project/docs/monitoring.html?")
        page.goto(f"{url}project/docs/transactions.html")
        page.get_by_role("link", name="z01 V-").first.click()
        page.locator(".title", has_text="· without verification").wait_for()
        page.get_by_text("The judges found").wait_for()


def test_the_site_is_whole_without_what_it_was_made_of(site: Path, tmp_path: Path) -> None:
    moved_site_folder = shutil.copytree(site / "project", tmp_path / "elsewhere")
    assert list(docs_site.dead_links(moved_site_folder)) == []
