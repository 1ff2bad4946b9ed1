"""The results of a run of the exam, and a page of it: self-contained, without scripts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from html import escape
from typing import Final

import msgspec

from txnsim.shell_text import ShellText, continued, option


class SituationOutcome(StrEnum):
    """The outcome of one situation at one level."""

    PASSED = "passed"
    MISSED = "missed"
    PROTOCOL = "protocol"
    """A miss that any client can have with transactions v1; KIP-890 removes it."""
    DOES_NOT_APPLY = "does not apply"
    """The library has no such command, or never sends the request that the fault would strike."""


class MissError(Exception):
    """The library does something forbidden."""


class NotAskedError(Exception):
    """The situation can't be played: with this library, or on this cluster."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one situation at one level."""

    situation: str
    kind: str
    level: int
    asks: str
    outcome: SituationOutcome
    because: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    """Errors that the library reported during the situation."""
    yardstick: str = ""
    """The rule of Kafka, or what the Java client does."""
    steps: tuple[str, ...] = ()
    """For a miss: what was done, that is, commands with their answers, and faults."""
    choices: tuple[str, ...] = ()
    """Where the library differs from the Java client in a point that is left to libraries."""
    story: tuple[str, ...] = ()
    """For a miss: what happened in the cluster."""
    recording: bytes = b""
    """For a miss: the trace of the situation."""
    about: tuple[str, ...] = ()
    """Known bugs with such a result."""
    seconds: float = 0.0

    @property
    def id(self) -> str:
        """The id of the miss in files of known misses."""
        return f"{self.situation}@{self.level}"

    @property
    def folder(self) -> str:
        """Name of the folder of the miss."""
        return f"{self.situation}-{self.level}"


class ExamRun(msgspec.Struct, frozen=True, kw_only=True):
    """All results of one library."""

    library: str
    version: str
    language: str
    runtime: str = ""
    """What runs the library, such as a JVM, as its driver reports it."""
    contract: int
    kafka: str
    """The Kafka that the exam was run on."""
    speaks: int
    """The newest version of transactions that the library was seen to use."""
    results: tuple[Result, ...]
    is_stopped: bool = False
    """Whether the run was stopped early; ``results`` then has the results up to the stop."""

    def count(self, outcome: SituationOutcome) -> int:
        return sum(result.outcome is outcome for result in self.results)

    @property
    def asked_nothing(self) -> bool:
        """Whether no situation applied, so that nothing is known of the library."""
        return self.count(SituationOutcome.DOES_NOT_APPLY) == len(self.results)

    def misses(self, known_ids: Collection[str] = ()) -> Iterator[Result]:
        missed = (result for result in self.results if result.outcome is SituationOutcome.MISSED)
        return (result for result in missed if result.id not in known_ids)

    def without_recordings(self) -> ExamRun:
        """The run as it is printed and kept: traces have files of their own."""
        results = tuple(msgspec.structs.replace(result, recording=b"") for result in self.results)
        return msgspec.structs.replace(self, results=results)


def known_misses(lines: Iterable[str]) -> frozenset[str]:
    """Read a file of known misses: one ``situation@level`` per line; ``#`` begins a comment."""
    plain_lines = (line.partition("#")[0].strip() for line in lines)
    return frozenset(line for line in plain_lines if line)


PAGE_CSS: Final = (
    "body{font:15px/1.5 system-ui;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #ccc;padding:.3rem;"
    "text-align:left;vertical-align:top}.missed{color:#a40000;font-weight:bold}.passed{color:#186218}"
    "pre{white-space:pre-wrap;background:#f6f6f6;padding:.6rem}"
)

PAGE_FILE_NAME: Final = "page.html"
"""Name of the page in the folder of a miss, which shows what happened in the cluster."""
FULLY_REPORTED_OUTCOMES: Final = (SituationOutcome.MISSED, SituationOutcome.PROTOCOL)
"""Outcomes that are reported in full."""


def escape_unprintable(text: str) -> str:
    """A driver's text in one line; characters that control terminals are escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def repeated_situation(exam_command: ShellText, result: Result) -> ShellText:
    """The command that plays one situation of a run again."""
    level_option = option("--transaction-version", result.level)
    return continued(exam_command, *option("--only", result.situation), *level_option)


def page(run: ExamRun, *, misses_path: str = "", known_misses: Collection[str] = ()) -> str:
    """The report as HTML.

    Args:
        run: The run to report.
        misses_path: Path to the folders of misses, for links; empty without folders.
        known_misses: Ids of misses that have no folder.
    """
    title = escape_unprintable(f"The exam of {run.library} {run.version}")
    outcome_counts = ", ".join(f"{run.count(outcome)} {outcome}" for outcome in SituationOutcome)
    return "\n".join(
        (
            '<!doctype html><html lang="en"><meta charset="utf-8">',
            f"<title>{escape(title)}</title><style>{PAGE_CSS}</style><h1>{escape(title)}</h1>",
            f"<p>{escape(outcome_counts)}. It speaks version {run.speaks} of transactions.</p>",
            "<table><tr><th>Class<th>Situation<th>transaction.version<th>Outcome</tr>",
            *map(_html_row, run.results),
            "</table>",
            *_story_lines(run, misses_path, known_misses),
        )
    )


def _html_row(result: Result) -> str:
    situation_cell = escape(result.situation)
    if result.outcome in FULLY_REPORTED_OUTCOMES:
        situation_cell = f'<a href="#{escape(result.id)}">{situation_cell}</a>'
    return (
        f"<tr><td>{escape(result.kind)}<td>{situation_cell}<br><small>{escape(result.asks)}</small>"
        f'<td>{result.level}<td class="{result.outcome.partition(" ")[0]}">{result.outcome}'
    )


def _story_lines(run: ExamRun, misses: str, known_ids: Collection[str]) -> Iterator[str]:
    for result in (
        candidate for candidate in run.results if candidate.outcome in FULLY_REPORTED_OUTCOMES
    ):
        yield f'<h2 id="{escape(result.id)}">{escape(result.id)}</h2><p>{escape(result.asks)}</p>'
        reasons = map(escape_unprintable, result.because)
        yield f"<ul>{''.join(f'<li>{escape(reason)}' for reason in reasons)}</ul>"
        yield f"<p>What was expected: {escape(result.yardstick)}</p>"
        has_folder = result.outcome is SituationOutcome.MISSED and result.id not in known_ids
        if misses and result.recording and has_folder:
            link_html = f"{misses}/{result.folder}/{PAGE_FILE_NAME}"
            yield f'<p><a href="{escape(link_html)}">What happened, step by step</a>'
        for heading_html, lines in (
            ("What was done", result.steps),
            ("What happened in the cluster", result.story),
        ):
            story_text = chr(10).join(map(escape_unprintable, lines))
            yield f"<h3>{heading_html}</h3><pre>{escape(story_text)}</pre>"
