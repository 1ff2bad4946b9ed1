from __future__ import annotations

from typing import Any

from tests.support.stories import call, small
from txnsim_lab.scenario._notation.drawn_order import in_drawn_order


def test_parts_are_shuffled_and_all_else_stays() -> None:
    names = [call("append", "bystander", partition="t-0", value=value) for value in "abcde"]
    first, second, third, fourth, fifth = names
    part = {"only": "armed", "steps": [second, third]}
    steps = small([first, {"any-order": [part, fourth]}, fifth]).steps

    def values(shuffle: Any) -> str:
        drawn = in_drawn_order(steps, shuffle)
        return "".join(str(step.call.value) for step in drawn if step.call is not None)

    assert values(lambda parts: None) == "abcde"
    assert values(lambda parts: parts.reverse()) == "adbce"
