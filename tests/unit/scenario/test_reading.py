from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

import pytest
import yaml

from sim.errors import ConfigError
from sim.scenario import catalog
from sim.scenario.reading import read

PATH = catalog.find("z01")[0]
TEXT = PATH.read_text("utf-8")


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read("story.yaml", text)
    return str(caught.value).splitlines()


def line_of(part: str, *, text: str = TEXT) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.mark.parametrize("scenario", catalog.scenarios().values(), ids=lambda one: one.name)
def test_the_scenarios_that_come_along_are_in_order(scenario: Any) -> None:
    assert scenario.steps
    assert scenario.disarmed_verdict not in {mode.verdict for mode in scenario.modes.values()}


@pytest.mark.parametrize(
    ("old", "new", "field", "message"),
    [
        ("judge: late-produce", "juge: late-produce", "juge", "did you mean judge?"),
        ("judge: late-produce", "judge: late", "judge", "did you mean late-produce?"),
        ("topic: payments", "topic: payment", "roles.producer.topic", "did you mean payments?"),
        (
            "partition: 0",
            "partition: 1",
            "roles.producer.partition",
            "topic payments has the partitions 0 to 0",
        ),
        (
            "verdict: refused-by-epoch",
            "verdict: refused-by-epochs",
            "modes.TV2.verdict",
            "did you mean refused-by-epoch?",
        ),
        (
            "verdict: refused-by-epoch",
            "verdict: aborted-in-time",
            "modes.TV2.verdict",
            "a run with the fault must come to another verdict than one without",
        ),
        (
            "disarmed-verdict: aborted-in-time",
            "disarmed-verdict: unexplained",
            "disarmed-verdict",
            "there are: hanging-and-repaired",
        ),
        ("players: [own]", "players: [owl]", "modes.TV2.players.0", "did you mean own?"),
        ("modes: [V-, V+]", "modes: [V-, V]", "steps.*.modes.1", "did you mean V-?"),
        (
            "wait-until: {struck: late-produce}",
            "wait-until: {struck: late}",
            "steps.*.wait-until.struck",
            "did you mean late-produce?",
        ),
        (
            "release: late-produce",
            "release: too-late",
            "steps.*.release",
            "no rule 'too-late'",
        ),
        (
            "do: abort-found",
            "do: abort",
            "steps.*.call.do",
            "no call of operator 'abort'; did you mean abort-found?",
        ),
        (
            "do: begin",
            "do: begin, value: x",
            "steps.*.call.do",
            "send, and nothing else, takes a value",
        ),
        (
            ", values: [after-1, after-2]",
            "",
            "steps.*.call.do",
            "append, and nothing else, takes values",
        ),
        (
            "observe: reader-position",
            "observe: late-gauge-before",
            "steps.*.expect.observe",
            "needs a step before: reader-position",
        ),
        ("advance: 21m", "advance: 21", "steps.*.advance", "expected a duration"),
        ("observe: after-repair", "observe: after-all", "steps.*.expect.observe", "Input should"),
        ("programs: false # they", "programms: false # they", "steps.*.programms", "programs?"),
        ("who: bystander", "whom: bystander", "steps.*.call.whom", "did you mean who?"),
        ("api: Produce,", "api: Produze,", "steps.*.hold", "no API of Kafka's"),
        ("title: no ver", "titel: no ver", "modes.V-.titel", "did you mean title?"),
    ],
)
def test_a_wrong_file_is_refused_with_file_line_and_field(
    old: str, new: str, field: str, message: str
) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    changed = [
        number
        for number, (before, after) in enumerate(
            zip(TEXT.splitlines(), text.splitlines(), strict=True), 1
        )
        if before != after
    ]
    found = problems(text)
    told = [line for line in found if fnmatch(line.split(": ")[1], field) and message in line]
    assert told, found
    line = int(told[0].split(":")[1])
    if "needs a step before" not in message:
        assert told[0].startswith("story.yaml:")
        assert line == changed[0]


def edited(edit: Callable[[dict[str, Any]], object]) -> str:
    document = yaml.safe_load(TEXT)
    edit(document)
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


def test_a_rule_is_held_once_and_before_it_is_released() -> None:
    def hold_twice(document: dict[str, Any]) -> None:
        document["steps"].insert(0, document["steps"][3])

    def never_hold(document: dict[str, Any]) -> None:
        del document["steps"][3]

    assert any(
        "late-produce is held by a step before" in one for one in problems(edited(hold_twice))
    )
    assert any("no step before holds 'late-produce'" in one for one in problems(edited(never_hold)))


def test_all_that_is_wrong_is_told_at_once_in_the_order_of_the_file() -> None:
    found = problems(TEXT.replace("judge:", "juge:").replace("goal:", "gaol:"))
    lines = [int(one.split(":")[1]) for one in found]
    assert lines == sorted(lines)
    assert {one.split(": ")[1] for one in found} == {"juge", "judge", "gaol", "goal"}


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
