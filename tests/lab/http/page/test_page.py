"""The page: its routes, its files, and all of it in one."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from tests.support.traces import recording_of_run
from txnsim.errors import ConfigError
from txnsim.txn.state import VALID_PREVIOUS_STATES, WIRE_NAMES
from txnsim.types import TransactionVersion
from txnsim_lab.http.page import _files as page_files
from txnsim_lab.http.page._files import LIBRARIES, digest, files, script, served_files
from txnsim_lab.http.page.one_file import EVENTS_MAX, one_file, remark
from txnsim_lab.scenario.teaching.lessons import lessons


def test_the_files_are_those_that_browsers_read() -> None:
    assert {"index.html", "main.js", "app.css", "views/stage.js", "vendor/preact.mjs"} <= set(
        files()
    )
    assert not [name for name in files() if name.endswith((".toml", ".py"))]


def test_every_library_is_a_file() -> None:
    assert set(LIBRARIES.values()) <= set(files())


def test_the_script_holds_every_module_once_behind_those_that_it_imports() -> None:
    begins = rb'^__page\["([^"]+)"\] = \(\(\) => \{$'
    module_starts = {
        start_match[1].decode(): start_match.start()
        for start_match in re.finditer(begins, script(), re.M)
    }
    assert sorted([*module_starts, "main.js"]) == sorted(
        name for name in files() if name.endswith("js")
    )
    for import_match in re.finditer(rb'= __page\["([^"]+)"\]', script()):
        assert module_starts[import_match[1].decode()] < import_match.start()


def test_the_script_neither_imports_nor_exports_and_may_stand_in_a_page() -> None:
    assert not re.search(rb"(?<![^\n;}])(?:import|export)\b", script())
    assert b"sourceMappingURL" not in script()
    assert b"</script" not in script()
    assert b"<!--" not in script()


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Empty files of a page, which the test fills."""
    files_by_name: dict[str, bytes] = {}
    monkeypatch.setattr(page_files, "files", lambda: files_by_name)
    return files_by_name


def test_a_module_keeps_its_names_and_gives_what_it_exports(modules: dict[str, bytes]) -> None:
    modules["main.js"] = (
        b'import { one as two } from "./views/b.js";\nimport b from "./views/b.js";'
    )
    modules["views/b.js"] = (
        b"const x=1;export{x as one};export default function(s){}\n"
        b'export const LIST = [];\nexport async function go() {}\nexport{y}from"../c.js";'
    )
    modules["c.js"] = b"export class y {}\n//# sourceMappingURL=c.js.map"
    assert script.__wrapped__().decode() == (
        """const __page = (globalThis.__page = {});
__page["c.js"] = (() => {
class y {}

;return { y };
})();
__page["views/b.js"] = (() => {
const x=1;const theDefault = function(s){}
const LIST = [];
async function go() {}

;return { one: x, default: theDefault, LIST, go, y: __page["c.js"].y };
})();
{ // main.js
const { one: two } = __page["views/b.js"];
const b = __page["views/b.js"].default;
}"""
    )


def test_modules_that_import_each_other_are_refused(modules: dict[str, bytes]) -> None:
    modules["main.js"] = b'import { a } from "./a.js";'
    modules["a.js"] = b'import { b } from "./main.js";'
    with pytest.raises(ValueError, match=r"import each other: main\.js, a\.js, main\.js"):
        script.__wrapped__()


def test_the_page_asks_for_its_files_by_their_version() -> None:
    versioned_names = re.findall(rb'"/ui/([^"?]+)\?v=([0-9a-f]{12})"', served_files()["index.html"])
    assert sorted(name.decode() for name, _ in versioned_names) == [
        "app.css",
        "geist.woff2",
        "icon.svg",
        "page.js",
    ]
    for name, version in versioned_names:
        digest = hashlib.sha256(served_files()[name.decode()]).hexdigest()
        assert digest.startswith(version.decode())


def test_a_digest_is_that_of_the_script_as_it_stands() -> None:
    expected_text = base64.b64encode(hashlib.sha256(script()).digest()).decode()
    assert digest(script()) == f"'sha256-{expected_text}'"


def test_the_coordinators_machine_draws_every_move_of_kafkas_table() -> None:
    text = files()["views/coordinator.js"].decode()
    drawn_moves = set(re.findall(r'"([A-Z]\w+) ([A-Z]\w+)": "M', text))
    allowed = {
        (WIRE_NAMES[state_before], WIRE_NAMES[state])
        for state, befores in VALID_PREVIOUS_STATES[TransactionVersion.TV_2].items()
        for state_before in befores
    }
    assert drawn_moves == allowed
    boxes = re.search(r"const STATE_BOXES = \{(.*?)\};", text, re.DOTALL)
    assert boxes is not None
    assert set(re.findall(r"(\w+): \[", boxes[1])) == set(WIRE_NAMES.values())


def test_no_move_of_the_machine_is_drawn_behind_a_box() -> None:
    text = files()["views/coordinator.js"].decode()
    box_corners = re.findall(r"(\w+): \[(\d+), (\d+)\]", text)
    boxes = {name: (int(x), int(y), int(x) + 140, int(y) + 36) for name, x, y in box_corners}
    crossings = [
        (move, box_name)
        for move, path in re.findall(r'"(\w+ \w+)": "(M[^"]+)"', text)
        for box_name, (left_edge, top, right, bottom) in boxes.items()
        for x, y in _points(path)
        if left_edge < x < right and top < y < bottom
    ]
    assert crossings == []


def _points(path: str) -> Iterator[tuple[float, float]]:
    """Points along an SVG path, at most one pixel apart."""
    end_point = (0.0, 0.0)
    for letter, coordinates in re.findall(r"([MLHVC])([^MLHVC]*)", path):
        numbers = [float(coordinate) for coordinate in coordinates.split()]
        if letter in "HV":
            (to,) = numbers
            ends = [(to, end_point[1]) if letter == "H" else (end_point[0], to)]
        else:
            ends = list(zip(numbers[::2], numbers[1::2], strict=True))
        corners = [end_point, *ends]
        for step in range(1_001 if letter != "M" else 0):
            yield _bezier(corners, step / 1_000)
        end_point = ends[-1]


def _bezier(corners: Sequence[tuple[float, float]], t: float) -> tuple[float, float]:
    while len(corners) > 1:
        corners = [
            (a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t) for a, b in pairwise(corners)
        ]
    return corners[0]


def embedded_script(page_text: str, name: str) -> bytes:
    script_match = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page_text)
    assert script_match is not None
    return gzip.decompress(base64.b64decode(script_match[1]))


def contents(page_text: str) -> dict[str, Any]:
    return dict(json.loads(embedded_script(page_text, "runs")))


def test_it_holds_the_page_the_trace_and_what_is_said_of_it() -> None:
    recording = recording_of_run()
    page_text = one_file([("z01", recording)])
    inside = contents(page_text)
    assert inside["remark"] == remark(redacts=False)
    (page_run,) = inside["runs"]
    assert page_run["title"] == "z01"
    assert embedded_script(page_text, "trace-0") == recording.to_lines()
    causes = [part["cause"] for moment in page_run["moments"] for part in moment["partitions"]]
    assert {"nothing", "hanging transaction"} <= set(causes)


def test_no_address_leads_out_of_the_file() -> None:
    page_text = one_file([("z01", recording_of_run())])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page_text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "'self'" not in policy[1]
    inline = re.search(r'<script type="module">(.*?)</script>', page_text, re.DOTALL)
    assert inline is not None
    assert f"script-src {digest(inline[1].encode())};" in policy[1]


def test_a_redacted_file_holds_no_value_and_says_so() -> None:
    recording = recording_of_run()
    assert b"after-1" in embedded_script(one_file([("z01", recording)]), "trace-0")
    page_text = one_file([("z01", recording)], redacts=True)
    assert remark(redacts=True) in page_text
    assert b"after-1" not in embedded_script(page_text, "trace-0")
    assert "after-1" not in json.dumps(contents(page_text))


def test_a_run_that_the_page_can_not_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = recording_of_run()
    monkeypatch.setattr("txnsim_lab.http.page.one_file.EVENTS_MAX", len(recording.events) - 1)
    with pytest.raises(ConfigError, match=r"z01: \d+ events, .* at most \d+: read it with"):
        one_file([("z01", recording)])


def test_the_page_holds_as_many_events_as_its_book() -> None:
    limit_match = re.search(rb"EVENTS_MAX = ([\d_]+);", files()["book.js"])
    assert limit_match is not None
    assert int(limit_match[1].replace(b"_", b"")) == EVENTS_MAX


def test_it_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnsim_lab.trace.explained_moments.EVENTS_PER_REPORT", 100)
    progress_lines: list[str] = []
    one_file([("z01", recording := recording_of_run())], report_progress=progress_lines.append)
    assert progress_lines[0] == f"z01: 100 of {len(recording.events)} events explained …"
    assert progress_lines[-1] == "packing the events …"


def test_a_title_is_text() -> None:
    assert "<b>" not in one_file([("<b>", recording_of_run())]).partition("</title>")[0]


def test_a_lesson_is_shown_in_views_that_the_page_has() -> None:
    titles = re.search(r"VIEW_TITLES = \[(.*?)\];", files()["keys.js"].decode(), re.DOTALL)
    assert titles is not None
    names = set(re.findall(r'\["(\w+)"', titles.group(1)))
    assert {
        lesson_part.view for lesson in lessons().values() for lesson_part in lesson.parts
    } <= names
