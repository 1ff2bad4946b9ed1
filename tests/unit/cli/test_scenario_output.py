from __future__ import annotations

from typing import Any

import msgspec

from sim.check.verdicts import Verdict
from sim.cli.scenario_output import WIDTH, facts_of, progress_of, story_of, table_of, wrapped
from sim.scenario.runner import RunResult
from sim.trace.story import Sentence
from tests.support.histories import hanging
from tests.support.stories import late_produce

WORLD = late_produce().modes["V-"]


def result(**changes: Any) -> RunResult:
    given: dict[str, Any] = {
        "scenario": "late-produce-after-abort",
        "mode": "V-",
        "armed": True,
        "player": "own client",
        "expected": "hanging-and-repaired",
        "verdict": Verdict(name="hanging-and-repaired", because="it was open"),
        "facts": hanging(),
        "story": (
            Sentence(at_ms=0, who="scenario", text="It sends a record.", told=True),
            Sentence(at_ms=12, who="reader", text="brings nothing " * 8),
        ),
        "remarks": ("a warning",),
        "duration_ms": 1_234,
        "trace": b"",
    }
    return RunResult(**(given | changes))


def test_a_story_names_world_and_producer_and_ends_with_its_verdict() -> None:
    lines = story_of(WORLD, result(), said=set()).splitlines()
    assert lines[0] == f"── V-: {WORLD.title}. Producer: own client."
    assert lines[2] == "It sends a record."
    assert lines[3].startswith("    12 ms  reader: brings nothing")
    assert lines[4].startswith(" " * 13 + "nothing brings")
    assert lines[5] == "(a warning)"
    assert lines[-1] == "Verdict: hanging-and-repaired: it was open."
    assert all(len(line) <= WIDTH for line in lines)


def test_a_disarmed_story_says_so_and_a_remark_is_made_once() -> None:
    said: set[str] = set()
    story_of(WORLD, result(), said=said)
    text = story_of(WORLD, result(armed=False, player=""), said=said)
    assert f"── V-: {WORLD.title}, fault not armed. Producer: nobody." in text
    assert "(a warning)" not in text


def test_the_table_has_a_row_per_run_and_explains_what_was_not_declared() -> None:
    other = result(armed=False, expected="aborted-in-time")
    head, first, second, reason = table_of([result(), other]).splitlines()
    assert head.split() == ["Scenario", "Mode", "Fault", "Producer", "Verdict"]
    assert first.split("\t")[-1] == "as declared"
    assert second.split("\t")[-1] == "expected aborted-in-time"
    assert reason == "V-, disarmed: it was open"


def test_progress_is_one_line() -> None:
    name = "late-produce-after-abort V- armed"
    assert progress_of(result(), number=2, of=6) == f"2/6 {name}: hanging-and-repaired (1234 ms)"
    odd = progress_of(result(expected="x"), number=2, of=6)
    assert odd == f"2/6 {name}: hanging-and-repaired, not declared (1234 ms)"


def test_facts_are_plain_values() -> None:
    found = msgspec.json.decode(msgspec.json.encode(facts_of(result())))
    assert found["verdict"] == {"name": "hanging-and-repaired", "because": "it was open"}
    assert (found["as_declared"], found["armed"], found["duration_ms"]) == (True, True, 1_234)
    assert found["facts"]["after_release"]["reader"]["values"] == []
    assert found["facts"]["found"][0]["start_offset"] == 1


def test_paragraphs_are_wrapped_and_their_line_ends_forgotten() -> None:
    assert wrapped(" a\n b ") == "a b"
