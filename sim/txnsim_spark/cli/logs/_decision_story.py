"""``txnsim logs decisions --story``: a scenario that makes a finding again, played, and judged by
the same query as the disks that the finding is from.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.files import working_in
from txnsim.on_demand_imports import borrowed
from txnsim.txn.decision_report import DecisionFinding

if TYPE_CHECKING:
    from txnsim.txn.finding_facts import FindingFacts

FEATURE: Final = "logs decisions --story"
DIFFERENT_STATUS: Final = 1
NO_STORY_STATUS: Final = 4


class StoryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What ``logs decisions --story --json`` prints."""

    finding: DecisionFinding
    why_no_story: Annotated[
        str | None, msgspec.Meta(description="Why there can be none; null if there is one.")
    ] = None
    story: Annotated[str | None, msgspec.Meta(description="The scenario's file.")] = None
    guesses: Annotated[
        tuple[str, ...], msgspec.Meta(description="What the logs don't tell, in sentences.")
    ] = ()
    verdict: Annotated[
        tuple[str, ...], msgspec.Meta(description="What the judges say of the run.")
    ] = ()
    is_same: Annotated[
        bool,
        msgspec.Meta(
            description="Whether the disks of the story have the same state for the decision."
        ),
    ] = False
    differences: Annotated[
        tuple[str, ...],
        msgspec.Meta(
            description="How the two findings differ, besides offsets, ids and times; or why the"
            " story failed."
        ),
    ] = ()

    @property
    def status(self) -> int:
        if self.story is None:
            return NO_STORY_STATUS
        return 0 if self.is_same else DIFFERENT_STATUS


def run(args: argparse.Namespace, facts: FindingFacts) -> int:
    """Write, play, judge and print the story of a finding; returns the exit status.

    Raises:
        MissingExtraError: ``txnsim_lab`` is not installed.
        ConfigError: The disks of the story can't be written.
    """
    from txnsim.cli.event_log import set_up_logs

    set_up_logs(level="critical")  # standard output is the story's
    report = report_of(facts)
    if args.json:
        TERMINAL.json(report)
    else:
        _print_story(report)
    return report.status


def report_of(facts: FindingFacts) -> StoryReport:
    """Write, play and judge the story of a finding."""
    finding_story: Any = borrowed("txnsim_lab.scenario.finding_story", FEATURE)
    story = finding_story.story_of(facts)
    if isinstance(story, finding_story.NoStory):
        return StoryReport(finding=facts.finding, why_no_story=story.why)
    story_disks: Any = borrowed("txnsim_lab.scenario.story_disks", FEATURE)
    with (
        tempfile.TemporaryDirectory(prefix="txnsim-") as scratch_folder,
        working_in(Path(scratch_folder)),
    ):
        played_story = story_disks.play_finding_story(story, Path(scratch_folder))
        findings = _findings_of(played_story.directories, played_story.stopped_at_ms)
    same_findings = [finding for finding in findings if _key_of(finding) == _key_of(facts.finding)]
    difference_texts: tuple[str, ...]
    if played_story.failure:
        difference_texts = (f"the story did not come to its end: {played_story.failure}",)
    elif same_findings:
        difference_texts = min(
            (differences_between(facts.finding, finding) for finding in same_findings), key=len
        )
    else:
        finding_ids = ", ".join(finding.id for finding in findings) or "nothing"
        difference_texts = (f"on the disks of the story there is {finding_ids}",)
    return StoryReport(
        finding=facts.finding,
        story=played_story.yaml_text,
        guesses=story.guesses,
        verdict=played_story.verdict,
        is_same=bool(same_findings) and not played_story.failure,
        differences=difference_texts,
    )


def _findings_of(directories: tuple[Path, ...], stopped_at_ms: int) -> tuple[DecisionFinding, ...]:
    from txnsim.runtime.wall_clock import wall_ms
    from txnsim_spark.forensics.find_hanging import Search
    from txnsim_spark.questions.decisions import find_decisions

    if not directories:
        return ()
    search = Search(paths=directories, as_of_ms=stopped_at_ms, now_ms=wall_ms(), never_spark=True)
    return find_decisions(search).findings


def _key_of(finding: DecisionFinding) -> tuple[object, ...]:
    """The state of a finding, with the decision that the finding is about."""
    return (
        finding.state,
        finding.transactional_id,
        finding.topic,
        finding.partition,
        None if finding.decision is None else finding.decision.outcome,
    )


def differences_between(
    finding: DecisionFinding, story_finding: DecisionFinding
) -> tuple[str, ...]:
    """How a finding differs from that of its story, besides offsets, ids and times."""
    text_pair_by_name = {
        "markers": (_outcomes_of(finding), _outcomes_of(story_finding)),
        "records": (finding.records, story_finding.records),
        "read as": (_without_numbers(finding.reads_as), _without_numbers(story_finding.reads_as)),
        "explained by": (finding.explained_by, story_finding.explained_by),
    }
    return tuple(
        f"{name}: {expected or 'nothing'} on the disks, {actual or 'nothing'} in the story"
        for name, (expected, actual) in text_pair_by_name.items()
        if expected != actual
    )


def _outcomes_of(finding: DecisionFinding) -> str:
    return ", ".join(marker.outcome.upper() for marker in finding.markers)


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "N", text)


def _print_story(report: StoryReport) -> None:
    if report.story is None:
        TERMINAL.complain(f"{report.finding.id}: no story: {report.why_no_story}")
        return
    TERMINAL.text(report.story.rstrip("\n"))
    for guess in report.guesses:
        TERMINAL.warn(f"guessed: {guess}")
    if report.is_same:
        TERMINAL.warn(f"played: its disks have the finding {report.finding.id} again")
    else:
        TERMINAL.warn("played: its disks do not have this finding")
    for difference in report.differences:
        TERMINAL.warn(f"different: {difference}")
