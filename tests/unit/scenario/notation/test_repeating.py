from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.support.stories import call, document, failure, seen, small, told, transaction
from txnsim.check.observations import Ended
from txnsim.errors import ConfigError
from txnsim.scenario.notation.repeating import rolled_out
from txnsim.scenario.reading import read

INIT = call("init-producer-id")


def problems(*steps: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        read("small.yaml", yaml.safe_dump(document(steps), sort_keys=False))
    return str(caught.value)


def test_steps_are_taken_so_often_and_know_their_turn() -> None:
    turns = {"repeat": 3, "steps": transaction("r{n}", "s{n}")}
    wanted = ["r1", "s1", "r2", "s2", "r3", "s3"]
    look = {"expect": {"partition": "t-0", "committed": wanted}}
    result = told([INIT, turns, look])
    assert result.as_declared, result.verdict
    assert len(seen(result, Ended)) == 3


def test_what_is_named_in_a_turn_is_named_once() -> None:
    begin = [call("begin"), call("add-partitions", partitions="t-0")]
    sent = call("produce", partition="t-0", value="r{n}", background="sent-{n}")
    turn = [*begin, sent, {"await": "sent-{n}"}, call("commit")]
    assert told([INIT, {"repeat": 2, "steps": turn}]).as_declared
    twice = [*begin, {**sent, "call": {**sent["call"], "background": "sent"}}]
    assert "steps.0.steps.2.call.background: sent is a call" in problems(
        {"repeat": 2, "steps": twice}
    )


def test_errors_name_the_line_and_the_field_of_the_file() -> None:
    wrong = problems(INIT, {"repeat": 2, "steps": [call("begin"), call("beginn")]}, call("begin"))
    lines = yaml.safe_dump(
        document([INIT, {"repeat": 2, "steps": [call("begin"), call("beginn")]}, call("begin")]),
        sort_keys=False,
    ).splitlines()
    at = lines.index("      do: beginn") + 1
    assert f"small.yaml:{at}: steps.1.steps.1.call.do: no call of a wire 'beginn'" in wrong


def test_a_failure_names_the_step_of_the_file() -> None:
    turn = {"repeat": 2, "steps": [{"expect": {"partition": "t-0", "stable": 7}}]}
    (because,) = told([INIT, turn]).verdict.because
    assert "steps.1.steps.0.expect: " in because
    assert failure(told([INIT, turn])) != ""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"repeat": 0, "steps": [INIT]}, "steps.0.repeat: expected how many times"),
        ({"repeat": True, "steps": [INIT]}, "steps.0.repeat: expected how many times"),
        ({"repeat": 2}, "steps.0.repeat: expected steps beside it"),
        ({"repeat": 2, "steps": [INIT], "say": "x"}, "steps.0.say: a repeat has steps and nothing"),
        ({"repeat": 2, "steps": [{"repeat": 2, "steps": [INIT]}]}, "can't stand in another one"),
        ({"repeat": 10_001, "steps": [INIT]}, "a story has at most 10000 steps"),
    ],
)
def test_what_is_no_repeat_is_refused_with_its_place(given: dict[str, Any], message: str) -> None:
    assert message in problems(given)


def test_a_file_without_a_repeat_is_left_alone() -> None:
    given = document([INIT])
    made, origins, found = rolled_out(given)
    assert made == given
    assert not found
    assert origins.of(("steps", 0, "call")) == ("steps", 0, "call")
    assert small([INIT]).steps[0].place == "small.yaml:26: steps.0.call"
