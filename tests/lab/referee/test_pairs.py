"""Pairs of runs in virtual time, and what a transaction takes; the plug-ins of docs/referee.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from txnsim_lab.exploration.way import read_way
from txnsim_lab.referee._costs import APPENDS, PEER_REQUESTS, REQUESTS, WAITED, count_costs
from txnsim_lab.referee.design import read_design
from txnsim_lab.referee.matches import Match, play_match, story_runs
from txnsim_lab.referee.pairs import (
    Designs,
    exploration_pair,
    kind_of,
    play_way,
    seed_pair,
    story_pair,
)
from txnsim_lab.referee.verdict import Side
from txnsim_lab.scenario.catalog import find
from txnsim_lab.simulation.play import quieten

PAGE: Final = Path(__file__).parents[3] / "docs/referee.md"
REPORT: Final = PAGE.parents[1] / "reports/kafka-21181-two-fixes.md"
STUCK: Final = "stuck-last-stable-offset"
WRONG_STATE: Final = "false-fencing (INVALID_TXN_STATE)"
PREPARED: Final = "5 begins: the coordinator moves to broker 2, broker 1 has yet to unload it"
"""A way on which the former coordinator knows the last transaction as prepared."""
COMPLETE: Final = (
    "5 arrives: WriteTxnMarkers answer broker/1 > broker/2 #1;"
    " 6 begins: the coordinator moves to broker 2, broker 1 has yet to unload it"
)
"""A way on which it knows it as complete: with Kafka 4.4 the next commit is one of nothing there
(KAFKA-21181).
"""
BEHIND: Final = (
    "3 begins: broker 2 gets one more record, and no answer behind it;"
    " 4 begins: the coordinator moves to broker 2"
)


@pytest.fixture(autouse=True, scope="module")
def no_log() -> None:
    quieten()


def designs_of(a: str, b: str) -> Designs:
    return Designs(read_design(a), read_design(b))


def python_blocks(page_file: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page_file.read_text("utf-8"), re.DOTALL)


@pytest.fixture
def page_plugins(tmp_path: Path) -> list[Path]:
    """The plug-ins of the page, as files."""
    paths = [tmp_path / name for name in ("fix.py", "other_fix.py")]
    for path, block in zip(paths, python_blocks(PAGE), strict=True):
        path.write_text(block)
    return paths


def test_the_death_of_a_broker_hangs_a_commit_of_4_3_alone() -> None:
    designs = designs_of("4.3", "4.3,leaderless_partitions_keep_markers=on")
    pair = exploration_pair(
        "broker-dies", designs, lane_count=1, deviations_max=1, seconds_max=None
    )
    assert set(pair.a.sightings) - set(pair.b.sightings) == {STUCK}
    sighting = pair.a.sightings[STUCK]
    assert sighting.deviations == 1
    assert sighting.steps
    assert pair.a.is_complete
    assert pair.b.is_complete


def kinds_on_way(way: str, design: str) -> set[str]:
    """The anomalies at the end of a way of the exploration stale-coordinator."""
    replayed_way, failures = play_way(
        "stale-coordinator", read_way(way), designs_of("4.4", design), Side.B
    )
    assert failures == ()
    return {kind_of(finding) for finding in replayed_way.played_run.findings}


def test_both_plug_ins_of_the_page_cure_the_commit_that_is_refused(
    page_plugins: list[Path],
) -> None:
    checks_text, ends = map(str, page_plugins)
    assert kinds_on_way(COMPLETE, "4.4") == {WRONG_STATE}
    assert kinds_on_way(COMPLETE, checks_text) == kinds_on_way(COMPLETE, ends) == set()


def test_a_commit_that_meets_a_prepared_one_is_cured_by_the_check_alone(
    page_plugins: list[Path],
) -> None:
    checks_text, ends = map(str, page_plugins)
    assert kinds_on_way(PREPARED, checks_text) == set()
    assert kinds_on_way(PREPARED, ends) == {"false-fencing (PRODUCER_FENCED)"}


def test_a_search_tells_errors_apart() -> None:
    designs = designs_of("4.4", "empty_commits_are_ended=on")
    pair = exploration_pair(
        "stale-coordinator", designs, lane_count=1, deviations_max=1, seconds_max=None
    )
    assert pair.a.sightings.keys() == {WRONG_STATE, "false-fencing (PRODUCER_FENCED)"}
    assert pair.b.sightings.keys() == {"false-fencing (PRODUCER_FENCED)"}


def test_a_switch_does_what_the_plug_in_of_the_page_does(page_plugins: list[Path]) -> None:
    designs = designs_of("coordinator_checks_leadership=on", str(page_plugins[0]))
    way_by_switch, way_by_plugin = (
        play_way("stale-coordinator", read_way(PREPARED), designs, side)[0] for side in Side
    )
    assert way_by_switch.steps == way_by_plugin.steps
    assert way_by_switch.played_run.digest == way_by_plugin.played_run.digest


def test_reading_to_the_high_watermark_alone_commits_what_was_refused(tmp_path: Path) -> None:
    (plugin_text,) = python_blocks(REPORT)
    plugin_file = tmp_path / "hw_only.py"
    plugin_file.write_text(plugin_text)
    designs = designs_of("4.4", str(plugin_file))
    kinds = [
        {kind_of(finding) for finding in replayed_way.played_run.findings}
        for side in Side
        for replayed_way, _ in [play_way("late-high-watermark", read_way(BEHIND), designs, side)]
    ]
    assert kinds == [set(), {"aborted-read", WRONG_STATE}]


def test_a_seed_is_drawn_once_and_played_on_both() -> None:
    pair = seed_pair(1, designs_of("4.4", "4.4"))
    assert pair.a == pair.b
    assert pair.a.commits > 0


def test_a_plug_in_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    plugin_file = tmp_path / "wrong.py"
    plugin_file.write_text(
        "from txnsim_lab.referee.plugin import replaces\n"
        '@replaces("txn.end")\ndef end(original, txn, command, **facts):\n    return txn.nothing\n'
    )
    replayed_way, failures = play_way(
        "two-producers", (), designs_of("4.4", str(plugin_file)), Side.B
    )
    assert len(failures) == 1
    assert failures[0].startswith(f"txn.end: {plugin_file}:4: AttributeError")
    assert replayed_way.steps


def test_what_a_broker_raises_on_an_answer_of_a_plug_in_is_told(tmp_path: Path) -> None:
    plugin_file = tmp_path / "twice.py"
    plugin_file.write_text(
        "from msgspec.structs import replace\n"
        "from txnsim.types import Decision\n"
        "from txnsim_lab.referee.plugin import replaces\n"
        '@replaces("txn.end")\ndef end(original, txn, command, **facts):\n'
        "    answer = original(txn, command, **facts)\n"
        "    is_decision = isinstance(answer, Decision)\n"
        "    return replace(answer, reply=None) if is_decision else answer\n"
    )
    _, failures = play_way("two-producers", (), designs_of("4.4", str(plugin_file)), Side.B)
    assert len(failures) == 1
    assert failures[0].startswith("a broker can't go on with an answer of the plug-in: ")
    assert "(txnsim/" in failures[0]
    _, failures = play_way("two-producers", (), designs_of("4.4", str(plugin_file)), Side.A)
    assert failures == ()


def test_a_story_that_goes_another_way_under_one_design_is_judged_all_the_same() -> None:
    """An empty commit that is ended tells a client that its lost transaction is committed."""
    designs = designs_of("4.4", "4.4,empty_commits_are_ended=on")
    pair = story_pair("read-before-it-was-committed", "TV2", designs)
    assert [pair.a.other_way, pair.a.remark, pair.b.remark] == ["", "", ""]
    assert "commit is answered NONE, expected INVALID_TXN_STATE" in pair.b.other_way
    assert "lost-write" not in pair.a.sightings
    assert "lost-write" in pair.b.sightings


def test_a_story_that_comes_to_its_end_under_neither_design_says_nothing() -> None:
    pair = story_pair("marker-lost-to-the-cleaner", "V+/before", designs_of("4.4", "4.4"))
    assert "it did not come to its end" in pair.a.remark
    assert "it did not come to its end" in pair.b.remark
    assert pair.a.sightings == pair.b.sightings == {}


def test_runs_of_a_story_that_differ_by_switches_alone_are_played_once() -> None:
    _, story = find("z27")
    runs = story_runs(("z27",), designs_of("4.4", "4.4"))
    assert 0 < len(runs) <= len(story.runs)
    assert len(
        {(story.runs[run_name].mode, str(story.runs[run_name].settings)) for _, run_name in runs}
    ) == len(runs)


def test_what_a_transaction_takes_is_counted() -> None:
    lines = count_costs(designs_of("4.4", "3.9"))
    counts = {(line.mode, line.what): (line.a, line.b) for line in lines}
    # In the old protocol AddPartitionsToTxn, two Produce and EndTxn; in the newest, partitions are
    # added by their leaders. The coordinator appends three batches.
    expected = {
        ("protocol v1", REQUESTS): (4, 4),
        ("newest protocol", REQUESTS): (3, 4),
        ("protocol v1", APPENDS): (7, 7),
    }
    assert {key: counts[key] for key in expected} == expected
    assert counts["newest protocol", PEER_REQUESTS][1] == 4
    assert all(waited is not None and waited > 0 for waited in counts["protocol v1", WAITED])


def test_a_design_whose_transactions_fail_has_no_costs(tmp_path: Path) -> None:
    plugin_file = tmp_path / "never.py"
    plugin_file.write_text(
        "from txnsim.errors import ErrorCode, Rejection\n"
        "from txnsim_lab.referee.plugin import replaces\n"
        '@replaces("txn.end")\ndef end(original, *facts, **named):\n'
        '    return Rejection(error=ErrorCode.producer_fenced, reason="never")\n'
    )
    lines = count_costs(designs_of("4.4", str(plugin_file)))
    assert all(line.a is not None and line.b is None for line in lines)


def test_a_match_without_time_is_not_complete() -> None:
    match = Match(designs=designs_of("4.4", "4.4"), seeds=range(3), seconds_max=0.001)
    verdict = play_match(match)
    assert not verdict.is_complete
    assert verdict.played == {"explore": 0, "story": 0, "seed": 0}


def test_a_search_is_compared_as_far_as_both_sides_have_come() -> None:
    designs = designs_of("4.3", "4.3,leaderless_partitions_keep_markers=on")
    pair = exploration_pair(
        "broker-dies", designs, lane_count=1, deviations_max=1, seconds_max=0.0001
    )
    assert pair.a.sightings == pair.b.sightings == {}, "a search without time proves no cure"
    assert not pair.a.is_complete
    assert "nothing is compared" in pair.a.remark
