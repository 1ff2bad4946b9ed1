"""The verdict on pairs that are made by hand, and its forms."""

from __future__ import annotations

import shlex

import pytest

from txnsim.cli.main import parser_of
from txnsim_lab.referee.verdict import (
    CostLine,
    Pair,
    Side,
    SideResult,
    Sighting,
    Source,
    Standing,
    Verdict,
    verdict_on,
)
from txnsim_lab.referee.writing import as_json, html_of, lines_of, markdown_of, sentence_of

COSTS = (CostLine(what="requests", mode="newest protocol", a=3.0, b=None),)


def side_of(*kinds: str, way: str = "", **further: object) -> SideResult:
    sightings = {
        kind: Sighting(because=f"{kind} <was> seen", way=way, deviations=way.count(";") + bool(way))
        for kind in kinds
    }
    return SideResult(sightings=sightings, **further)  # type: ignore[arg-type]


def seed(number: int, a: SideResult, b: SideResult) -> Pair:
    return Pair(source=Source.SEED, name=str(number), a=a, b=b)


def verdict_of(*pairs: Pair, is_complete: bool = True) -> Verdict:
    return verdict_on("4.3", "4.4,fix.py", pairs, COSTS, is_complete=is_complete)


@pytest.mark.parametrize(
    ("runs", "standing", "counts"),
    [
        ([("x", "")], Standing.CURED, (1, 0, 0)),
        ([("", "x")], Standing.BROUGHT, (0, 1, 0)),
        ([("x", "x")], Standing.LEFT, (0, 0, 1)),
        ([("x", "x"), ("x", "")], Standing.CURED_IN_PART, (1, 0, 1)),
        ([("x", "x"), ("", "x")], Standing.BROUGHT_IN_PART, (0, 1, 1)),
        ([("", "x"), ("x", "")], Standing.CHANGED, (1, 1, 0)),
    ],
)
def test_an_anomaly_stands_by_the_pairs_that_have_it(
    runs: list[tuple[str, str]], standing: Standing, counts: tuple[int, int, int]
) -> None:
    verdict = verdict_of(
        *(
            seed(number, side_of(*filter(None, [a])), side_of(*filter(None, [b])))
            for number, (a, b) in enumerate(runs)
        )
    )
    (line,) = verdict.anomalies
    assert line.standing is standing
    assert (line.only_a, line.only_b, line.both) == counts
    assert verdict.differs is (standing is not Standing.LEFT)


def test_the_example_is_the_run_that_is_easiest_to_follow() -> None:
    longer_pair = Pair(
        source=Source.EXPLORE, name="first", a=side_of("x", way="1 a; 2 b"), b=side_of()
    )
    shorter_pair = Pair(
        source=Source.EXPLORE, name="second", a=side_of("x", way="1 a"), b=side_of()
    )
    verdict = verdict_of(seed(10, side_of("x"), side_of()), seed(9, side_of("x"), side_of()))
    assert verdict.anomalies[0].examples[0].pair.name == "9"
    verdict = verdict_of(seed(9, side_of("x"), side_of()), longer_pair, shorter_pair)
    (example,) = verdict.anomalies[0].examples
    assert (example.side, example.pair) == (Side.A, shorter_pair)


def test_what_was_not_played_to_its_end_is_named() -> None:
    cut_side = side_of(is_complete=False, remark="its time was up")
    verdict = verdict_of(seed(1, side_of(), cut_side))
    assert not verdict.is_complete
    assert verdict.remarks == ("seed 1, B: its time was up",)
    assert sentence_of(verdict) == "Neither design leaves an anomaly. Not all was played."


def test_a_plug_in_that_failed_is_said_first_in_each_form() -> None:
    failed_side = side_of(failures=("fix.py:3: KeyError",))
    verdict = verdict_of(seed(1, side_of("x"), failed_side), seed(2, side_of(), failed_side))
    assert verdict.failures == ("B: fix.py:3: KeyError",)
    sentence = sentence_of(verdict)
    assert sentence.startswith("A plug-in failed, so this is no verdict on its design. B cures")
    lines = list(lines_of(verdict))
    assert lines[lines.index(sentence) + 1] == "! B: fix.py:3: KeyError"
    assert "<li>B: fix.py:3: KeyError" in html_of(verdict)
    assert "- B: fix.py:3: KeyError" in markdown_of(verdict)
    assert as_json(verdict)["failures"] == ["B: fix.py:3: KeyError"]


def story(name: str, a: SideResult, b: SideResult) -> Pair:
    return Pair(source=Source.STORY, name=name, run="today", a=a, b=b)


def test_a_story_that_goes_another_way_on_one_side_is_a_difference() -> None:
    verdict = verdict_of(story("z34", side_of(), side_of(other_way="commit is answered NONE")))
    assert verdict.differs
    other_way = "story z34 today goes another way on B: commit is answered NONE"
    assert verdict.other_ways == (other_way,)
    assert "one story goes another way" in sentence_of(verdict)
    assert f"  {other_way}" in list(lines_of(verdict))
    assert other_way in html_of(verdict)
    assert other_way in markdown_of(verdict)


def test_stories_without_an_end_on_either_side_are_one_remark() -> None:
    cut_side = side_of(remark="it did not come to its end: of old")
    verdict = verdict_of(story("z1", cut_side, cut_side), story("z2", cut_side, cut_side))
    assert verdict.remarks == (
        "runs of stories that come to their end under neither design, and say nothing:"
        " z1 today, z2 today",
    )


def test_refused_commits_are_added_up() -> None:
    run_pairs = [
        seed(1, side_of(refusals={"INVALID_TXN_STATE": 2}), side_of()),
        seed(2, side_of(refusals={"INVALID_TXN_STATE": 1}), side_of(refusals={"X": 1})),
    ]
    refusals = verdict_of(*run_pairs).refusals
    assert [(it.error, it.a, it.b) for it in refusals] == [("INVALID_TXN_STATE", 3, 0), ("X", 0, 1)]


def each_kind_of_pair() -> Verdict:
    story = Pair(source=Source.STORY, name="z34", run="today", a=side_of(), b=side_of("torn"))
    explored_pair = Pair(
        source=Source.EXPLORE,
        name="broker-dies",
        a=side_of("stuck", way="7 begins: it"),
        b=side_of(),
    )
    return verdict_of(story, explored_pair, seed(5, side_of("lost"), side_of("lost")))


def test_each_form_has_each_anomaly_and_its_command() -> None:
    verdict = each_kind_of_pair()
    text = "\n".join(lines_of(verdict))
    page_text, comment, document = html_of(verdict), markdown_of(verdict), as_json(verdict)
    for kind in ("torn", "stuck", "lost"):
        assert kind in text
        assert f"{kind} &lt;was&gt; seen" in page_text
        assert f"{kind} &lt;was&gt; seen" in comment
    assert [it["kind"] for it in document["anomalies"]] == ["torn", "stuck", "lost"]
    assert [it["standing"] for it in document["anomalies"]] == ["brought", "cured", "left"]
    assert "A 3, B –" in text
    assert sentence_of(verdict) in text
    assert page_text.startswith("<!doctype html>")


def test_a_command_is_understood_by_the_program() -> None:
    commands = [
        example["command"]
        for anomaly in as_json(each_kind_of_pair())["anomalies"]
        for example in anomaly["examples"]
    ]
    assert len(commands) == 3
    for command in commands:
        program, *arguments = shlex.split(command)
        args = parser_of(arguments[0]).parse_args(arguments)
        assert (program, args.a, args.b) == ("txnsim", "4.3", "4.4,fix.py")
        assert (args.seed is not None) + (args.run is not None) + (args.way is not None) == 1
