from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.stories import late_produce, small
from txnsim.trace.story import Sentence
from txnsim_lab.cli._scenario.output import (
    facts_of,
    kinds,
    progress_of,
    show_of,
    story_of,
    table_of,
)
from txnsim_lab.scenario.runner import JudgesResult, RunResult

SCENARIO = late_produce()
WORLD = SCENARIO.runs["V-"]


def result(**changes: Any) -> RunResult:
    """An armed run in V- that came to what was declared."""
    given: dict[str, Any] = {
        "scenario": "late",
        "anomaly": "Z01",
        "run": "V-",
        "mode": "V-",
        "take": "armed",
        "seed": 7,
        "players": ("own client",),
        "verdict": finding(("lost-write",)),
        "cured": None,
        "story": (
            Sentence(at_ms=0, who="scenario", text="It begins.", is_narrated=True),
            Sentence(at_ms=12, who="t-0 (broker 1)", text="ABORT marker " + "word " * 20),
        ),
        "remarks": ("who said what",),
        "duration_ms": 5,
        "history": b"",
        "trace": b"",
    }
    return RunResult(**{**given, **changes})


def finding(observed: tuple[str, ...], *, expected: tuple[str, ...] | None = None) -> JudgesResult:
    return JudgesResult(
        expected=observed if expected is None else expected,
        observed=observed,
        because=tuple(f"{kind}: so it is" for kind in observed),
    )


def test_a_story_has_its_sentences_its_events_and_its_verdict() -> None:
    said: set[str] = set()
    text = story_of(WORLD, result(cured=finding(())), said=said)
    lines = text.splitlines()
    assert lines[0].startswith("── late V-: no verification")
    assert "Played by: own client." in " ".join(lines[:2])
    assert "It begins." in lines
    (event,) = [line for line in lines if line.startswith("    12 ms")]
    assert event.startswith("    12 ms  t-0 (broker 1): ABORT marker")
    assert all(len(line) <= 100 for line in lines)
    assert "(who said what)" in lines
    assert "Verdict: lost-write." in lines
    assert "After the cure: healthy." in lines
    again = story_of(WORLD, result(take="disarmed", players=()), said=said)
    assert "who said what" not in again
    assert "fault not armed" in again
    assert "control" in story_of(WORLD, result(take="control"), said=said)


def test_a_table_says_what_differs_and_why() -> None:
    wrong = result(
        run="V+",
        verdict=finding((), expected=("duplicate",)),
        cured=finding(("lost-write",), expected=()),
    )
    lines = table_of([result(), wrong]).splitlines()
    rows = [[cell.strip() for cell in line.split("\t")] for line in lines[:3]]
    assert rows[0] == ["Scenario", "Run", "Fault", "Player", "Verdict", "Cured"]
    assert rows[1] == ["late", "V-", "armed", "own client", "lost-write", "", "as declared"]
    assert rows[2][-1] == "expected duplicate; healthy"
    assert lines[3:] == [
        "late V+, armed, seed 7: nothing was found",
        "late V+, armed, seed 7: lost-write: so it is",
    ]


def test_progress_is_a_line_and_facts_are_all_of_it() -> None:
    assert progress_of(result(), number=2, of=3) == "2/3 late V- armed: lost-write (5 ms)"
    odd = result(verdict=finding((), expected=("duplicate",)))
    assert progress_of(odd, number=1, of=1) == "1/1 late V- armed: healthy, not declared (5 ms)"
    facts = facts_of(result())
    assert facts["as_declared"] is True
    assert facts["seed"] == 7
    assert facts["cured"] is None


def test_no_kinds_are_healthy() -> None:
    assert (kinds(()), kinds(("a", "b"))) == ("healthy", "a, b")


def test_all_of_a_scenario_is_shown() -> None:
    file = Path("z.yaml")
    shown = show_of(SCENARIO, file)
    for part in ("Goal: ", "Method: ", "Symptoms: ", "Control: ", "\nCure:\n1. ", "File: z.yaml"):
        assert part in shown
    bare = show_of(small([{"advance": "1s"}]), file)
    assert "Cure:" not in bare
    assert "control" not in bare
