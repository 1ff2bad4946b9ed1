"""The catalogue as pages show it, and runs of it that repeat."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import msgspec
import pytest
import yaml

from tests.support.stories import small
from txnsim.cli.main import main
from txnsim.client.inspection.waiting_readers import explain
from txnsim.runtime.trace import TraceLevel
from txnsim.trace.trace_file import Recording
from txnsim.verdict.facts import ClusterFacts, MarkerSending
from txnsim.verdict.judge import judge_partition
from txnsim_lab.scenario import catalog, final_observation, runner
from txnsim_lab.scenario.catalog import scenarios
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.scenario_reader import read
from txnsim_lab.scenario.stage import RunningStory
from txnsim_lab.scenario.steps_model import (
    FIELDS_BY_CALL,
    FIELDS_BY_CLUSTER_ACT,
    Call,
    ClusterAct,
    Condition,
    Expectation,
    Step,
)
from txnsim_lab.trace.followed_trace import FollowedTrace

# The zoo of documented anomalies: in which generation of the protocol each one happens, written
# down here apart from the files, so that a file that declares something else is found out. ``Y``
# happens, ``n`` is prevented, ``Y/n`` happens before a fix and is prevented by it, ``-`` is not
# applicable or does not depend on the generation, so that nothing may happen there.


MODES: Final = ("V-", "V+", "TV2", "TV2+")

ZOO: Final = {
    "Z01": ("Y", "n", "n", "n"),
    "Z02": ("Y", "Y", "n", "n"),
    "Z03": ("Y", "n", "n", "n"),
    "Z04": ("Y", "n", "n", "n"),
    "Z05": ("Y", "Y", "n", "n"),
    "Z06": ("Y", "Y", "n", "n"),
    "Z07": ("Y/n", "n", "n", "n"),
    "Z08": ("Y/n", "n", "n", "n"),
    "Z09": ("Y/n", "n", "n", "n"),
    "Z10": ("Y/n", "-", "-", "-"),
    "Z11": ("Y/n", "-", "-", "-"),
    "Z12": ("Y/n", "Y/n", "-", "-"),
    "Z13": ("Y/n", "-", "-", "-"),
    "Z14": ("Y/n", "Y/n", "-", "-"),
    "Z15": ("Y/n", "-", "-", "-"),
    "Z16": ("Y", "n", "n", "n"),
    # Up to 2.4 deleting did heal.
    "Z17": ("Y/n", "Y", "Y", "Y"),
    "Z18": ("Y/n", "-", "-", "-"),
    "Z19": ("-", "Y/n", "n", "n"),
    "Z20": ("-", "Y/n", "n", "n"),
    "Z21": ("Y", "Y", "Y", "n"),
    "Z22": ("n", "n", "n", "Y/n"),
    "Z23": ("n", "n", "Y/n", "Y/n"),
    "Z24": ("Y", "Y", "Y", "Y"),
    "Z25": ("-", "-", "-", "-"),
    "Z26": ("Y/n", "Y/n", "Y/n", "Y/n"),
    # 4.2 keeps the marker, 4.3 drops it.
    "Z27": ("-", "Y/n", "Y/n", "-"),
    "Z28": ("Y", "Y", "Y", "Y"),
    "Z30": ("Y", "Y", "n", "n"),
    "Z31": ("Y", "Y", "Y", "Y"),
    "Z32": ("Y", "Y", "Y", "Y"),
    "Z33": ("Y", "Y", "Y", "Y"),
    "Z34": ("Y", "Y", "Y", "Y"),
    # Share groups: their releases have transactions v2.
    "Z35": ("-", "-", "Y", "-"),
    "Z36": ("-", "-", "Y", "-"),
    # Nothing is wrong: a follower is behind.
    "Z37": ("-", "-", "-", "-"),
}
"""Anomaly -> what happens in each mode."""

HAPPENS: Final = {
    "Y": ({True},),
    "n": ({False},),
    "Y/n": ({True, False},),
    "-": (set[bool](), {False}),
}
"""What the runs of a cell may come to: an anomaly or not."""


@cache
def anomalies() -> dict[str, Scenario]:
    """Each anomaly's own scenario; others with its number show further sides of it."""
    return {
        scenario.anomaly: scenario
        for scenario in scenarios().values()
        if scenario.anomaly.lower() in scenario.aliases
    }


def test_every_animal_has_a_scenario() -> None:
    assert sorted(anomalies()) == sorted(ZOO)


@pytest.mark.parametrize("anomaly", ZOO)
def test_an_anomaly_happens_where_it_is_documented_to(anomaly: str) -> None:
    declared_by_mode: dict[str, set[bool]] = defaultdict(set)
    for run in anomalies()[anomaly].runs.values():
        declared_by_mode[run.mode].add(bool(run.verdict))
    differences = {
        mode: (expected_text, declared_by_mode[mode])
        for mode, expected_text in zip(MODES, ZOO[anomaly], strict=True)
        if declared_by_mode[mode] not in HAPPENS[expected_text]
    }
    assert not differences


@pytest.mark.parametrize("anomaly", ZOO)
def test_what_was_fixed_is_shown_with_the_fix_and_without(anomaly: str) -> None:
    for label, run in anomalies()[anomaly].runs.items():
        if label.endswith("/before"):
            assert run.verdict, "a pre-fix run shows the anomaly"
            assert label.replace("/before", "/fixed") in anomalies()[anomaly].runs


# Every story that a page shows is played, in all its runs and takes; so is each list of steps.


ROOT: Final = Path(__file__).resolve().parents[3]
PAGES: Final = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "tests/real/FOUND.md",
)
PAGE_TEXTS: Final = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in PAGES}
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SEEDS: Final = range(1, 7)

PART: Final = {"plays": "member", "group": "billing"}
HEAD: Final[dict[str, Any]] = {
    "settings": {"group.initial.rebalance.delay.ms": 0},
    "topics": {"orders": 1, "in": 1},
    "actors": {
        "shop": {"plays": "wire", "transactional-id": "shop"},
        "first": PART,
        "second": PART,
    },
}
"""What the steps that a page shows without a file name."""
BEFORE: Final = (
    {"call": {"who": "shop", "do": "init-producer-id"}},
    {"call": {"who": "bystander", "do": "append", "partition": "in-0", "value": "order"}},
)


def scenarios_shown() -> Iterator[tuple[str, Scenario]]:
    """Each scenario in the pages, with the page and line of its block."""
    for page_text, text in PAGE_TEXTS.items():
        for block in BLOCK.finditer(text):
            place_in_page = f"{page_text}:{text.count(chr(10), 0, block.start()) + 1}"
            if block[1] == "yaml" and re.search("^steps:", block[2], re.MULTILINE):
                yield place_in_page, read(place_in_page, block[2])
            elif block[2].startswith("- "):
                control = {"control": "As it is."} if "only: control" in block[2] else {}
                yield place_in_page, small([*BEFORE, *yaml.safe_load(block[2])], **HEAD, **control)


SHOWN: Final = dict(scenarios_shown())
FAILS: Final = {
    "no-leader-after-fewer-replicas": (
        "waited 60000 ms in vain until broker 2 leads t-1; t-1 has no leader"
    ),
    "late-record": "produce is answered INVALID_PRODUCER_EPOCH, expected NONE",
}
"""Stories that ask a question, and the answer, which the page says too."""


def test_what_is_shown_is_found() -> None:
    assert [place_in_page.partition(":")[0] for place_in_page in SHOWN] == [
        "docs/hypotheses.md",
        *["docs/writing-scenarios.md"] * 5,
        *["tests/real/FOUND.md"] * 3,
    ]


def check(place_in_page: str, run_name: str, take_name: str, seed: int) -> None:
    scenario = SHOWN[place_in_page]
    result = run_in_virtual_time(
        ScenarioRun(scenario=scenario, run=run_name, take=take_name), seed=seed
    )
    failure = FAILS.get(scenario.name)
    if failure is None:
        assert result.as_declared, (run_name, take_name, seed, result.verdict)
    else:
        assert failure in PAGE_TEXTS[place_in_page.partition(":")[0]]
        assert result.verdict.observed == ("story-failed",)
        assert result.verdict.because[0].endswith(failure)


@pytest.mark.slow
@pytest.mark.parametrize("place_in_page", SHOWN)
def test_a_story_of_a_page_comes_to_what_the_page_says(place_in_page: str) -> None:
    check(place_in_page, next(iter(SHOWN[place_in_page].runs)), "armed", seed=SEEDS[0])


@pytest.mark.costly
@pytest.mark.parametrize("place_in_page", SHOWN)
def test_it_does_so_in_all_its_runs_and_takes(place_in_page: str) -> None:
    """Scenarios with members run with several seeds, because members act at the same time."""
    scenario = SHOWN[place_in_page]
    has_members = any(actor.plays == "member" for actor in scenario.cast.values())
    for seed in SEEDS if has_members else SEEDS[:1]:
        for run_name in scenario.runs:
            for take_name in scenario.takes:
                check(place_in_page, run_name, take_name, seed)


# docs/writing-scenarios.md is enough to write one: its file runs, prints what the page shows, and
# is refused with what the page shows when a word is wrong.


WRITING_ROOT = Path(__file__).resolve().parents[3]
PAGE = (WRITING_ROOT / "docs/writing-scenarios.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
EXAMPLE, APPLICATION, _ = [text for language, text in BLOCKS if language == "yaml"]


def cells(text: str) -> list[list[str]]:
    """The cells of a table's lines, without padding."""
    return [
        [cell_text.strip() for cell_text in line.split("\t")] for line in text.splitlines() if line
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that has the page's example file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "early-commit.yaml").write_text(EXAMPLE, "utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_the_example_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [text for _, text in BLOCKS if "scenario run early-commit.yaml" in text]
    command, _, table = example.partition("\n")
    assert main(command.split()[2:]) == 0
    assert cells(capsys.readouterr().out) == cells(table)
    assert main(["scenario", "run", "early-commit.yaml", "--quiet"]) == 0


def test_a_wrong_word_is_refused_with_what_the_page_shows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = [text for _, text in BLOCKS if text.startswith("txnsim: typo.yaml")]
    (folder / "typo.yaml").write_text(EXAMPLE.replace("do: begin}", "do: beginn}"), "utf-8")
    assert main(["scenario", "run", "typo.yaml"]) == 2
    assert capsys.readouterr().err == example


def test_the_page_names_everything_that_a_file_may_say() -> None:
    field_names = {
        *(act_name.rstrip("_") for act_name in Step.choices()),
        *(do for can in FIELDS_BY_CALL.values() for do in can),
        *FIELDS_BY_CLUSTER_ACT,
        *Condition.choices(),
        *Call.model_fields,
        *ClusterAct.model_fields,
        *Expectation.model_fields,
    }
    missing = [
        field_name
        for field_name in sorted(field_names)
        if f"`{field_name.rstrip('_').replace('_', '-')}" not in PAGE
    ]
    assert missing == []


@pytest.mark.slow
def test_the_application_is_convicted_where_it_does_not_go_back() -> None:
    aborts = APPLICATION.replace("do: commit}", "do: abort}", 1).replace(
        "is: CompleteCommit", "is: [CompleteAbort, Empty]", 1
    )
    aborts = aborts.replace("committed: [bill 1, bill 2, bill 3]", "committed: [bill 3]")
    lossy_result = run_in_virtual_time(ScenarioRun(scenario=read("bills.yaml", aborts), run="TV2"))
    assert lossy_result.verdict.observed == ("skipped-input",), lossy_result.verdict
    assert "has processed 0, 1" in lossy_result.verdict.because[0]


def test_the_example_is_read() -> None:
    assert read("early-commit.yaml", EXAMPLE).name == "early-commit"


# ``txnsim txns why`` asks brokers, ``txnsim explain`` reads the trace: they say the same, also what
# was decided about a transaction that hangs.


def as_an_operator_sees(facts: ClusterFacts) -> ClusterFacts:
    """The facts without those that no broker tells clients, such as waiting readers."""
    return msgspec.structs.replace(
        facts,
        partitions=tuple(
            msgspec.structs.replace(partition, readers=None) for partition in facts.partitions
        ),
        owed_markers=tuple(
            msgspec.structs.replace(owed_marker, sending=MarkerSending.UNTOLD, held_by=None)
            for owed_marker in facts.owed_markers
        ),
        wrong_data=(),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "run_name"), [("z01", "V-"), ("z11", "V-/before"), ("z21", "TV2"), ("z27", "TV2/4.3")]
)
def test_an_operator_and_a_reader_of_the_trace_hear_the_same(name: str, run_name: str) -> None:
    sentence_pairs: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    async def look(running_story: RunningStory) -> None:
        await final_observation.observe_twice(running_story)
        environment = running_story.environment
        tracer = environment.tracer
        for partition in running_story.partitions:
            now_ms = environment.clock.now_ms()
            operator_explanation = await explain(
                await running_story.operator.admin(), partition, now_ms=now_ms
            )
            followed_trace = FollowedTrace.of(tracer.events(0), tracer.nodes)
            followed_trace.state.at_us = (now_ms - followed_trace.state.wall_ms) * 1000
            facts = as_an_operator_sees(followed_trace.facts(str(partition)))
            traced_verdict = judge_partition(facts.partitions[0], facts)
            sentence_pairs.append((operator_explanation.sentences, traced_verdict.sentences))

    scenario_run = ScenarioRun(scenario=catalog.find(name)[1], run=run_name, take="armed")
    with patch.object(runner, "observe_twice", look):
        run_in_virtual_time(scenario_run, trace_level=TraceLevel.FULL)
    assert sentence_pairs
    for operator_sentences, trace_sentences in sentence_pairs:
        assert trace_sentences == operator_sentences


# A run is told again from the header of its trace alone, event by event.


SEED = 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "take_name", "trace_level"),
    [
        ("late-marker", "armed", TraceLevel.BRIEF),
        ("late-marker", "disarmed", TraceLevel.FULL),
        ("z05", "control", TraceLevel.BRIEF),
    ],
)
def test_a_header_is_all_that_a_replay_needs(
    scenario: str, take_name: str, trace_level: TraceLevel
) -> None:
    found_scenario = catalog.find(scenario)[1]
    take_name = take_name if take_name in found_scenario.takes else "armed"
    run_name = list(found_scenario.runs)[-1]
    first_trace = run_in_virtual_time(
        ScenarioRun(scenario=found_scenario, run=run_name, take=take_name),
        seed=SEED,
        trace_level=trace_level,
    ).trace
    header = Recording.from_lines("first", first_trace.splitlines()).header
    second_run = ScenarioRun(
        scenario=catalog.find(header["scenario"])[1], run=header["run"], take=header["take"]
    )
    assert header["mode"] == second_run.mode
    replayed_trace = run_in_virtual_time(
        second_run, seed=header["seed"], trace_level=TraceLevel(header["level"])
    ).trace
    assert (
        Recording.from_lines("replay", replayed_trace.splitlines())
        .trailer["hash"]
        .startswith("sha256:")
    )
    assert replayed_trace == first_trace
    other_trace = run_in_virtual_time(second_run, seed=SEED + 1, trace_level=trace_level).trace
    assert other_trace != first_trace, "the seed matters, so that equal traces mean something"
