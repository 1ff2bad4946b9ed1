"""Bars, lanes and axis."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

pytest.importorskip("jinja2", reason="the extra spark is not installed")

from txnsim_spark.report_page._time_line import LANES_MAX, WIDTH, Bar, in_lanes, time_line


def bar(from_ms: int, to_ms: int, label: str = "") -> Bar:
    return Bar(kind="committed", from_ms=from_ms, to_ms=to_ms, label=label)


def test_what_overlaps_is_below_each_other() -> None:
    bars = [bar(0, 10), bar(5, 20), bar(11, 15), bar(30, 25)]
    lanes = {(one.from_ms, one.to_ms): lane for lane, one in in_lanes(bars, gap_ms=1)}
    assert lanes == {(0, 10): 0, (5, 20): 1, (11, 15): 0, (30, 25): 0}


def test_the_last_lane_takes_what_has_no_room() -> None:
    bars = [bar(0, 10)] * (LANES_MAX + 3)
    lanes = [lane for lane, _ in in_lanes(bars, gap_ms=1)]
    assert lanes == [*range(LANES_MAX), *[LANES_MAX - 1] * 3]


def test_bars_are_within_the_picture_and_can_be_seen() -> None:
    bars = [bar(0, 0, "first"), bar(1_000_000, 1_000_001, "last")]
    drawn = ElementTree.fromstring(time_line("orders-0", bars))
    rects = drawn.findall("rect")
    for rect in rects:
        left, width = float(rect.attrib["x"]), float(rect.attrib["width"])
        assert left >= 0
        assert width >= 3
        assert left + width <= WIDTH
    assert [rect.findtext("title") for rect in rects] == ["first", "last"]
    assert [one.text for one in drawn.findall("text")] == [
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:08:20.000Z",
        "1970-01-01T00:16:40.001Z",
    ]


def test_one_moment_is_a_picture_too() -> None:
    assert time_line("orders-0", [bar(5, 5)]).count("<rect") == 1
