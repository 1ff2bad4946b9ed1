"""Names that clients choose, in every form in which a trace or a figure is written: none ends a
line, a tag or a string of the form.
"""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.lab.trace.convert.test_mermaid import LINE
from tests.lab.trace.convert.test_shiviz import as_shiviz_reads
from tests.support.hostile_names import HOSTILE_NAMES, names_from_outside
from tests.support.small_trace import small
from txnsim.metrics import exposition, table
from txnsim.metrics.table import Reading
from txnsim.text import printable
from txnsim.trace.trace_file import Recording
from txnsim_lab.http.page.one_file import one_file
from txnsim_lab.trace.brief import brief_line
from txnsim_lab.trace.convert import chrome, mermaid, otlp, shiviz

MARKUP = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>"
OUTSIDE_NAMES = (*HOSTILE_NAMES, MARKUP, '"', "\\", "}", "]]>", "participant n0 as x")


def recording_with(name: str) -> Recording:
    """A trace in which a client of this name sends, is refused, and takes part."""
    payload = {"api": "Produce", "tp": name, "error": name, "to": name, "state": name, "rule": name}
    return small(
        (f"client {name}", "broker-1"),
        (f"client {name}", "client.call", (), name, payload),
        ("broker-1", "msg.recv", (0,), name, payload),
        ("broker-1", "log.reject", (1,), name, payload),
        ("broker-1", "fault.hit", (), name, payload),
    )


class Tags(HTMLParser):
    """Collects the names of a page's tags."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        assert not any(attribute_name.startswith("on") for attribute_name, _ in attrs)


def tags_of(page_text: str) -> list[str]:
    tags = Tags()
    tags.feed(page_text)
    tags.close()
    return tags.names


def check_texts(name: str) -> None:
    recording = recording_with(name)
    assert all(LINE.fullmatch(line) for line in mermaid.convert(recording).splitlines())
    json.loads(chrome.convert(recording))
    json.loads(otlp.convert(recording))
    assert len(as_shiviz_reads(shiviz.convert(recording))) == len(recording.events)
    for event in recording.events:
        line = printable(brief_line(event, recording.nodes))
        assert line.isprintable() or re.fullmatch(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202e]*", line)


def check_metrics(name: str) -> None:
    metric = next(metric for metric in table.METRICS if metric.labels == ("rule",))
    text = exposition.exposition([Reading(metric=metric.name, labels=(name,), value=1)]).decode()
    samples = [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels
    ]
    assert {sample.labels["rule"] for sample in samples} == {name}


@pytest.mark.parametrize("name", OUTSIDE_NAMES, ids=[repr(name)[:30] for name in OUTSIDE_NAMES])
def test_a_hostile_name_stays_a_name_in_every_text(name: str) -> None:
    check_texts(name)
    check_metrics(name)


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.one_of(names_from_outside(), st.text("</>&\"'ab;#{}\n", min_size=1)))
def test_drawn_names_stay_names_in_every_text(name: str) -> None:
    check_texts(name)
    check_metrics(name)


@pytest.mark.slow
def test_a_hostile_name_adds_no_tag_to_the_page_in_one_file() -> None:
    expected_tags = tags_of(one_file([("title", recording_with("plain"))]))
    for name in OUTSIDE_NAMES:
        assert tags_of(one_file([(name, recording_with(name))])) == expected_tags, name
