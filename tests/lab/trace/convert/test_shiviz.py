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

from tests.support.traces import told_run
from txnsim.runtime.trace import TraceLevel
from txnsim_lab.trace.convert.shiviz import PARSER, convert

RUNS = (("z01", "V-"), ("z16", "V+"), ("z23", "V-"))


@dataclass(frozen=True, kw_only=True)
class Read:
    """An event as ShiViz has it."""

    host: str
    clock: dict[str, int]
    text: str


def as_shiviz_reads(log: str) -> list[Read]:
    """The events of a log.

    Raises:
        ValueError: ShiViz would refuse it; the words are near its own.
    """
    pattern = re.compile(PARSER.replace("(?<", "(?P<"))
    rest = pattern.sub("", log).strip()
    if rest:
        raise ValueError(f"the regular expression leaves over: {rest[:200]}")
    found = [
        Read(host=one["host"], clock=json.loads(one["clock"]), text=one["event"])
        for one in pattern.finditer(log)
    ]
    own = defaultdict(list)
    for one in found:
        if one.host not in one.clock:
            raise ValueError(f"local host {one.host!r} is missing from {one.clock}")
        own[one.host].append(one.clock[one.host])
    for host, clocks in own.items():
        if sorted(clocks) != list(range(1, len(clocks) + 1)):
            raise ValueError(f"the clock of {host!r} must begin at 1 and increase by 1")
    for one in found:
        for host, time in one.clock.items():
            if not 1 <= time <= len(own[host]):
                raise ValueError(f"invalid clock value {time} for host {host!r}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "run"), RUNS)
@pytest.mark.parametrize("level", [TraceLevel.BRIEF, TraceLevel.FULL])
def test_a_log_is_what_shiviz_takes_and_has_every_event_in_order(
    name: str, run: str, level: TraceLevel
) -> None:
    told = told_run(name, run, level=level)
    found = as_shiviz_reads(convert(told))
    assert [one.host for one in found] == [told.nodes[event.n] for event in told.events]
    assert [one.text.split()[:2] for one in found] == [[f"#{e.i}", e.k] for e in told.events]


def test_clocks_say_that_causes_are_before_their_effects_and_nothing_else_is() -> None:
    told = told_run()
    before: dict[int, set[int]] = {}
    newest: dict[int, int] = {}  # of each node
    for event in told.events:
        known = [*event.p, *([newest[event.n]] if event.n in newest else [])]
        before[event.i] = set(known).union(*(before[one] for one in known))
        newest[event.n] = event.i
    found = as_shiviz_reads(convert(told))
    number = {(one.host, one.clock[one.host]): n for n, one in enumerate(found)}
    for n, one in enumerate(found):
        said = {number[at] for at in one.clock.items()}
        joined = said.union(*(before[other] for other in said)) - {n}
        assert joined == before[n]


def test_a_trace_without_its_head_is_a_whole_log() -> None:
    told = told_run()
    late = msgspec.structs.replace(told, events=told.events[100:])
    assert len(as_shiviz_reads(convert(late))) == len(told.events) - 100


def test_what_shiviz_refuses_is_refused_here() -> None:
    lines = convert(told_run()).splitlines(keepends=True)
    host = lines[0].split()[0]
    for broken, why in (
        (lines[2:], "must begin at 1"),
        ([lines[0].replace(f'"{host}"', '"other"', 1), *lines[1:]], "is missing from"),
        ([*lines[:-2], lines[-2].replace('":1', '":1000', 1), lines[-1]], "clock"),
        (["not of the log\n", *lines], "leaves over"),
    ):
        with pytest.raises(ValueError, match=why):
            as_shiviz_reads("".join(broken))
