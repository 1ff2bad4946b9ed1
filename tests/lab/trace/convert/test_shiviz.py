"""No registry has ShiViz as a package (npm and PyPI were asked). What it demands of a log stands in
its source, ``js/model/parser.js`` and ``js/model/modelGraph.js``: ``as_shiviz_reads`` demands that.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass

import msgspec
import pytest

from tests.support.small_trace import small
from tests.support.traces import recording_of_run
from txnsim.errors import ConfigError
from txnsim.runtime.trace import TraceLevel
from txnsim_lab.trace.convert import shiviz
from txnsim_lab.trace.convert.shiviz import PARSER, convert

RUNS = (("z01", "V-"), ("z16", "V+"), ("z23", "V-"))


@dataclass(frozen=True, kw_only=True)
class ReadEvent:
    """An event as ShiViz reads it."""

    host: str
    clock: dict[str, int]
    text: str


def as_shiviz_reads(log: str) -> list[ReadEvent]:
    """The events of a log.

    Raises:
        ValueError: ShiViz would refuse it; the words are near its own.
    """
    pattern = re.compile(PARSER.replace("(?<", "(?P<"))
    unread_text = pattern.sub("", log).strip()
    if unread_text:
        raise ValueError(f"the regular expression leaves over: {unread_text[:200]}")
    events_read = [
        ReadEvent(host=match["host"], clock=json.loads(match["clock"]), text=match["event"])
        for match in pattern.finditer(log)
    ]
    own_clocks = defaultdict(list)
    for event in events_read:
        if event.host not in event.clock:
            raise ValueError(f"local host {event.host!r} is missing from {event.clock}")
        own_clocks[event.host].append(event.clock[event.host])
    for host, clocks in own_clocks.items():
        if sorted(clocks) != list(range(1, len(clocks) + 1)):
            raise ValueError(f"the clock of {host!r} must begin at 1 and increase by 1")
    for event in events_read:
        for host, time in event.clock.items():
            if not 1 <= time <= len(own_clocks[host]):
                raise ValueError(f"invalid clock value {time} for host {host!r}")
    return events_read


@pytest.mark.slow
@pytest.mark.parametrize(("name", "run_name"), RUNS)
@pytest.mark.parametrize("trace_level", [TraceLevel.BRIEF, TraceLevel.FULL])
def test_a_log_is_what_shiviz_takes_and_has_every_event_in_order(
    name: str, run_name: str, trace_level: TraceLevel
) -> None:
    recording = recording_of_run(name, run_name, trace_level=trace_level)
    events_read = as_shiviz_reads(convert(recording))
    assert [event.host for event in events_read] == [
        recording.nodes[event.n] for event in recording.events
    ]
    assert [event.text.split()[:2] for event in events_read] == [
        [f"#{e.i}", e.k] for e in recording.events
    ]


def test_clocks_say_that_causes_are_before_their_effects_and_nothing_else_is() -> None:
    recording = recording_of_run()
    causes_before: dict[int, set[int]] = {}
    newest_by_node: dict[int, int] = {}  # of each node
    for event in recording.events:
        direct_causes = [
            *event.p,
            *([newest_by_node[event.n]] if event.n in newest_by_node else []),
        ]
        causes_before[event.i] = set(direct_causes).union(
            *(causes_before[cause_event_index] for cause_event_index in direct_causes)
        )
        newest_by_node[event.n] = event.i
    events_read = as_shiviz_reads(convert(recording))
    number = {(event.host, event.clock[event.host]): n for n, event in enumerate(events_read)}
    for n, one in enumerate(events_read):
        named_numbers = {number[host_and_time] for host_and_time in one.clock.items()}
        joined_numbers = named_numbers.union(
            *(causes_before[number_named] for number_named in named_numbers)
        ) - {n}
        assert joined_numbers == causes_before[n]


def test_a_trace_without_its_head_is_a_whole_log() -> None:
    recording = recording_of_run()
    late_recording = msgspec.structs.replace(recording, events=recording.events[100:])
    assert len(as_shiviz_reads(convert(late_recording))) == len(recording.events) - 100


def test_what_shiviz_refuses_is_refused_here() -> None:
    lines = convert(recording_of_run()).splitlines(keepends=True)
    host = lines[0].split()[0]
    for broken_log, expected_reason in (
        (lines[2:], "must begin at 1"),
        ([lines[0].replace(f'"{host}"', '"other"', 1), *lines[1:]], "is missing from"),
        ([*lines[:-2], lines[-2].replace('":1', '":1000', 1), lines[-1]], "clock"),
        (["not of the log\n", *lines], "leaves over"),
    ):
        with pytest.raises(ValueError, match=expected_reason):
            as_shiviz_reads("".join(broken_log))


def test_clocks_that_grow_with_all_nodes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = tuple(f"client/{number}" for number in range(200))
    chain = [
        (node, "note", (number - 1,) if number else (), "", {"text": "x"})
        for number, node in enumerate(nodes)
    ]
    recording = small(nodes, *chain)
    whole_text = convert(recording)
    monkeypatch.setattr(shiviz, "TEXT_BYTES_MAX", len(whole_text))
    assert convert(recording) == whole_text
    monkeypatch.setattr(shiviz, "TEXT_BYTES_MAX", len(whole_text) - 1)
    with pytest.raises(ConfigError, match="of 200 nodes and 200 events takes more than"):
        convert(recording)
