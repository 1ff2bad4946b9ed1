"""What is exported for other tools is read by those tools' own parsers: Mermaid's, and the one of
Chrome's Performance panel. OTLP: tests/lab/trace/convert/test_otlp.py. ShiViz is in no package;
what its parser demands is in test_shiviz.py there.
"""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.browser.conftest import from_npm, installed_from_npm, recorded
from txnsim_lab.trace.convert import chrome, mermaid

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

MERMAID: Final = "mermaid@12.3.0"
TRACE_ENGINE: Final = "@paulirish/trace_engine@0.0.65"
READ_CHROME: Final = """
import { readFileSync } from "node:fs";
globalThis.window = globalThis;
globalThis.DOMRect = class {};
const { Processor } = await import("@paulirish/trace_engine");
const engine = Processor.TraceProcessor.createWithAllHandlers();
await engine.parse(JSON.parse(readFileSync(process.argv[1], "utf8")).traceEvents, {});
const { Meta, Renderer, Flows } = engine.data;
const threads = [...Renderer.processes.values()].flatMap((one) => [...one.threads.values()]);
console.log(JSON.stringify({
  processes: [...Meta.processNames.values()].map((one) => one.args.name),
  threads: threads.map(({ name, entries }) => [name, entries.map((x) => [x.name, x.ts, x.dur])]),
  arrows: Flows.flows.map((flow) => flow.map(({ name, ts }) => [name, ts])),
}));
"""
RUNS: Final = (("z01", "V-"), ("z16", "V+"), ("z23", "V-"))


def test_mermaid_reads_our_diagrams_as_they_are_meant(browser: Browser) -> None:
    recordings = [recorded(*name) for name in RUNS]
    page = browser.new_context().new_page()
    page.add_script_tag(content=from_npm(MERMAID, "dist/mermaid.min.js"))
    for recording in recordings:
        text = mermaid.convert(recording)
        diagram = page.evaluate("text => mermaid.parse(text)", text)
        assert diagram["diagramType"] == "sequence"
        svg = page.evaluate("async text => (await mermaid.render('one', text)).svg", text)
        notes, messages = text.count("Note over"), text.count("->>") + text.count("--x")
        assert svg.count('class="noteText') == notes > 0
        assert svg.count('class="messageText') == messages > 0
    broken_diagram = mermaid.convert(recordings[0]).replace("Note over", "Note above", 1)
    complaint = page.evaluate(
        "text => mermaid.parse(text).then(() => '', e => e.message)", broken_diagram
    )
    assert "Parse error" in complaint
    page.context.close()


def read_by_chrome(text: str, path: Path) -> dict[str, Any]:
    """The events that Chrome's Performance panel reads from a file."""
    path.write_text(text, encoding="utf-8")
    command = ["node", "--input-type=module", "--eval", READ_CHROME, str(path)]
    folder = installed_from_npm(TRACE_ENGINE)
    process = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        check=True,
        text=True,
    )
    return dict(json.loads(process.stdout))


@pytest.mark.costly
@pytest.mark.parametrize(("name", "run_name"), RUNS)
def test_chrome_reads_our_traces_as_they_are_meant(
    name: str, run_name: str, tmp_path: Path
) -> None:
    text = chrome.convert(recorded(name, run_name))
    trace_events = json.loads(text)["traceEvents"]
    trace_seen = read_by_chrome(text, tmp_path / "trace.json")
    names = {row["args"]["name"] for row in trace_events if row["name"] == "process_name"}
    assert set(trace_seen["processes"]) == names
    slices = sorted(
        (row["name"], row["ts"], row["dur"]) for row in trace_events if row["ph"] == "X"
    )
    assert (
        sorted(
            tuple(slice_seen)
            for _, slices_of_thread in trace_seen["threads"]
            for slice_seen in slices_of_thread
        )
        == slices
    )
    states = [
        slices_of_thread
        for thread, slices_of_thread in trace_seen["threads"]
        if thread.startswith("transactional id ")
    ]
    assert states
    assert all(
        slice_before[1] + slice_before[2] <= slice_after[1]
        for slices_of_thread in states
        for slice_before, slice_after in pairwise(slices_of_thread)
    )
    sent_rows = [row for row in trace_events if row["ph"] == "s"]
    assert sorted(arrow[0][1] for arrow in trace_seen["arrows"]) == sorted(
        row["ts"] for row in sent_rows
    )


def test_an_arrow_of_another_category_than_its_slices_is_lost_in_chrome(tmp_path: Path) -> None:
    text = chrome.convert(recorded(*RUNS[0]))
    assert read_by_chrome(text, tmp_path / "good.json")["arrows"]
    trace_events = json.loads(text)["traceEvents"]
    other_rows = [row | {"cat": "other"} if row["ph"] in "sf" else row for row in trace_events]
    broken_trace = json.dumps({"traceEvents": other_rows})
    assert not read_by_chrome(broken_trace, tmp_path / "broken.json")["arrows"]
