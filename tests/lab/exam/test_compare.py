"""Two drivers are asked the same, and only what differs is told."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from itertools import islice
from typing import Any, Final, cast

import msgspec
import pytest

from txnsim.cli.main import main
from txnsim.runtime.real_world import real_environment
from txnsim_lab.exam._application import Application
from txnsim_lab.exam.compare import (
    ACTS,
    ComparedDriver,
    ComparisonLimits,
    DriverComparison,
    SituationDifference,
    by_hints,
    compare,
    results_differ,
    variants,
    with_acts,
)
from txnsim_lab.exam.results import NotAskedError, Result, SituationOutcome
from txnsim_lab.exam.run import choose_situations
from txnsim_lab.exam.situations import SITUATIONS
from txnsim_lab.exam.targets import SimulatedTargets

YES: Final = """
import json, sys
for line in sys.stdin:
    number = json.loads(line)["id"]
    print(json.dumps({"id": number, "ok": True, "contract": 1, "library": "yes"}), flush=True)
"""
"""Answers "ok" to everything."""
NO: Final = YES.replace(
    '"ok": True', '"ok": "describe" in line, "error": {"name": "UNSUPPORTED_COMMAND"}'
)
"""Knows its name only."""
SOME: Final = ("lag-is-zero", "seek-to-marker")


def driver(program: str) -> str:
    return shlex.join([sys.executable, "-c", program])


def compare_programs(
    program: str, other_program: str, *, minutes: float = 0.0
) -> tuple[DriverComparison, list[str]]:
    situation_names: list[str] = []

    def tell(name: str, _difference: SituationDifference | None) -> None:
        situation_names.append(name)

    async def asked() -> DriverComparison:
        return await compare(
            (
                ComparedDriver(command=driver(program)),
                ComparedDriver(command=driver(other_program)),
            ),
            choose_situations(SITUATIONS, SOME),
            SimulatedTargets(),
            ComparisonLimits(levels=(2,), minutes=minutes, seed=7),
            clock=real_environment().clock,
            report_difference=tell,
        )

    return asyncio.run(asked()), situation_names


def test_a_driver_is_like_itself() -> None:
    comparison, situation_names = compare_programs(YES, YES)
    assert comparison.differences == ()
    assert situation_names == ["lag-is-zero@2", "seek-to-marker@2"]
    assert comparison.situations == 2


def test_where_nothing_applies_nothing_was_compared(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--only", SOME[0], "--transaction-version", "2", "--minutes", "0")
    assert main(["exam", "compare", driver(NO), driver(NO), *options]) == 2
    assert "nothing was compared" in capsys.readouterr().err


@pytest.mark.costly
def test_where_two_drivers_part_both_results_are_told_and_variants_are_drawn_near() -> None:
    comparison, situation_names = compare_programs(YES, NO, minutes=0.05)
    first_difference = comparison.differences[0]
    assert (first_difference.situation, first_difference.one.outcome) == (
        "lag-is-zero",
        SituationOutcome.MISSED,
    )
    assert first_difference.other.outcome is SituationOutcome.DOES_NOT_APPLY
    assert first_difference.times == 2
    assert first_difference.about == ("spring-kafka #1587",)
    drawn_differences = [difference for difference in comparison.differences if difference.drawn]
    assert comparison.variants >= len(drawn_differences) > 0
    assert {difference.situation for difference in drawn_differences} <= set(SOME)
    assert len(situation_names) == comparison.situations + comparison.variants


def result(outcome: SituationOutcome, **fields: Any) -> Result:
    return Result(situation="s", kind="readers", level=2, asks="?", outcome=outcome, **fields)


def test_what_a_user_would_see_parts_two_results() -> None:
    passed_result = result(SituationOutcome.PASSED, seconds=1.0, errors=("a",))
    assert not results_differ(passed_result, result(SituationOutcome.PASSED, seconds=2.0))
    assert results_differ(passed_result, result(SituationOutcome.MISSED))
    assert results_differ(
        passed_result, result(SituationOutcome.PASSED, choices=("it closes the producer",))
    )


def test_hints_bring_situations_with_their_words_to_the_front() -> None:
    hint = "read_committed no longer reports data loss after a marker in a later leader epoch"
    names = [situation.name for situation in by_hints(SITUATIONS, [hint])]
    assert any("later-leaders-marker" in name for name in names[:5])
    assert sorted(names) == sorted(situation.name for situation in SITUATIONS)
    assert by_hints(SITUATIONS, []) == list(SITUATIONS)


def test_a_seed_draws_the_same_variants() -> None:
    chosen_questions = [(situation, 2) for situation in choose_situations(SITUATIONS, SOME)]
    drawn_variants = [
        [variant for _, _, variant in islice(variants(chosen_questions, seed), 20)]
        for seed in (1, 1, 2)
    ]
    assert drawn_variants[0] == drawn_variants[1] != drawn_variants[2]
    assert all(any(act_name in line for act_name in ACTS) for line in drawn_variants[0])
    assert list(variants([], 1)) == []


def test_acts_come_before_their_commands_and_what_can_not_be_done_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []

    async def act(_application: Application) -> None:
        order.append("act")

    async def refuse_act(_application: Application) -> None:
        raise NotAskedError("no other replica")

    monkeypatch.setitem(cast("dict[str, Any]", ACTS), "act", act)
    monkeypatch.setitem(cast("dict[str, Any]", ACTS), "refused", refuse_act)

    class Played:
        between: Any = None

        def __init__(self) -> None:
            self.steps: list[str] = []

    async def play(app: Application) -> None:
        for number in (1, 2, 3):
            assert app.before_command is not None
            await app.before_command(number)
            order.append(str(number))

    app = Played()
    changed_play: Any = with_acts(play, [(2, "act"), (3, "refused")])
    asyncio.run(changed_play(app))
    assert order == ["1", "act", "2", "3"]
    assert app.steps == ["not done: no other replica"]


def test_the_command_tells_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "exam",
        "compare",
        driver(YES),
        driver(NO),
        "--only",
        "lag-is-zero",
        "--minutes",
        "0",
    ]
    assert main([*arguments, "--transaction-version", "2"]) == 1
    output = capsys.readouterr().out
    assert "lag-is-zero@2 (spring-kafka #1587)" in output
    assert "  A missed: " in output
    assert "  B does not apply: " in output
    assert "Known bugs that look so: spring-kafka #1587." in output
    assert main([*arguments, "--level-a", "1", "--level-b", "2", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["one"].endswith("at transaction.version 1")
    assert [difference["one"]["level"] for difference in report["differences"]] == [1]
    assert msgspec.convert(report, DriverComparison).seed == 1
