"""The output of ``txnsim scenario``: a story, a table, JSON values, a line of progress."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.cli.output import FormattedTable

if TYPE_CHECKING:
    from pathlib import Path

    from txnsim.trace.story import Sentence
    from txnsim_lab.scenario.model import Run, Scenario
    from txnsim_lab.scenario.runner import JudgesResult, RunResult

WIDTH: Final = 100
HEALTHY: Final = "healthy"
EVENT_INDENT: Final = " " * 13
"""Indent of an event, which follows its time, `` 123 ms ``, under the sentence that it belongs
to.
"""


def kinds_text(anomaly_kinds: Sequence[str]) -> str:
    """Kinds of anomalies in words; ``healthy`` for none."""
    return ", ".join(anomaly_kinds) or HEALTHY


def description_of(scenario: Scenario, path: Path) -> str:
    """The description of a scenario before a run."""
    alias_phrase = f" ({', '.join(scenario.aliases)})" if scenario.aliases else ""
    description_lines = [f"{scenario.name}{alias_phrase}: {scenario.title}"]
    for section_heading, section_text in (
        ("Goal", scenario.goal),
        ("Method", scenario.method),
        ("Symptoms", scenario.symptoms),
        ("Control", scenario.control),
    ):
        if section_text:
            description_lines += ["", wrap_text(f"{section_heading}: {section_text}")]
    description_lines.append("")
    description_lines += _step_sentences(scenario.steps)
    if scenario.cure:
        description_lines += ["", "Cure:", *_step_sentences(scenario.cure)]
    run_rows = [
        (
            run_name,
            declared_run.description,
            kinds_text(declared_run.verdict),
            _cured_kinds(scenario, declared_run),
        )
        for run_name, declared_run in scenario.runs.items()
    ]
    other_takes = ("fault not armed", "control")[: 2 if scenario.control else 1]
    run_rows += [("any", take, kinds_text(scenario.disarmed), "") for take in other_takes]
    run_table = FormattedTable.format_table(("Run", "World", "Expected verdict", "Cured"), run_rows)
    description_lines += ["", *(line.rstrip() for line in run_table.splitlines()), ""]
    description_lines += [f"Source: {source}" for source in scenario.sources]
    return "\n".join([*description_lines, f"File: {path}"])


def _step_sentences(steps: Sequence[object]) -> Iterator[str]:
    spoken_steps = [step for step in steps if getattr(step, "say", "")]
    for step_number, step in enumerate(spoken_steps, 1):
        take_groups = getattr(step, "only", ())
        condition_text = "".join(
            f" [{', '.join(condition_names)}]" for condition_names in take_groups
        )
        yield wrap_text(f"{step_number}. {str(getattr(step, 'say', '')).strip()}{condition_text}")


def _cured_kinds(scenario: Scenario, declared_run: Run) -> str:
    if not scenario.cure:
        return ""
    return kinds_text(declared_run.verdict if declared_run.cured is None else declared_run.cured)


def story_of(declared_run: Run, result: RunResult, *, printed_remarks: set[str]) -> str:
    """One run, sentence by sentence, with its verdict."""
    take_remark = {"armed": "", "disarmed": ", fault not armed", "control": ", control"}[
        result.take
    ]
    players_text = f" Played by: {', '.join(result.players)}." if result.players else ""
    story_lines = [
        wrap_text(
            f"── {result.scenario} {result.run}: {declared_run.description}{take_remark}."
            f"{players_text}"
        ),
        "",
    ]
    for sentence in result.story:
        if sentence.is_narrated:
            story_lines.append(wrap_text(sentence.text))
        else:
            story_lines += event_lines(sentence)
    story_lines += [
        wrap_text(f"({remark})") for remark in result.remarks if remark not in printed_remarks
    ]
    printed_remarks.update(result.remarks)
    story_lines += ["", wrap_text(f"Verdict: {kinds_text(result.verdict.observed)}.")]
    story_lines += [wrap_text(f"   {reason}") for reason in result.verdict.because]
    if result.cured is not None:
        story_lines.append(wrap_text(f"After the cure: {kinds_text(result.cured.observed)}."))
        story_lines += [wrap_text(f"   {reason}") for reason in result.cured.because]
    return "\n".join([*story_lines, ""])


def event_lines(sentence: Sentence) -> list[str]:
    """An event of a run, wrapped into lines."""
    event_text = f"{sentence.at_ms:6} ms  {sentence.who}: {sentence.text}"
    return textwrap.wrap(event_text, WIDTH, subsequent_indent=EVENT_INDENT)


def table_of(run_results: Sequence[RunResult]) -> str:
    """A table with a row per run, and the reasons for verdicts that differ from the declared
    ones.
    """
    run_rows = [
        (
            result.scenario,
            result.run,
            result.take,
            ", ".join(result.players),
            kinds_text(result.verdict.observed),
            "" if result.cured is None else kinds_text(result.cured.observed),
            _comparison_text(result),
        )
        for result in run_results
    ]
    headers = ("Scenario", "Run", "Fault", "Player", "Verdict", "Cured", "")
    run_table = FormattedTable.format_table(headers, run_rows).rstrip("\n")
    return "\n".join([*(line.rstrip() for line in run_table.splitlines()), *reasons(run_results)])


def reasons(run_results: Sequence[RunResult]) -> Iterator[str]:
    from txnsim_lab.scenario.runner import SEED_DEFAULT

    for result in run_results:
        for judges_result in findings(result):
            if not judges_result.as_declared:
                reason_text = "; ".join(judges_result.because) or "nothing was found"
                seed_text = "" if result.seed in (None, SEED_DEFAULT) else f", seed {result.seed}"
                yield wrap_text(
                    f"{result.scenario} {result.run}, {result.take}{seed_text}: {reason_text}"
                )


def findings(result: RunResult) -> Iterator[JudgesResult]:
    yield result.verdict
    if result.cured is not None:
        yield result.cured


def _comparison_text(result: RunResult) -> str:
    verdict_phrases = [
        kinds_text(judges_result.expected)
        for judges_result in findings(result)
        if not judges_result.as_declared
    ]
    return f"expected {'; '.join(verdict_phrases)}" if verdict_phrases else "as declared"


def progress_of(result: RunResult) -> str:
    """A line about a finished run: its name, its verdict and its duration in milliseconds."""
    verdict = kinds_text(result.verdict.observed)
    if not result.as_declared:
        verdict += ", not declared"
    return f"{result.scenario} {result.run} {result.take}: {verdict} ({result.duration_ms} ms)"


def facts_of(result: RunResult) -> dict[str, object]:
    """One run as JSON values."""
    return {
        "scenario": result.scenario,
        "animal": result.anomaly,
        "run": result.run,
        "mode": result.mode,
        "take": result.take,
        "seed": result.seed,
        "players": result.players,
        "as_declared": result.as_declared,
        "verdict": msgspec.to_builtins(result.verdict),
        "cured": msgspec.to_builtins(result.cured),
        "duration_ms": result.duration_ms,
        "remarks": result.remarks,
    }


def wrap_text(text: str) -> str:
    """Wrap a text as one paragraph."""
    return textwrap.fill(" ".join(text.split()), WIDTH, subsequent_indent="   ")
