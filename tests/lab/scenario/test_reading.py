from __future__ import annotations

import time  # noqa: TID251 - measures the CPU time of a pure function
from typing import Any

import pytest
import yaml

from tests.support.yaml_bombs import BOMBS
from txnsim.errors import ConfigError
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.reading import read, read_step

TEXT = catalog.find("z01")[0].read_text("utf-8")


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read("story.yaml", text)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("scenario", catalog.scenarios().values(), ids=lambda one: one.name)
def test_the_scenarios_that_come_along_are_in_order(scenario: Any) -> None:
    assert scenario.steps
    assert scenario.disarmed == ()


@pytest.mark.parametrize(
    ("old", "new", "field", "message"),
    [
        ("title: A", "titel: A", "titel", "did you mean title?"),
        (
            "plays: application",
            "plays: aplication",
            "actors.app.plays",
            "did you mean application?",
        ),
        ("do: begin}", "do: begin, vaule: x}", "steps.0.call.vaule", "did you mean value?"),
    ],
)
def test_a_wrong_file_is_refused_with_file_line_and_field(
    old: str, new: str, field: str, message: str
) -> None:
    assert old in TEXT
    line = next(number for number, line in enumerate(TEXT.splitlines(), 1) if old in line)
    found = problems(TEXT.replace(old, new, 1))
    told = [one for one in found if one.startswith(f"story.yaml:{line}: {field}: ")]
    assert any(message in one for one in told), found


def test_all_that_is_wrong_is_told_at_once_in_the_order_of_the_file() -> None:
    found = problems(TEXT.replace("title: A", "titel: A", 1).replace("goal:", "gaol:"))
    lines = [int(one.split(":")[1]) for one in found]
    assert lines == sorted(lines)
    assert {one.split(": ")[1] for one in found} == {"titel", "title", "gaol", "goal"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "story.yaml:1: scenario: expected a mapping of fields"),
        ("- a\n- b", "story.yaml:1: scenario: expected a mapping of fields"),
        ("name: a\nsteps: [", "story.yaml:2: no YAML: "),
        ("name: a\ntitle: b: c", "story.yaml:2: no YAML: mapping values are not allowed"),
        ("name: a\ntitle: b\nname: c", "story.yaml:3: name: given twice, first on line 1"),
        ("name: \x00", "story.yaml:1: no YAML: "),
    ],
)
def test_what_is_no_mapping_is_told_with_its_line(text: str, told: str) -> None:
    found = problems(text)
    assert found[0].startswith(told), found


def test_a_field_given_twice_in_two_steps_is_no_mistake() -> None:
    assert read("story.yaml", yaml.safe_dump(yaml.safe_load(TEXT))).name


def test_where_several_kinds_may_stand_none_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        read_step({"await": {"id": "app", "call": "c1"}})
    assert "step: await.id: no field 'id'; there are: call, error, offset" in str(caught.value)
    assert "Awaited" not in str(caught.value)
    assert "expected a text" not in str(caught.value)


def test_a_single_step_is_read_or_refused_with_its_field() -> None:
    assert read_step({"release": "late"}).release == "late"
    with pytest.raises(ConfigError, match="step: advance: expected a duration"):
        read_step({"advance": 5})
    with pytest.raises(ConfigError, match="step: nonsense: no field"):
        read_step({"release": "late", "nonsense": 1})


def test_fields_are_taken_in_both_spellings_and_told_with_their_line() -> None:
    other = (
        TEXT.replace("transactional-id:", "transactional_id:")
        .replace("wait-until:", "wait_until:")
        .replace("transactional_id: app}", "transactional-id: app}")
    )
    assert other != TEXT
    ours, theirs = read("story.yaml", TEXT), read("story.yaml", other)
    assert theirs == ours
    slow = "{id: a, point: client.request, client-id: x, action: {do: delay, delay-ms: 5}}"
    assert "steps:\n" in TEXT
    scenario = read("story.yaml", TEXT.replace("steps:\n", f"steps:\n  - arm: {slow}\n", 1))
    assert scenario.steps[0].arm is not None
    assert scenario.steps[0].arm.client_id == "x"
    wrong = other.replace("wait_until: {struck: ", "wait_until: {struck: no-", 1)
    line = next(at for at, one in enumerate(wrong.splitlines(), 1) if "struck: no-" in one)
    assert problems(wrong)[0].startswith(f"story.yaml:{line}: steps.")
    twice = TEXT.replace("do: begin}", "do: begin, member-id: a, member_id: b}", 1)
    assert "member-id is given twice" in problems(twice)[0]


@pytest.mark.parametrize("name", BOMBS)
def test_yaml_that_means_more_than_it_says_is_refused_at_once(name: str) -> None:
    text, message = BOMBS[name]
    began = time.process_time()
    with pytest.raises(ConfigError) as refusal:
        read("f", text)
    assert time.process_time() - began < 10
    assert str(refusal.value).startswith(message)


def test_a_text_that_libyaml_can_t_take_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="f:1: no YAML: "):
        read("f", "a: \ud800")
