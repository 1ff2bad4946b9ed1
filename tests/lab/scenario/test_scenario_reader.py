"""Story files: how they are read, listed, described, saved and refused."""

from __future__ import annotations

import copy
import os
import time  # noqa: TID251 - measures the CPU time of a pure function
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import jsonschema
import pytest
import yaml

import txnsim_lab
from tests.support.stories import call, small
from tests.support.yaml_bombs import BOMBS
from txnsim.client.errors import (
    AbortableError,
    ClientError,
    ConnectionLostError,
    FatalError,
    RequestTimeoutError,
    RetriableError,
)
from txnsim.errors import ConfigError, ErrorCode
from txnsim_lab.cli._scenario.command import SCENARIO_TEMPLATE
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario._cluster_options import STRICT_MARKERS, leaders_of, new_topic, options_of
from txnsim_lab.scenario._pruning import Pruning
from txnsim_lab.scenario.call_results import CallResult, failure, read_answer
from txnsim_lab.scenario.catalog import directory, find
from txnsim_lab.scenario.driver_commands import Input
from txnsim_lab.scenario.fields import RunSelection
from txnsim_lab.scenario.json_schema import fault_schema, scenario_schema
from txnsim_lab.scenario.model import Actor, Run, Topic
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.saved_story import story_with_inputs
from txnsim_lab.scenario.scenario_reader import read, read_step

TEXT = catalog.find("z01")[0].read_text("utf-8")


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as error_info:
        read("story.yaml", text)
    return str(error_info.value).splitlines()


@pytest.mark.parametrize(
    "scenario", catalog.scenarios().values(), ids=lambda scenario: scenario.name
)
def test_the_scenarios_that_come_along_are_in_order(scenario: Any) -> None:
    assert scenario.steps
    assert scenario.disarmed == ()


@pytest.mark.parametrize(
    ("old_text", "new_text", "field_name", "message"),
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
    old_text: str, new_text: str, field_name: str, message: str
) -> None:
    assert old_text in TEXT
    line = next(number for number, line in enumerate(TEXT.splitlines(), 1) if old_text in line)
    complaints = problems(TEXT.replace(old_text, new_text, 1))
    complaints_of_line = [
        complaint
        for complaint in complaints
        if complaint.startswith(f"story.yaml:{line}: {field_name}: ")
    ]
    assert any(message in complaint for complaint in complaints_of_line), complaints


def test_all_that_is_wrong_is_told_at_once_in_the_order_of_the_file() -> None:
    complaints = problems(TEXT.replace("title: A", "titel: A", 1).replace("goal:", "gaol:"))
    lines = [int(complaint.split(":")[1]) for complaint in complaints]
    assert lines == sorted(lines)
    assert {complaint.split(": ")[1] for complaint in complaints} == {
        "titel",
        "title",
        "gaol",
        "goal",
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "story.yaml:1: scenario: expected a mapping of fields"),
        ("- a\n- b", "story.yaml:1: scenario: expected a mapping of fields"),
        ("name: a\nsteps: [", "story.yaml:2: no YAML: "),
        ("name: a\ntitle: b: c", "story.yaml:2: no YAML: mapping values are not allowed"),
        ("name: a\ntitle: b\nname: c", "story.yaml:3: name: given twice, first on line 1"),
        ("name: \x00", "story.yaml:1: no YAML: "),
    ],
)
def test_what_is_no_mapping_is_told_with_its_line(text: str, complaint: str) -> None:
    complaints = problems(text)
    assert complaints[0].startswith(complaint), complaints


def test_a_field_given_twice_in_two_steps_is_no_mistake() -> None:
    assert read("story.yaml", yaml.safe_dump(yaml.safe_load(TEXT))).name


def test_where_several_kinds_may_stand_none_is_named() -> None:
    with pytest.raises(ConfigError) as error_info:
        read_step({"await": {"id": "app", "call": "c1"}})
    assert "step: await.id: no field 'id'; there are: call, error, offset" in str(error_info.value)
    assert "Awaited" not in str(error_info.value)
    assert "expected a text" not in str(error_info.value)


def test_a_single_step_is_read_or_refused_with_its_field() -> None:
    assert read_step({"release": "late"}).release == "late"
    with pytest.raises(ConfigError, match="step: advance: expected a duration"):
        read_step({"advance": 5})
    with pytest.raises(ConfigError, match="step: nonsense: no field"):
        read_step({"release": "late", "nonsense": 1})


def test_fields_are_taken_in_both_spellings_and_told_with_their_line() -> None:
    text_in_other_spelling = (
        TEXT.replace("transactional-id:", "transactional_id:")
        .replace("wait-until:", "wait_until:")
        .replace("transactional_id: app}", "transactional-id: app}")
    )
    assert text_in_other_spelling != TEXT
    read_scenario, other_scenario = (
        read("story.yaml", TEXT),
        read("story.yaml", text_in_other_spelling),
    )
    assert other_scenario == read_scenario
    slow_rule = "{id: a, point: client.request, client-id: x, action: {do: delay, delay-ms: 5}}"
    assert "steps:\n" in TEXT
    scenario = read("story.yaml", TEXT.replace("steps:\n", f"steps:\n  - arm: {slow_rule}\n", 1))
    assert scenario.steps[0].arm is not None
    assert scenario.steps[0].arm.client_id == "x"
    wrong_text = text_in_other_spelling.replace(
        "wait_until: {struck: ", "wait_until: {struck: no-", 1
    )
    line = next(
        line_number
        for line_number, line_text in enumerate(wrong_text.splitlines(), 1)
        if "struck: no-" in line_text
    )
    assert problems(wrong_text)[0].startswith(f"story.yaml:{line}: steps.")
    repeating_text = TEXT.replace("do: begin}", "do: begin, member-id: a, member_id: b}", 1)
    assert "member-id is given twice" in problems(repeating_text)[0]


@pytest.mark.parametrize("bomb_name", BOMBS)
def test_yaml_that_means_more_than_it_says_is_refused_at_once(bomb_name: str) -> None:
    text, message = BOMBS[bomb_name]
    began = time.process_time()
    with pytest.raises(ConfigError) as error_info:
        read("f", text)
    assert time.process_time() - began < 10
    assert str(error_info.value).startswith(message)


def test_a_text_that_libyaml_can_t_take_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="f:1: no YAML: "):
        read("f", "a: \ud800")


@pytest.mark.slow
def test_every_scenario_that_comes_along_is_found_by_name_and_by_each_alias() -> None:
    scenario_by_path = catalog.scenarios()
    assert scenario_by_path
    for path, scenario in scenario_by_path.items():
        assert path.stem == scenario.name
        for name in (scenario.name, *scenario.aliases, scenario.name.upper()):
            assert catalog.find(name) == (path, scenario)
        assert catalog.find(str(path)) == (path, scenario)


def test_a_name_has_only_the_files_read_that_mention_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real_load = catalog.load

    def load(path: Path) -> object:
        read.append(path.stem)
        return real_load(path)

    monkeypatch.setattr(catalog, "load", load)
    catalog._load_once.cache_clear()
    assert catalog.scenario_of_name("Z01") is not None
    assert len(read) < len(list(catalog.directory().glob("*.yaml"))) / 2, read
    assert catalog.scenario_of_name("no-such-scenario-at-all") is None


def test_a_wheel_carries_them_beside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package_folder = tmp_path / "txnsim_lab"
    (package_folder / "scenarios").mkdir(parents=True)
    monkeypatch.setattr(txnsim_lab, "__file__", str(package_folder / "__init__.py"))
    assert catalog.directory() == package_folder / "scenarios"
    assert catalog.scenarios() == {}
    (package_folder / "scenarios").rmdir()
    with pytest.raises(ConfigError, match="the installation is incomplete"):
        catalog.directory()


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as error_info:
        catalog.find("late-produce")
    assert "did you mean late-produce-after-abort?" in str(error_info.value)


def test_a_file_that_cant_be_read_is_named(tmp_path: Path) -> None:
    missing_path, binary_file = tmp_path / "missing.yaml", tmp_path / "binary.yml"
    binary_file.write_bytes(b"name: \xff")
    with pytest.raises(ConfigError, match=r"missing\.yaml: can't be read: No such file"):
        catalog.find(str(missing_path))
    with pytest.raises(ConfigError, match=r"binary\.yml: not UTF-8 at byte 6"):
        catalog.find(str(binary_file))


def test_a_file_is_read_again_only_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = catalog.find("z01")[0].read_text("utf-8")
    monkeypatch.setattr(catalog, "directory", lambda: tmp_path)
    file = tmp_path / "late-produce-after-abort.yaml"
    file.write_text(source, "utf-8")
    found_scenario = catalog.find("late-produce-after-abort")[1]
    assert catalog.find("z01")[1] is found_scenario
    file.write_text(source.replace("title: A produce", "title: One produce"), "utf-8")
    os.utime(file, ns=(1, 1))
    assert catalog.find("z01")[1].title.startswith("One produce")


@pytest.mark.slow
def test_heads_say_what_the_models_say() -> None:
    head_by_name = {head["name"]: head for head in catalog.heads()}
    scenario_by_name = {scenario.name: scenario for scenario in catalog.scenarios().values()}
    assert list(head_by_name) == [scenario.name for scenario in scenario_by_name.values()]
    for scenario_name, scenario in scenario_by_name.items():
        head = head_by_name[scenario_name]
        assert tuple(head.get("aliases", ())) == scenario.aliases
        assert head.get("anomaly", "") == scenario.anomaly
        assert head["title"] == scenario.title
        assert list(head["runs"]) == list(scenario.runs)


ARMED = RunSelection(run="V-", mode="V-", take="armed")
DISARMED = RunSelection(run="V-", mode="V-", take="disarmed")


@pytest.mark.parametrize(
    ("only", "is_meant"),
    [
        ((), True),
        (("V-",), True),
        (("V+", "V-"), True),
        (("V+",), False),
        (("armed",), True),
        (("V-", "disarmed"), False),
        (("V-", "armed", "control"), True),
        (("program",), False),
        (("V-", "armed", "step-by-step"), True),
    ],
)
def test_of_each_kind_of_word_one_must_fit(only: tuple[str, ...], is_meant: bool) -> None:
    assert small([{"observe": "everything"}]).meant_for((only,), ARMED) is is_meant


def test_a_disarmed_run_leaves_out_what_is_about_faults() -> None:
    steps = [
        {"hold": {"id": "late", "point": "client.request", "api": "Produce"}},
        call("produce", partition="t-0", value="x", background="x"),
        {"wait-until": {"struck": "late"}},
        {"give-up": "x"},
        {"release": "late"},
        {"await": "x"},
        {"advance": "1s"},
    ]
    story = small(steps, cure=[{"advance": "1m"}])
    assert len(story.steps_of(ARMED)) == 7
    assert [step.call or step.await_ or step.advance for step in story.steps_of(DISARMED)] == [
        story.steps[1].call, "x", 1_000,
    ]  # fmt: skip
    assert [step.advance for step in story.cure_of(DISARMED)] == [60_000]


def test_everybodys_neighbours_are_there_without_being_declared() -> None:
    story = small([{"advance": "1s"}], actors={"reader": {"plays": "reader", "uncommitted": True}})
    assert story.cast["bystander"] == Actor(plays="bystander")
    assert story.cast["reader"].uncommitted


def test_a_file_may_still_call_its_anomaly_an_animal() -> None:
    assert small([{"advance": "1s"}], animal="Z01").anomaly == "Z01"
    with pytest.raises(ConfigError, match="anomaly is given twice"):
        small([{"advance": "1s"}], animal="Z01", anomaly="Z02")


def test_verdicts_are_kinds_and_healthy_is_none_of_them() -> None:
    runs = {
        "V-/before": {"mode": "V-", "verdict": "lost-write", "cured": "healthy"},
        "V-/fixed": {"mode": "V-", "title": "mended", "verdict": ["duplicate", "lost-write"]},
    }
    story = small([{"advance": "1s"}], runs=runs, cure=[{"advance": "1s"}])
    assert story.verdict_of("V-/before", "armed") == ("lost-write",)
    assert story.verdict_of("V-/fixed", "armed") == ("duplicate", "lost-write")
    assert story.verdict_of("V-/fixed", "disarmed") == ()
    assert story.runs["V-/before"].cured == ()
    assert story.runs["V-/fixed"].description == "mended"
    assert "verification" in story.runs["V-/before"].description
    assert story.takes == ("armed", "disarmed")
    assert set(story.words) >= {"V-/before", "V-/fixed", "V-", "armed", "program"}


# What an editor accepts is what the reader accepts, as far as a schema can say it.


STORIES = sorted(directory().glob("*.yaml"))
JUDGE = jsonschema.Draft202012Validator(scenario_schema())
RULES = jsonschema.Draft202012Validator(fault_schema())
JSON_SCHEMA_TEXT = SCENARIO_TEMPLATE.replace("NAME", "my-story")
RULE = {"id": "late", "point": "peer.request", "action": {"do": "delay", "delay_ms": 5}}


def complaints(document: Any) -> list[str]:
    return [schema_error.message for schema_error in JUDGE.iter_errors(document)]


def test_there_are_stories() -> None:
    assert len(STORIES) > 20


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_every_story_of_the_zoo_is_accepted(path: Any) -> None:
    assert complaints(yaml.safe_load(path.read_text("utf-8"))) == []


def test_a_new_story_is_accepted() -> None:
    assert complaints(yaml.safe_load(JSON_SCHEMA_TEXT)) == []


@pytest.mark.parametrize(
    "broken_fields",
    [
        {"titel": "x"},
        {"topics": {"orders": 0}},
        {"topics": {"orders": {"partition": 1}}},
        {"runs": {"V-": {"mod": "V-"}}},
        {"actors": {"shop": {"plays": "wires"}}},
        {"steps": [{"advance": "30 seconds"}]},
        {"steps": [{"call": {"who": "shop", "do": "produce", "partition": "orders"}}]},
        {"steps": [{"hold": {"id": "x", "point": "peer.reqest"}}]},
        {"steps": [{"arm": {"id": "x", "point": "peer.request", "action": {"do": "hld"}}}]},
        {"steps": [{"sleep": "5s"}]},
    ],
    ids=str,
)
def test_a_broken_one_is_not(broken_fields: dict[str, Any]) -> None:
    document = copy.deepcopy(yaml.safe_load(JSON_SCHEMA_TEXT))
    document.update(broken_fields)
    assert complaints(document)


def test_the_former_name_of_a_field_is_accepted_and_marked() -> None:
    assert complaints({**yaml.safe_load(JSON_SCHEMA_TEXT), "animal": "Z01"}) == []
    assert scenario_schema()["properties"]["animal"]["deprecated"]


def test_what_has_to_be_there_is_missed() -> None:
    assert len(complaints({"name": "x"})) >= 5


def test_a_fault_rule_is_judged_alone_too() -> None:
    assert RULES.is_valid(RULE)
    assert not RULES.is_valid({**RULE, "poin": 1})
    assert not RULES.is_valid({"id": "late", "point": "peer.request"})
    assert not RULES.is_valid({**RULE, "action": {"do": "delay"}})


STEPS = [{"advance": "1s"}]


def world(mode: str, **world_fields: object) -> Run:
    return Run.model_validate({"mode": mode, "verdict": "healthy", **world_fields})


@pytest.mark.parametrize(
    ("mode", "transaction_version", "verification", "strict"),
    [
        ("V-", 0, False, None),
        ("V+", 1, True, None),
        ("TV2", 2, True, False),
        ("TV2+", 2, True, True),
    ],
)
def test_a_mode_is_a_level_with_or_without_verification(
    mode: str, transaction_version: int, verification: object, strict: object
) -> None:
    options = options_of(small(STEPS), world(mode))
    assert options.settings.transaction_version == transaction_version
    assert options.settings.transaction_partition_verification_enable is verification
    assert options.rules.get(STRICT_MARKERS) is strict
    assert options.as_version == ()


def test_a_run_turns_switches_and_settings_and_may_be_another_release() -> None:
    story = small(STEPS, settings={"transaction.max.timeout.ms": 3_600_000})
    run = world(
        "TV2",
        rules={STRICT_MARKERS: True},
        settings={"num.partitions": 4},
        **{"as-version": "4.1"},
    )
    options = options_of(story, run)
    assert options.rules == {STRICT_MARKERS: True}
    assert options.settings.transaction_max_timeout_ms == 3_600_000
    assert options.as_version == ("4.1",)
    with pytest.raises(ConfigError, match=r"small: settings: .*no\.such"):
        options_of(small(STEPS, settings={"no.such": 1}), world("V-"))


def test_leaders_are_where_the_story_wants_them() -> None:
    topic = Topic.model_validate({"partitions": 4, "configs": {"a": True, "b": 3}})
    assert leaders_of(topic, broker_count=3) == (1, 2, 3, 1)
    wanted_topic = new_topic("t", topic, broker_count=3)
    assert wanted_topic.assignments[1] == (1, (2, 3, 1))
    assert wanted_topic.configs == {"a": "true", "b": "3"}
    placed_topic = Topic.model_validate({"partitions": 1, "leaders": [3], "replication-factor": 2})
    assert new_topic("t", placed_topic, broker_count=3).assignments == ((0, (3, 1)),)
    assert len(new_topic("t", topic, broker_count=1).assignments[0][1]) == 1


@pytest.mark.parametrize(
    ("error", "name", "outcome"),
    [
        (
            ConnectionLostError("cut", error=ErrorCode.network_exception),
            "CONNECTION_LOST",
            "unknown",
        ),
        (RequestTimeoutError("late"), "REQUEST_TIMED_OUT", "unknown"),
        (FatalError("no", error=ErrorCode.producer_fenced), "PRODUCER_FENCED", "failed"),
        (RetriableError("in vain"), "REQUEST_TIMED_OUT", "unknown"),
        (AbortableError("given up"), "TRANSACTION_ABORTABLE", "failed"),
        (ClientError("odd"), "ClientError", "failed"),
    ],
)
def test_what_goes_wrong_for_a_client_is_an_answer(
    error: ClientError, name: str, outcome: str
) -> None:
    call_result = failure(error)
    assert (call_result.error, call_result.outcome, call_result.because) == (
        name,
        outcome,
        str(error),
    )


def row(error: int, offset: int = 0) -> SimpleNamespace:
    return SimpleNamespace(error_code=error, base_offset=offset)


def test_an_answer_tells_its_first_telling_error_and_its_first_offset() -> None:
    produce_answer = SimpleNamespace(responses=[SimpleNamespace(partition_responses=[row(0, 4)])])
    assert read_answer(produce_answer) == CallResult(offset=4)
    add_answer = SimpleNamespace(
        results_by_topic_v3_and_below=[
            SimpleNamespace(
                results_by_partition=[
                    SimpleNamespace(partition_error_code=code)
                    for code in (ErrorCode.operation_not_attempted, ErrorCode.producer_fenced)
                ]
            )
        ]
    )
    assert read_answer(add_answer).error == "PRODUCER_FENCED"
    offsets = SimpleNamespace(topics=[SimpleNamespace(partitions=[row(0), row(51)])])
    assert read_answer(offsets).error == "CONCURRENT_TRANSACTIONS"
    assert read_answer(row(0)) == CallResult()
    assert read_answer(row(0)).outcome == "ok"


def test_what_was_done_to_a_run_becomes_steps_where_it_was_done() -> None:
    hang_scenario, end_input = find("z01")[1], Input(before=12, step={"advance": "5m"})
    read_early = {"who": "reader", "do": "read", "partition": "payments-0", "reads": []}
    look_input = Input(before=1, step={"call": read_early})
    text = story_with_inputs(
        hang_scenario,
        "V-",
        "armed",
        [end_input, look_input],
        story_name="mine",
        verdict="stuck-last-stable-offset",
    )
    read_scenario = read("mine.yaml", text)
    assert read_scenario.steps[1].call is not None
    assert read_scenario.steps[1].call.who == "reader"
    assert read_scenario.steps[-1].advance == 300_000
    assert len(read_scenario.steps) == 15
    for take_name in ("armed", "disarmed"):
        assert run_in_virtual_time(
            ScenarioRun(scenario=read_scenario, run="V-", take=take_name)
        ).as_declared


def test_what_is_said_of_other_runs_is_left_out_and_durations_are_kept() -> None:
    late_scenario = find("z23")[1]
    inputs = [Input(before=12, step={"advance": "1s"})]
    text = story_with_inputs(
        late_scenario, "TV2/before", "armed", inputs, story_name="mine", verdict="false-fencing"
    )
    assert "V+" not in text
    assert "transaction-timeout: 60s" in text or "60000ms" not in text  # the default is left out
    assert run_in_virtual_time(
        ScenarioRun(scenario=read("mine.yaml", text), run="TV2/before")
    ).as_declared


# Every mistake in one look: a wrong field hides no wrong call and no unknown name.

MISTAKEN = """\
name: moves-twice
title: Two producers
goal: See what two producers get.
method: The coordinator moves.
topics:
  orders: {partitions: 1, leaders: [1]}
  bills: {partitions: 2, leaders: [1, 2]}
actors:
  shop: {plays: wire, transactional-id: shop}
  bank: {plays: wire, transactional-id: bank}
runs:
  V-: {mode: V-, verdict: healthy}
steps:
  - call: {who: shop, do: init-producer-id}
  - call: {who: shop, do: begin}
  - call: {who: shop, do: produce, partition: bills-1, value: b2}
  - hold: {id: late, point: peer.request, api: WriteTxnMarkers}
  - call: {who: shop, do: commit, background: sc}
  - wait-until: {struck: late}
  - release: late
  - await: sc
  - expect: {partition: bills-1, committed: [b2]}
"""
"""Without a mistake."""
MISTAKES = {
    "runs": ("mode: V-", "mode: V++", "runs.V-.mode: no value 'V++'"),
    "verdict": ("healthy", "helthy", "runs.V-.verdict.0: no verdict 'helthy'"),
    "topics": ("partitions: 2", "partitions: two", "topics.bills.partitions: "),
    "actors": ("plays: wire, transactional-id: bank", "plays: wires", "actors.bank.plays: "),
    "calls": ("do: begin", "do: beginn", "steps.1.call.do: no call of a wire 'beginn'"),
    "names": ("do: produce, partition: bills-1", "do: produce, partition: billz-1",
              "steps.2.call.partition: no topic 'billz'"),
    "points": ("peer.request", "peer.requst", "steps.3.hold: point: no value 'peer.requst'"),
    "who": ("who: shop, do: commit", "who: shp, do: commit", "steps.4.call.who: no actor 'shp'"),
    "fields": ("- wait-until:", "- wait-untl:", "steps.5.wait-untl: no field 'wait-untl'"),
    "rules": ("- release: late", "- release: lat", "steps.6.release: no rule 'lat'"),
    "expected": ("committed: [b2]", "comitted: [b2]", "steps.8.expect.comitted: no field"),
}  # fmt: skip
"""What is right, what stands there instead, and what is said of it."""


def mistakes_in(text: str) -> list[str]:
    with pytest.raises(ConfigError) as error_info:
        read("bad.yaml", text)
    return str(error_info.value).splitlines()


def test_the_story_of_the_mistakes_has_none() -> None:
    assert read("good.yaml", MISTAKEN).name == "moves-twice"


@pytest.mark.parametrize("first_mistake", MISTAKES)
def test_two_mistakes_of_any_kind_are_named_at_once_and_no_others(first_mistake: str) -> None:
    for second_mistake in MISTAKES:
        text = MISTAKEN
        for mistake_name in {first_mistake: 0, second_mistake: 0}:
            right_text, wrong_text, _ = MISTAKES[mistake_name]
            assert right_text in text
            text = text.replace(right_text, wrong_text, 1)
        pair = {first_mistake, second_mistake}
        # A rule that is gone with its step is not missed.
        hidden_mistakes = {"rules"} if "points" in pair else set()
        mistakes = mistakes_in(text)
        for mistake_name in pair - hidden_mistakes:
            expected_words = MISTAKES[mistake_name][2]
            assert any(expected_words in mistake_line for mistake_line in mistakes), (
                pair,
                mistakes,
            )
        assert len(mistakes) <= len(pair), (pair, mistakes)


def test_a_story_of_mistakes_alone_is_refused_with_all_of_them() -> None:
    text = MISTAKEN
    for right_text, wrong_text, _ in MISTAKES.values():
        text = text.replace(right_text, wrong_text, 1)
    mistakes = mistakes_in(text)
    assert len(mistakes) in (len(MISTAKES) - 1, len(MISTAKES)), mistakes
    assert all(mistake_line.startswith("bad.yaml:") for mistake_line in mistakes)
    assert len(mistakes_in("runs: 1\nsteps: x\ntopics: []\nname: 3\n")) >= 4


def test_a_failure_names_the_first_answer_of_a_call_in_the_background() -> None:
    """While the coordinator moves, a commit in the background without ``error`` is over with
    NOT_COORDINATOR, so no marker comes.
    """
    text = MISTAKEN.replace(
        "  - call: {who: shop, do: commit",
        "  - arm: {id: moved, point: client.request, api: EndTxn, limit: 1, action: {do: error,"
        " error: NOT_COORDINATOR}}\n  - call: {who: shop, do: commit",
    )
    scenario_run = ScenarioRun(scenario=read("moves.yaml", text), run="V-")
    result = run_in_virtual_time(scenario_run)
    assert result.verdict.observed == ("story-failed",)
    assert (
        "the background call sc was answered NOT_COORDINATOR, and is not repeated without error:"
        " NONE" in " ".join(result.verdict.because)
    )


def test_the_page_has_every_kind_of_actor() -> None:
    page_text = (Path(txnsim_lab.__file__).parents[2] / "docs/writing-scenarios.md").read_text(
        "utf-8"
    )
    table = page_text[page_text.index("| `plays` | What it is") :].partition("\n\n")[0]
    kinds = {line.split("`")[1] for line in table.splitlines()[2:]}
    assert kinds == set(get_args(Actor.model_fields["plays"].annotation))


def test_a_wrong_part_is_taken_out_once_and_what_follows_from_it_is_not_told() -> None:
    document: dict[str, Any] = {"runs": {}, "steps": [{"hold": {"id": "late"}}, {"say": "a"}]}
    pruning = Pruning(document)
    assert pruning.remove_fields([(("steps", 0, "hold"), "no point")]) == [
        (("steps", 0, "hold"), "no point")
    ]
    assert pruning.remove_fields([(("steps", 0), "no act")]) == []
    assert pruning.follows(("steps", 1, "release"), "no rule 'late'")
    assert not pruning.follows(("steps", 1, "release"), "no rule 'lat'")
    assert document["steps"][0] == {"hold": {"id": "late"}}
