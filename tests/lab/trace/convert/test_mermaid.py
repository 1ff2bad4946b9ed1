from __future__ import annotations

import re

from tests.support.small_trace import small
from tests.support.traces import recording_of_run
from txnsim_lab.trace.convert.mermaid import ARROWS_MAX, convert

LINE = re.compile(
    r"sequenceDiagram|    participant n\d+ as \S.*"
    r"|    n\d+(->>|--x)n\d+: \S.*|    Note over n\d+: \S.*"
)


def test_every_line_is_one_that_mermaid_reads() -> None:
    lines = convert(recording_of_run()).splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert not re.search(r"[;#]", "\n".join(lines))
    assert any("fault.hit" in line for line in lines)


def test_a_long_run_keeps_its_newest_steps_and_says_what_is_left_out() -> None:
    note = ("a", "node.down", (), "", {"state": "end; of #1"})
    text = convert(small(("a",), *[note] * (ARROWS_MAX + 3)))
    assert "3 earlier steps are left out" in text
    assert text.count("Note over") == ARROWS_MAX + 1
    assert "End  of  1" in text


def test_a_lost_message_ends_in_a_cross() -> None:
    text = convert(
        small(
            ("a", "b"),
            ("a", "msg.send", (), "", {"api": "Produce"}),
            ("b", "msg.drop", (0,), "", {"api": "Produce"}),
        )
    )
    assert "n0--xn1: msg.drop Produce" in text


def test_an_empty_run_is_an_empty_diagram() -> None:
    assert convert(small(("a",))) == "sequenceDiagram\n"
