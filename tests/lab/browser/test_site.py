"""The site of ``txnsim site build`` in Chromium: served by a plain file server below a path, then
with the server gone.
"""

from __future__ import annotations

import functools
import re
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.browser.conftest import recorded
from tests.lab.browser.test_lessons import OTHERS, play_first_lesson, play_lesson, press, run_aside
from tests.support.site import built_site
from txnsim_lab.http.page.one_file import one_file
from txnsim_lab.http.site.build import PACKED
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.scenario_reader import read

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.nightly]  # it is built first, by npm and pip

READY_MS: Final = 120_000
EXPLAINED: Final = """() => {
  const found = __sim.explained.value;
  return found && !found.error && found.at === __sim.events[__sim.at.value].i;
}"""
STORIES: Final = (
    *(
        ("z01", "V-"),
        ("z05", "V+"),
        ("z12", "V-/before"),
        ("z16", "V-"),
        ("z21", "TV2"),
        ("z26", "V-/before"),
        ("z35", "TV2"),
        ("z36", "TV2"),
    ),
)
"""Applications, requests by hand, a reload, a cleaner, markers, positions, share groups."""
KEPT_FILES: Final = """async () => {
  const [name] = await caches.keys();
  const all = await (await caches.open(name)).keys();
  return all.map(({ url }) => new URL(url).pathname.split("/").at(-1));
}"""
NO_WASM: Final = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"


@contextmanager
def serve_folder(folder: Path, headers: dict[str, str] | None = None) -> Iterator[str]:
    """A file server on loopback, which ends with the block."""

    class Handler(SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            for header_name, header_value in (headers or {}).items():
                self.send_header(header_name, header_value)
            super().end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    handler = functools.partial(Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder above the site, which is below a path as project pages are."""
    parent_folder = tmp_path_factory.mktemp("pages")
    shutil.copytree(built_site(), parent_folder / "project")
    return parent_folder


def play_z01(page: Page) -> None:
    page.locator("#all-stories").click()
    page.get_by_role("button", name="✖ without verification", exact=False).first.wait_for()
    page.locator("#stop-first").check()
    row = page.locator("[data-story~=z01]")
    row.locator("button", has_text="without verification").first.click()
    page.get_by_text("Next, step 1 of").wait_for(timeout=READY_MS)


def test_the_front_page_is_the_first_screen_with_licence_source_and_a_plan(
    site: Path, new_page: Callable[..., Page]
) -> None:
    with serve_folder(site) as url:
        page = new_page(f"{url}project/")
        page.locator(".first svg.drawn").wait_for()
        assert page.locator("footer").is_hidden()
        licence = page.request.get(f"{url}project/LICENSE.txt").text()
        assert "Apache License" in licence
        with page.expect_download() as saving:
            page.get_by_role("link", name="Source").click()
        with tarfile.open(saving.value.path()) as source:
            names = source.getnames()
        assert {"txnsim/LICENSE", "txnsim/txnsim/txn/machine.py"} <= set(names)
        # The zoo is behind it, and says what its columns are.
        page.locator("#all-stories").click()
        page.locator(".generations dt", has_text="strict markers").wait_for()
        page.locator("nav button", has_text="Picture").click()
        page.locator("#plan summary").click()
        page.locator("#plan a", has_text="L1").click()
        page.get_by_text("part 1 of").wait_for(timeout=READY_MS)
        page.locator("#lesson-leave").click()
        page.locator("#practise").click()
        page.get_by_text("step 1 of 9").wait_for(timeout=READY_MS)


def test_a_story_is_played_driven_and_taken_back(site: Path, new_page: Callable[..., Page]) -> None:
    urls: list[str] = []
    with serve_folder(site) as url:
        page = new_page(f"{url}project/", urls=urls)
        play_z01(page)
        page.locator("#step").click()
        page.get_by_text("Next, step 2 of").wait_for(timeout=READY_MS)
        page.locator("#back").click()
        page.get_by_text("Next, step 1 of").wait_for(timeout=READY_MS)
        page.locator("#to-end").click()
        page.get_by_text("The judges found").wait_for(timeout=READY_MS)
        page.wait_for_function(EXPLAINED, timeout=READY_MS)
        assert {url.split("/")[2] for url in urls if "://" in url} == {url.split("/")[2]}


def test_without_a_network_stories_are_told_and_the_first_lesson_is_played_by_keyboard(
    site: Path, new_page: Callable[..., Page], tmp_path: Path
) -> None:
    # Nothing comes from the browser's own cache: only the service worker has the files.
    with serve_folder(site, {"Cache-Control": "no-store"}) as url:
        # With the server gone the browser says that it found no newer service worker.
        visited_page = new_page(f"{url}project/", expects=("when fetching the script",))
        wait_until_kept(visited_page)
        names = visited_page.evaluate(
            KEPT_FILES
        )  # unpacked: the browser keeps compiled code of such
        assert set(PACKED) <= set(names)
        assert not set(PACKED.values()) & set(names)
    page = visited_page.context.new_page()  # the server is gone
    page.goto(f"{url}project/")
    page.locator(".first").wait_for()
    for alias, run_name in STORIES:
        page.locator("nav button", has_text="Stories").click()
        row = page.locator(f"[data-story~={alias}]")
        row.locator(f"[data-run='{run_name}']").click()
        page.locator(".title", has_text=scenario_of(alias).title).wait_for()
        page.locator(".link-state.done").wait_for()
        rules = page.evaluate("() => __page['store.js'].violations.value.map((one) => one.d.rule)")
        verdict = scenario_of(alias).runs[run_name].verdict
        assert sorted(set(rules)) == sorted(verdict)
    page.locator("nav button", has_text="Stories").click()

    def see_story() -> None:
        with page.expect_download() as saving:
            press(page, "#lesson-save")
        path = tmp_path / "my-l1.yaml"
        saving.value.save_as(path)
        own_scenario = read(str(path), path.read_text("utf-8"))
        assert run_aside(
            run_in_virtual_time, ScenarioRun(scenario=own_scenario, run="V-")
        ).as_declared

    play_first_lesson(page, see_story)


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_lesson_is_played_by_keyboard_to_its_end(
    name: str, site: Path, new_page: Callable[..., Page]
) -> None:
    with serve_folder(site) as url:
        play_lesson(new_page(f"{url}project/"), name)


def test_lessons_that_need_a_cluster_are_named_and_not_offered(
    site: Path, new_page: Callable[..., Page]
) -> None:
    with serve_folder(site) as url:
        page = new_page(f"{url}project/#lesson=L10&part=0")  # a link from elsewhere
        page.get_by_role("alert").get_by_text("txnsim lesson L10 starts one").wait_for()
        page.locator("#all-stories").click()
        elsewhere_link_locator = page.locator("#lessons-elsewhere").first
        elsewhere_link_locator.wait_for()
        assert "L10 and L11 need a cluster" in elsewhere_link_locator.inner_text()
        assert page.locator("#lesson-L9").count() == 1
        assert page.locator("#lesson-L10").count() == 0


def scenario_of(alias: str) -> Scenario:
    return catalog.find(alias)[1]


def test_a_story_is_written_a_trace_and_a_report_are_opened_and_all_is_accessible(
    site: Path, new_page: Callable[..., Page], tmp_path: Path, axe: str
) -> None:
    recording = recorded("z01", "V-")
    trace_file, report_file = tmp_path / "run.jsonl", tmp_path / "run.html"
    trace_file.write_bytes(recording.to_lines())
    report_file.write_text(one_file([("z01 in a file", recording)]), "utf-8")
    violations: dict[str, list[str]] = {}

    def look(name: str) -> None:
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            result = page.evaluate("axe.run({ resultTypes: ['violations'] })")
            for violation_rule in result["violations"]:
                violations[f"{name} {theme} {violation_rule['id']}"] = [
                    node["html"] for node in violation_rule["nodes"]
                ][:3]

    with serve_folder(site) as url:
        page = new_page(f"{url}project/", bypass_csp=True)
        page.evaluate(axe)
        page.locator(".first").wait_for()
        look("first screen")
        page.locator("#all-stories").click()
        page.locator("table.zoo").wait_for()
        look("zoo")
        page.locator("nav button", has_text="Write a story").click()
        page_text_locator = page.locator("#story-text")
        page.wait_for_function("() => document.querySelector('#story-text').value.length > 0")
        own_text = page_text_locator.input_value()
        page_text_locator.fill(own_text.replace("    mode: V-\n", "    mode: V9\n", 1))
        page.locator("#story-play").click()
        page.locator("#story-wrong li").first.wait_for()
        line = own_text.splitlines().index("    mode: V-") + 1
        assert f"line {line}: " in page.locator("#story-wrong").inner_text()
        look("wrong story")
        page_text_locator.fill(own_text.replace("name: late-produce-after-abort", "name: mine", 1))
        page.locator("#story-play").click()
        page.locator("#story-told .right").first.wait_for()
        assert page.locator("#story-told .wrong").count() == 0
        look("told story")
        page.locator("#story-told button", has_text="without verification").first.click()
        page.locator(".title", has_text="· without verification").wait_for()
        for file, title in ((trace_file, "run.jsonl"), (report_file, "z01 in a file")):
            page.locator("nav button", has_text="Stories").click()
            page.locator("#open-file").set_input_files(file)
            page.locator(".title", has_text=title).wait_for()
            page.wait_for_function(EXPLAINED)
            assert page.evaluate("() => __sim.events.length") == len(recording.events)
            look(title)
        page.locator("nav button", has_text="Stories").click()
        page.locator("#seed").fill("7")
        row = page.locator("[data-story~=z05]")
        row.locator("button").first.click()
        page.locator(".title", has_text="A delayed commit tears the next transaction").wait_for()
        assert "seed 7" in page.locator(".title").inner_text()
        page.locator("nav button", has_text="Stories").click()
        page.locator("#lesson-L0").click()  # a file was shown before
        page.locator("#lesson p").first.wait_for()
        look("lesson")
    assert violations == {}


def test_a_link_of_the_page_on_the_site_opens_its_story_where_it_is_decided(
    site: Path, new_page: Callable[..., Page]
) -> None:
    page_text = (Path(__file__).parents[3] / "docs" / "site.md").read_text("utf-8")
    link = re.search(r"`(#run=z01&label=V-[^`]*)`", page_text)
    assert link is not None
    with serve_folder(site) as url:
        page = new_page(f"{url}project/{link[1]}")
        page.get_by_text("The judges found").wait_for()
        page.wait_for_function(EXPLAINED)
        decided = "() => __page['store.js'].indexOfPosition(__page['store.js'].telltalePosition())"
        assert page.evaluate("() => __sim.at.value") == page.evaluate(decided)


def wait_until_kept(page: Page) -> None:
    """Wait until the files are kept for a visit without a network."""
    page.evaluate("() => navigator.serviceWorker.ready.then(() => null)")


def test_where_webassembly_is_refused_the_page_says_so(
    site: Path, new_page: Callable[..., Page]
) -> None:
    with serve_folder(site, {"Content-Security-Policy": NO_WASM}) as url:
        page = new_page(f"{url}project/", expects=("WebAssembly", "Content Security Policy"))
        page.get_by_role("alert").get_by_text("can't run in this browser").wait_for()
