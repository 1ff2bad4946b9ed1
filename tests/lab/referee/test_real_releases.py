"""Which stories real releases are asked, and what the verdict says of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest

from txnsim_lab.referee import real_releases
from txnsim_lab.referee.real_releases import STORIES_PER_ANOMALY, ask_release
from txnsim_lab.referee.verdict import Pair, SideResult, Sighting, Source, Verdict, verdict_on
from txnsim_lab.referee.writing import as_json, html_of, lines_of, markdown_of
from txnsim_lab.scenario.on_real.comparison import ComparedRun
from txnsim_lab.scenario.runner import JudgesResult, RunResult, ScenarioRun

HANGS: Final = "stuck-last-stable-offset"
FOUND: Final = SideResult(sightings={HANGS: Sighting(because="t-0: it hangs")})


def story_pair(name: str, run: str, *, a: SideResult = FOUND, b: SideResult = FOUND) -> Pair:
    return Pair(source=Source.STORY, name=name, run=run, a=a, b=b)


def verdict_of(*pairs: Pair) -> Verdict:
    return verdict_on("4.3", "4.4", pairs, (), is_complete=True)


class Brokers:
    """Real brokers that come to given verdicts; keeps the runs that they were asked to play."""

    def __init__(self, observed: Sequence[str], *, why_not: str = "") -> None:
        self.observed = observed
        self.why_not = why_not
        self.played: list[tuple[str, str]] = []

    async def run_on_apache(
        self, version: str, plan: Sequence[ScenarioRun], casting: object, **reports: Any
    ) -> None:
        for scenario_run in plan:
            self.played.append((scenario_run.scenario.name, scenario_run.run))
            judges_result = JudgesResult(
                expected=(),
                observed=tuple(self.observed),
                because=tuple(f"{kind}: t-0" for kind in self.observed),
            )
            real = None if self.why_not else run_result(scenario_run, judges_result)
            reports["on_compared_run"](
                ComparedRun(scenario_run=scenario_run, on=version, real=real, why_not=self.why_not)
            )


def run_result(scenario_run: ScenarioRun, judges_result: JudgesResult) -> RunResult:
    return RunResult(
        scenario=scenario_run.scenario.name,
        anomaly="",
        run=scenario_run.run,
        mode=scenario_run.mode,
        take=scenario_run.take,
        seed=None,
        players=(),
        verdict=judges_result,
        cured=None,
        story=(),
        remarks=(),
        duration_ms=0,
        history=b"",
        trace=b"",
    )


async def asked(
    monkeypatch: pytest.MonkeyPatch, brokers: Brokers, verdict: Verdict, version: str = "4.4.0"
) -> Verdict:
    monkeypatch.setattr(real_releases, "run_on_apache", brokers.run_on_apache)
    answers = await ask_release(version, verdict, report_progress=lambda _line: None)
    return msgspec.structs.replace(verdict, real_answers=answers)


async def test_the_run_of_a_release_stands_for_that_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4.4.0 has no world of 4.2, but the same story in the same mode."""
    brokers = Brokers([HANGS])
    verdict = await asked(monkeypatch, brokers, verdict_of(story_pair("z27", "V+/4.2")))
    (played,) = brokers.played
    assert played != ("commit-without-a-leader", "V+/4.2")
    (answer,) = verdict.real_answers_on(verdict.anomalies[0])
    assert answer.story_run == ("z27", "V+/4.2")
    assert answer.kinds == (HANGS,)


async def test_stories_that_tell_the_designs_apart_come_first_and_few_are_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = [
        story_pair("late-produce-after-abort", "V-"),
        story_pair("z02", "V-"),
        story_pair("z03", "V-"),
        story_pair("z27", "V+/4.2", a=SideResult()),
    ]
    brokers = Brokers([])
    await asked(monkeypatch, brokers, verdict_of(*pairs))
    assert len(brokers.played) == STORIES_PER_ANOMALY
    assert brokers.played[0][0] == "commit-without-a-leader"


@pytest.mark.parametrize(
    ("brokers", "text", "has_it"),
    [
        (Brokers([HANGS]), "has it", True),
        (Brokers([]), "has it not", False),
        (Brokers(["lost-write"]), "has it not; it has lost-write", False),
        (Brokers([], why_not="it is another world"), "no verdict, it is another world", None),
        (Brokers(["story-failed"]), "no verdict, it did not come to its end", None),
    ],
)
async def test_the_verdict_says_what_real_brokers_did(
    monkeypatch: pytest.MonkeyPatch, brokers: Brokers, text: str, has_it: bool | None
) -> None:
    pair = story_pair("late-produce-after-abort", "V-")
    verdict = await asked(monkeypatch, brokers, verdict_of(pair))
    sentence = f"Apache Kafka 4.4.0, story late-produce-after-abort V-: {text}"
    assert any(sentence in line for line in lines_of(verdict))
    assert sentence in markdown_of(verdict)
    assert sentence in html_of(verdict)
    ((answer,),) = [anomaly["real"] for anomaly in as_json(verdict)["anomalies"]]
    assert answer["has_it"] is has_it


async def test_an_anomaly_without_a_story_is_asked_of_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = Brokers([])
    verdict = verdict_of(Pair(source=Source.SEED, name="7", a=FOUND, b=FOUND))
    assert not (await asked(monkeypatch, brokers, verdict)).real_answers
    assert not brokers.played
