"""How ``txnsim scenario`` prints what runs came to: a story, a table, facts, a line of progress."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from sim.cli.output import format_table

if TYPE_CHECKING:
    from sim.scenario.model import Mode
    from sim.scenario.runner import RunResult

WIDTH: Final = 100
EVENT_INDENT: Final = " " * 13
"""What happened stands behind its time, ``   123 ms  ``, below the sentence that it belongs to."""


def story_of(world: Mode, result: RunResult, *, said: set[str]) -> str:
    """One run, sentence by sentence, and its verdict.

    Args:
        world: Its mode.
        result: What it came to.
        said: Remarks of runs before, which are not repeated; this one's are added.
    """
    fault = "" if result.armed else ", fault not armed"
    lines = [
        wrapped(f"── {result.mode}: {world.title}{fault}. Producer: {result.player or 'nobody'}."),
        "",
    ]
    for sentence in result.story:
        if sentence.told:
            lines.append(wrapped(sentence.text))
        else:
            event = f"{sentence.at_ms:6} ms  {sentence.who}: {sentence.text}"
            lines += textwrap.wrap(event, WIDTH, subsequent_indent=EVENT_INDENT)
    lines += [wrapped(f"({remark})") for remark in result.remarks if remark not in said]
    said.update(result.remarks)
    lines += ["", wrapped(f"Verdict: {result.verdict.name}: {result.verdict.because}."), ""]
    return "\n".join(lines)


def table_of(results: Sequence[RunResult]) -> str:
    """A row per run; below, why those came to another verdict than declared."""
    rows = [
        (
            result.scenario,
            result.mode,
            _fault(result),
            result.player,
            result.verdict.name,
            "as declared" if result.as_declared else f"expected {result.expected}",
        )
        for result in results
    ]
    headers = ("Scenario", "Mode", "Fault", "Producer", "Verdict", "")
    table = format_table(headers, rows).rstrip("\n")
    return "\n".join(
        [
            *(line.rstrip() for line in table.splitlines()),
            *(
                wrapped(f"{result.mode}, {_fault(result)}: {result.verdict.because}")
                for result in results
                if not result.as_declared
            ),
        ]
    )


def progress_of(result: RunResult, *, number: int, of: int) -> str:
    """A run that has just ended, in one line."""
    verdict = result.verdict.name if result.as_declared else f"{result.verdict.name}, not declared"
    return (
        f"{number}/{of} {result.scenario} {result.mode} {_fault(result)}: {verdict}"
        f" ({result.duration_ms} ms)"
    )


def facts_of(result: RunResult) -> dict[str, object]:
    """A run for programs."""
    return {
        "scenario": result.scenario,
        "mode": result.mode,
        "armed": result.armed,
        "player": result.player,
        "verdict": msgspec.to_builtins(result.verdict),
        "expected": result.expected,
        "as_declared": result.as_declared,
        "duration_ms": result.duration_ms,
        "facts": msgspec.to_builtins(result.facts),
        "remarks": result.remarks,
    }


def wrapped(text: str) -> str:
    """A paragraph."""
    return textwrap.fill(" ".join(text.split()), WIDTH, subsequent_indent="   ")


def _fault(result: RunResult) -> str:
    return "armed" if result.armed else "disarmed"
