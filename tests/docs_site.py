"""The documents as a web site with search: ``make site``, or ``python -m tests.docs_site DIR``.

Zensical makes it, from a copy of the documents in which links fit a site: a file that is no page is
copied beside them as text, a folder is named and not linked, and each story that a page names is a
link into the simulator that lies in the site (``txnsim site build``). Nothing is fetched from
another host when it is read; it opens from disk and below any path.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from tests.support.page_readers import KINDS
from txnsim_lab.http.site import build as simulator
from txnsim_lab.scenario.catalog import find

ROOT: Final = Path(__file__).parents[1]
"""Not that of `tests.docs`, which needs what the generated pages need."""
FOLDERS: Final = (
    "*.md", "docs/**/*.md", "helpers/*.md", "helpers/**/*.md", "tests/*.md", "tests/*/*.md",
    "benchmarks/*.md",
)  # fmt: skip
SIMULATOR: Final = "simulator"
UNSEARCHED: Final = ("tests", "benchmarks", "docs/contributing", "CHANGELOG.md", "ARCHITECTURE.md")
"""Of pages: a user's search does not find them."""
AS_TEXT: Final = ".txt"
"""What a browser would not show gets this behind its name."""
SHOWN: Final = (".svg", ".png", ".json", ".txt", ".xml", ".ipynb")
_LINK: Final = re.compile(r"(?<!`)(!?)\[([^\]\n]*(?:\n[^\]\n]*)?)\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"(?ms)^ *```.*?^ *```$")
_STORY: Final = re.compile(r"\(`(z[\w-]+) ([^`]+)`\)")
_TOLD: Final = re.compile(r"^\$ txnsim scenario run ([\w-]+)(?: --mode (\S+) --armed)?$", re.M)
_FOREIGN: Final = re.compile(r'<script src="https://unpkg\.com/iframe-worker/shim"[^>]*></script>')
"""Zensical's way to search from disk comes from another host; ``from_disk.js`` is ours."""
FEATURES: Final = (
    "content.code.copy", "navigation.footer", "navigation.indexes", "navigation.path",
    "navigation.top", "search.highlight",
)  # fmt: skip
"""None of those that fetch: a page that is opened from disk may not."""


def pages() -> list[Path]:
    """Path of every document, relative to the repository."""
    paths = {path for pattern in FOLDERS for path in ROOT.glob(pattern)}
    return sorted(path.relative_to(ROOT) for path in paths if "node_modules" not in path.parts)


def build(target_path: Path, simulator_folder: Path | None) -> None:
    """Write the site.

    Args:
        target: Its folder, which is made anew.
        simulator_folder: What ``txnsim site build`` has written, to be copied in; left out if None.
    """
    with tempfile.TemporaryDirectory(prefix="txnsim-docs-") as name:
        work_folder = Path(name)
        stage(work_folder / "pages")
        (work_folder / "zensical.toml").write_text(configuration(), "utf-8")
        command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
        subprocess.run(command, cwd=work_folder, check=True, capture_output=True)
        shutil.rmtree(target_path, ignore_errors=True)
        shutil.copytree(work_folder / "site", target_path)
    for page_file in target_path.rglob("*.html"):
        page_text = page_file.read_text("utf-8")
        script_address = os.path.relpath(target_path / "assets/from_disk.js", page_file.parent)
        page_file.write_text(
            _FOREIGN.sub(f'<script src="{script_address}"></script>', page_text), "utf-8"
        )
    if simulator_folder is not None:
        shutil.copytree(simulator_folder, target_path / SIMULATOR)


def stage(folder: Path) -> None:
    """Write the documents into a folder, with the links that the site needs."""
    documents = set(pages())
    for page_file in documents:
        file_text, file_by_path = fit_links(
            page_file, (ROOT / page_file).read_text("utf-8"), documents
        )
        if page_file.as_posix().startswith(UNSEARCHED):
            file_text = f"---\nsearch:\n  exclude: true\n---\n{file_text}"
        _write(folder / page_file, file_text)
        for file, target_path in file_by_path.items():
            (folder / target_path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, folder / target_path)
    for file_name, as_name in {
        "docs_from_disk.js": "from_disk.js",
        "docs_site.css": "site.css",
    }.items():
        (folder / "assets").mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests/support" / file_name, folder / "assets" / as_name)


def fit_links(page_file: Path, text: str, documents: set[Path]) -> tuple[str, dict[Path, Path]]:
    """A page with links that fit the site, and the files that it leads to, by their names there."""
    file_by_path: dict[Path, Path] = {}

    def link(match: re.Match[str]) -> str:
        picture, label, target = match.groups()
        file_name, _, anchor = target.partition("#")
        if "://" in target or not file_name:
            return match[0]
        path = Path(os.path.relpath((ROOT / page_file).parent / file_name, ROOT))
        if (ROOT / path).is_dir():
            path = path / "README.md"
            if path not in documents:
                return label
        if path not in documents:
            file_by_path[path] = path
            if not picture and path.suffix not in SHOWN:
                file_by_path[path] = path.with_name(path.name + AS_TEXT)
        file_name = os.path.relpath(file_by_path.get(path, path), page_file.parent)
        return f"{picture}[{label}]({file_name}{'#' if anchor else ''}{anchor})"

    def story(match: re.Match[str]) -> str:
        return f"([`{match[1]} {match[2]}`]({play(page_file, match[1], match[2])}))"

    def link_plays(block: str) -> str:
        plays = [
            f"[▶ {name}]({play(page_file, name, mode or next(iter(find(name)[1].runs)))})"
            for name, mode in _TOLD.findall(block)
        ]
        return f"{block}\n\n{' · '.join(plays)}" if plays else block

    parts = []
    position = 0
    for fence in _FENCE.finditer(text):
        parts += [
            _STORY.sub(story, _LINK.sub(link, text[position : fence.start()])),
            link_plays(fence[0]),
        ]
        position = fence.end()
    parts.append(_STORY.sub(story, _LINK.sub(link, text[position:])))
    return "".join(parts), file_by_path


def play(page_file: Path, story: str, run_name: str) -> str:
    """A link from a page to a story in the simulator."""
    address = os.path.relpath(f"{SIMULATOR}/index.html", page_file.parent)
    return f"{address}#run={story}&label={quote(run_name)}&take=armed&view=stage"


def configuration() -> str:
    """The configuration of Zensical, with the sections of docs/README.md as its menu."""
    sections = []
    for kind, file_names in KINDS.items():
        section_pages = [
            page_file
            for file_name in file_names
            for page_file in _with_those_below(Path("docs") / file_name)
        ]
        quoted_pages = ", ".join(f'"{page_file.as_posix()}"' for page_file in section_pages)
        sections.append(f'  {{ "{kind}" = [{quoted_pages}] }},')
    return f"""\
[project]
site_name = "txnsim"
site_description = "A simulator of an Apache Kafka cluster for transactions"
docs_dir = "pages"
use_directory_urls = false
extra_css = ["assets/site.css"]
nav = [
  {{ "txnsim" = "README.md" }},
  {{ "All pages" = "docs/README.md" }},
{chr(10).join(sections)}
  {{ "Other languages" = ["helpers/README.md", "helpers/any/README.md", "helpers/ci/exam/README.md",
    "helpers/go/README.md",
    "helpers/java/README.md", "helpers/node/README.md"] }},
  {{ "What differs from Kafka" = "DEVIATIONS.md" }},
  {{ "What is new" = "CHANGELOG.md" }},
]

[project.theme]
font = false
features = [{", ".join(f'"{feature}"' for feature in FEATURES)}]

[project.plugins.offline]

[project.markdown_extensions]
attr_list = {{}}
tables = {{}}
md_in_html = {{}}
pymdownx.highlight = {{}}
pymdownx.superfences = {{}}
toc.permalink = true
toc.slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }}
"""


# Dead links


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.targets.append(value)


def dead_links(site_folder: Path) -> Iterator[str]:
    """Links of the site's pages to what is not there, or to another host that loads a part."""
    links_by_page = {}
    for page_file in sorted(site_folder.rglob("*.html")):
        if page_file.relative_to(site_folder).parts[0] not in (SIMULATOR, "404.html"):
            links_by_page[page_file] = _Links()
            links_by_page[page_file].feed(page_file.read_text("utf-8"))
    for page_file, links in links_by_page.items():
        for target in links.targets:
            address = urlsplit(target)
            if address.scheme or address.netloc or target.startswith("javascript:"):
                continue
            path = (
                (page_file.parent / unquote(address.path)).resolve() if address.path else page_file
            )
            description = f"{page_file.relative_to(site_folder)}: {target}"
            if path.is_dir():
                path /= "index.html"
            if path.relative_to(site_folder.resolve()).parts[0] == SIMULATOR:
                continue
            if not path.is_file() or (
                address.fragment
                and path in links_by_page
                and unquote(address.fragment) not in links_by_page[path].ids
            ):
                yield description


def _with_those_below(page_file: Path) -> list[Path]:
    """A page; an index brings the pages of its folder along."""
    is_index = page_file.parent.name == "recipes"
    siblings = [
        sibling_path
        for sibling_path in pages()
        if sibling_path.parent == page_file.parent and sibling_path != page_file
    ]
    return [page_file, *siblings] if is_index else [page_file]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Build the site; status 1 if a link of it leads nowhere."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs_site", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write it")
    parser.add_argument(
        "--text-only", action="store_true", help="without the simulator, which needs Node.js"
    )
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="txnsim-site-") as name:
        if not options.text_only:
            print("1 of 3: the simulator for the browser ...", flush=True)
            simulator.build(Path(name))
        print("2 of 3: the pages ...", flush=True)
        build(options.folder, None if options.text_only else Path(name))
    print("3 of 3: links ...", flush=True)
    broken_links = sorted(set(dead_links(options.folder.resolve())))
    for description in broken_links:
        print(f"dead link: {description}")
    index = options.folder.resolve() / "index.html"
    print(
        f"The site: {index}; see it: {sys.executable} -m http.server --directory {options.folder}"
    )
    return 1 if broken_links else 0


if __name__ == "__main__":
    sys.exit(main())
