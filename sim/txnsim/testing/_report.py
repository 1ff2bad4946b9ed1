"""The report about the cluster of a failing test: the story so far, what its transactions wait for,
the last events, the faults.

Its length is bounded, because people read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.errors import ConfigError, MissingExtraError
from txnsim.files import write_all
from txnsim.http.report import in_one_line, rules_text, story_text, told_events
from txnsim.on_demand_imports import borrowed
from txnsim.runtime.trace import Event, Tracer
from txnsim.testing.faults import FaultState
from txnsim.testing.rebuilt_cluster import ONLOOKER
from txnsim.trace.story import node_label
from txnsim.trace.trace_file import Recording

EVENTS_MAX: Final = 25
FILE_NAME_MAX: Final = 120
"""Longest name of a file, in characters."""
_NOT_IN_FILE_NAME_RE: Final = re.compile(r"[^A-Za-z0-9_.=]+")
ONLOOKER_NODE: Final = f"client/{ONLOOKER}"

Section = tuple[str, str]
"""(title, text) of a section of the report."""


def report_sections(
    tracer: Tracer, faults: Iterable[FaultState], *, since: int = 0, pending_text: str = ""
) -> list[Section]:
    """The sections of the report about a cluster.

    Args:
        tracer: The trace of the cluster.
        faults: The rules of the test.
        since: Index of the first event of the test.
        pending_text: What its transactions wait for, in sentences.
    """
    events = told_events(tracer, first_event=since, onlooker=ONLOOKER_NODE)
    titled_texts = [
        ("txnsim: what happened", story_text(events, tracer.nodes)),
        ("txnsim: what transactions wait for", pending_text),
        ("txnsim: last events", _events_text(events[-EVENTS_MAX:], tracer.nodes)),
        ("txnsim: faults", rules_text(faults)),
    ]
    if not tracer.on:
        titled_texts.append(("txnsim", 'nothing was recorded: trace is "off" for this cluster'))
    return [(title, section_text) for title, section_text in titled_texts if section_text]


def write_page(
    folder: Path, test_name: str, traces: Sequence[bytes], *, redacts: bool
) -> list[Section]:
    """Write the page of a failing test, one HTML file.

    Args:
        folder: Folder for the file; created if it does not exist.
        test_name: Name of the test.
        traces: Traces of its clusters, JSON lines each.
        redacts: Leave out keys and values of records.

    Returns:
        A section of the report that names the page.
    """
    try:
        page_module = borrowed("txnsim_lab.http.page.one_file", "the page of a failing test")
    except MissingExtraError as error:
        return [("txnsim: page", str(error))]
    recordings = [
        (test_name, Recording.from_lines(test_name, trace_bytes.splitlines()))
        for trace_bytes in traces
    ]
    recordings = [(title, recording) for title, recording in recordings if recording.events]
    if not recordings:
        return []
    page_path = (
        folder / f"{_NOT_IN_FILE_NAME_RE.sub('-', test_name).strip('-')[-FILE_NAME_MAX:]}.html"
    )
    try:
        write_all(
            folder, {page_path.name: page_module.one_file(recordings, redacts=redacts).encode()}
        )
    except ConfigError as error:  # a full disk, for example; the rest of the report is still useful
        return [("txnsim: page", str(error))]
    return [("txnsim: page", f"{page_path}\n{page_module.remark(redacts=redacts)}")]


def _events_text(events: Iterable[Event], nodes: Sequence[str]) -> str:
    event_lines = []
    for event in events:
        payload_json = "" if event.d is None else msgspec.json.encode(event.d).decode()
        event_line = (
            f"{event.t // 1000:>7} ms  {event.k:<18} {node_label(nodes[event.n])}  {payload_json}"
        )
        event_lines.append(in_one_line(event_line))
    return "\n".join(event_lines)
