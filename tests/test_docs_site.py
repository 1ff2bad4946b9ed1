"""The documents as a site: no link of it leads nowhere, and nothing comes from another host."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests import docs_site
from tests.docs import ROOT
from txnsim_lab.troubleshooting import page_file, read_sections

TROUBLES: Final = "docs/troubleshooting.html"


@pytest.mark.costly
@pytest.mark.slow
def test_no_link_of_the_site_is_dead_and_nothing_comes_from_elsewhere(tmp_path: Path) -> None:
    site_folder = tmp_path / "site"
    docs_site.build(site_folder, simulator_folder=None)
    assert sorted(docs_site.dead_links(site_folder)) == []
    pages = list(site_folder.rglob("*.html"))
    assert len(pages) > 90
    for page in pages:
        loaded_urls = re.findall(
            r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(https?:[^\" >]+)",
            page.read_text("utf-8"),
        )
        assert loaded_urls == [], page
    index = json.loads((site_folder / "search.json").read_text("utf-8"))["items"]
    searched = html.unescape(
        " ".join(
            f"{entry['title']} {entry['text']}" for entry in index if TROUBLES in entry["location"]
        )
    )
    for section in read_sections(page_file().read_text("utf-8")):
        missing = [word for word in section.words if word not in searched]
        assert missing == [], f"no search finds {section.title} by these"


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="b.html#gone">b</a><a href="c.html">c</a>'
    )
    (tmp_path / "b.html").write_text('<a href="a.html#top">a</a><img src="d.png">')
    assert list(docs_site.dead_links(tmp_path)) == [
        "a.html: b.html#gone", "a.html: c.html", "b.html: d.png",
    ]  # fmt: skip


def test_links_fit_the_site() -> None:
    page_file = Path("docs/a.md")
    page_text = (
        "[rules](../sim/txnsim/txn/state.py), [x](b.md#c), [dir](../tests/recipes/streams)\n"
        "A story (`z01 V-`).\n\n```console\n$ txnsim scenario run z05 --mode V+ --armed\n```\n"
    )
    linked_text, file_by_path = docs_site.fit_links(page_file, page_text, {Path("docs/b.md")})
    assert linked_text.splitlines() == [
        "[rules](../sim/txnsim/txn/state.py.txt), [x](b.md#c), dir",
        "A story ([`z01 V-`](../simulator/index.html#run=z01&label=V-&take=armed&view=stage)).",
        "",
        "```console",
        "$ txnsim scenario run z05 --mode V+ --armed",
        "```",
        "",
        "[▶ z05](../simulator/index.html#run=z05&label=V%2B&take=armed&view=stage)",
    ]
    assert file_by_path == {Path("sim/txnsim/txn/state.py"): Path("sim/txnsim/txn/state.py.txt")}


def test_every_page_for_users_is_in_the_menu() -> None:
    menu = set(re.findall(r'"((?:docs|helpers)/[\w/.-]+\.md)"', docs_site.configuration()))
    user_pages = {
        page.as_posix() for page in docs_site.pages() if page.parts[0] in ("docs", "helpers")
    }
    assert user_pages == menu
    assert all((ROOT / page).exists() for page in menu)


def test_make_site_installs_what_it_imports_and_no_more() -> None:
    """The group docs, whose packages are named here, and txnsim's own extras."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(r"^site: \$\(VENV\)/installed-docs$", makefile, re.MULTILINE)
    blocked = ("pyspark", "pytest", "confluent_kafka", "aiokafka", "hypothesis", "httpx")
    program = (
        "import sys, importlib.abc\n"
        "class Absent(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {blocked}: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import tests.docs_site\n"
    )
    finished_process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished_process.returncode == 0, finished_process.stderr
