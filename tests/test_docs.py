"""The documents agree with the code."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests import docs
from tests.docs import PAGES, ROOT
from txnsim.settings import documentation
from txnsim_lab.scenario import catalog

SLOW = {"DEVIATIONS.md", "docs/teaching.md"}


@pytest.mark.parametrize(
    "page_text",
    [pytest.param(page, marks=pytest.mark.slow if page in SLOW else ()) for page in sorted(PAGES)],
)
def test_a_generated_page_is_current(page_text: str) -> None:
    if page_text == "docs/cli.md" and sys.version_info >= (3, 13):
        pytest.skip("argparse prints options in another form since Python 3.13")
    assert docs.current_text(page_text) == docs.expected_text(page_text), (
        "python -m tests.docs --write"
    )


def test_pages_are_written_all_or_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def raise_error() -> str:
        raise KeyError("a release that there is not")

    monkeypatch.setattr(docs, "ROOT", tmp_path)
    monkeypatch.setattr(docs, "PAGES", {"a.md": lambda: "a", "b.md": raise_error})
    assert docs.main(["--write"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "can't be made: b.md: KeyError: 'a release that there is not'",
        "out of date: a.md",
    ]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(docs, "PAGES", {"a.md": lambda: "a", "b.md": lambda: "b"})
    assert docs.main(["--write"]) == 0
    assert sorted(path.read_text("utf-8") for path in tmp_path.iterdir()) == ["a", "b"]


def test_every_setting_says_what_it_does() -> None:
    page_text = docs.settings_page()
    for name, setting in documentation().items():
        assert f"| `{name}` |" in page_text
        assert setting.unit
        assert len(setting.reason) > 5


def test_every_generated_page_names_its_generator() -> None:
    notice = docs.NOTICE.split("{")[0]
    for path in _documents():
        is_generated = path.relative_to(ROOT).as_posix() in PAGES
        assert path.read_text("utf-8").startswith(notice) is is_generated, path


def test_links_between_documents_lead_somewhere() -> None:
    text_by_path = {path: _prose(path) for path in _documents()}
    anchors_by_path = {path: _anchors(text) for path, text in text_by_path.items()}
    broken_links = []
    for path, text in text_by_path.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            file_name, _, anchor = target.partition("#")
            linked_file = (path.parent / file_name).resolve() if file_name else path
            if "://" not in target and (
                not linked_file.exists()
                or (anchor and anchor not in anchors_by_path.get(linked_file, {anchor}))
            ):
                broken_links.append(f"{path.relative_to(ROOT)}: {target}")
    assert broken_links == []


def _prose(path: Path) -> str:
    return re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)


def _anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    counts: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        heading_text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", heading_text.lower()).replace(" ", "-")
        names.add(f"{name}-{counts[name]}" if counts[name] else name)
        counts[name] += 1
    return names


OF_OTHERS = {"docs/contributing/next-release.md", "tests/peers/RESULTS.md"}
"""Pages that speak of the newest release of a library, or of jars that there are."""


def test_no_page_speaks_of_newest_releases_without_their_number() -> None:
    vague = re.compile(
        r"\b(newest|latest|today's)\s+releases?\b|\ball\s+but\s+\d\.\d", re.IGNORECASE
    )
    text_by_path = {path: path.read_text("utf-8") for path in _documents()}
    text_by_path |= {path: path.read_text("utf-8") for path in ROOT.glob("scenarios/**/*.yaml")}
    vague_pages = {
        path.relative_to(ROOT).as_posix(): match[0]
        for path, text in text_by_path.items()
        if (match := vague.search(text))
    }
    assert vague_pages.keys() == OF_OTHERS, vague_pages


def test_every_page_is_linked_from_somewhere() -> None:
    text_by_path = {path: path.read_text("utf-8") for path in _documents()}
    unlinked = [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("docs/**/*.md")
        if not any(
            re.search(rf"\]\([^)]*\b{re.escape(path.name)}", text)
            for other_page, text in text_by_path.items()
            if other_page != path
        )
    ]
    assert unlinked == [], "nobody will find them; docs/README.md lists every page"


def _documents() -> list[Path]:
    folders = ["*.md", "docs/**/*.md", "tests/*.md", "tests/*/*.md", "benchmarks/*.md"]
    return sorted(path for pattern in folders for path in ROOT.glob(pattern))


def test_a_story_that_a_page_names_exists() -> None:
    file_text = "".join(path.read_text("utf-8") for path in _documents())
    linked_runs = re.findall(r"#run=([\w-]+)&label=([^&)]+)&take=armed", file_text)
    named_runs = re.findall(r"\(`(z\d+) ([^`]+)`\)", file_text)
    assert len(named_runs) > 10, "docs/transactions.md names stories"
    for name, label in [*linked_runs, *named_runs]:
        assert unquote(label) in catalog.find(name)[1].runs, f"{name} {label}"


def _symptoms() -> list[list[str]]:
    """The cells of each row of the table of symptoms."""
    table = (
        (ROOT / "docs/contributing/where.md")
        .read_text("utf-8")
        .split("## Symptoms")[1]
        .split("\n\n")[2]
    )
    return [
        [cell_text.strip() for cell_text in row.split("|")[1:-1]] for row in table.splitlines()[2:]
    ]


def test_the_index_of_symptoms_names_rules_that_there_are() -> None:
    page_text = (
        (ROOT / "docs/contributing/where.md")
        .read_text("utf-8")
        .split("## Symptoms")[1]
        .split("## Files")[0]
    )
    rules = set(
        re.findall(r"^\| `([\w.-]+)` \|", (ROOT / "docs/rules.md").read_text("utf-8"), re.M)
    )
    spaces = {rule.partition(".")[0] for rule in rules}
    named_rules = set(re.findall(r"`([a-z-]+(?:\.[a-z0-9-]+)+)`", page_text))
    assert len(named_rules) > 50
    assert {name for name in named_rules if name.partition(".")[0] in spaces} - rules == set()


def test_each_symptom_has_files_and_a_quick_test_that_there_are() -> None:
    missing = []
    for symptom, _, file_cell, quick in _symptoms():
        files = re.findall(r"`(sim/[\w/.]+)`", file_cell)
        test_paths = re.findall(r"`(tests/[^`]+)`", quick)
        assert files, symptom
        assert len(test_paths) == 1, symptom
        arguments = shlex.split(test_paths[0])
        paths = [argument for argument in arguments if argument.startswith("tests/")]
        missing += [path for path in [*files, *paths] if not (ROOT / path).exists()]
        expression = arguments[arguments.index("-k") + 1] if "-k" in arguments else ""
        texts = "".join(path.read_text("utf-8") for path in map(ROOT.joinpath, paths) if expression)
        cases = {
            path.stem for path in ROOT.glob("sim/txnsim_lab/conformance/casebook/cases/*/*.yaml")
        }
        ids = "".join(
            path.read_text("utf-8")
            for path in ROOT.glob("sim/txnsim_lab/conformance/casebook/cases/*/*.yaml")
        )
        for argument in set(re.findall(r"\w+", expression)) - {"and", "or", "not"}:
            if argument not in texts and argument not in cases and argument not in ids:
                missing.append(f"{symptom}: -k {argument}")
    assert missing == []
