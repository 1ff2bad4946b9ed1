"""The page on which rule prevents what: kept ways are of the table, and one is played again."""

from __future__ import annotations

from tests.lab.preventing.page import explorations, kip_890, switched_stories, switches
from tests.lab.preventing.ways import WAYS, kept_results, play_both
from txnsim.releases.rules import Rules
from txnsim_lab.exploration.catalog import explorations as explorations_of_catalogue
from txnsim_lab.simulation.play import quieten

STALE = "stale-coordinator"


def test_each_way_has_its_kept_result() -> None:
    names = [(way.exploration, way.way, way.base, way.switch) for way in WAYS]
    assert names == [
        (result.exploration, result.way, result.base, result.switch) for result in kept_results()
    ]
    assert {way.exploration for way in WAYS} <= explorations_of_catalogue().keys()
    assert {way.switch for way in WAYS} <= Rules.documentation().keys()


def test_each_way_has_an_anomaly_without_its_switch() -> None:
    assert [result for result in kept_results() if not result.off] == []


def test_a_way_comes_to_what_is_kept() -> None:
    quieten()
    index = next(number for number, way in enumerate(WAYS) if way.exploration == STALE)
    assert play_both(WAYS[index]) == kept_results()[index]


def test_the_tables_have_what_stories_declare() -> None:
    head, rows = kip_890()
    cells = {row[0].partition(":")[0]: row[1:] for row in rows}
    assert head == ("Story", "V-", "V+", "TV2", "TV2+")
    assert cells["`z21`"] == (*["aborted-read, torn-transaction"] * 3, "healthy")
    _, rows = switches()
    (death,) = [row for row in rows if "producers_outlive_records" in row[0]]
    assert death[2:5] == ("stuck-last-stable-offset", "V-", "V+, TV2")
    assert len(explorations()[1]) == len(WAYS)


def test_a_switch_is_in_the_table_only_where_it_helps() -> None:
    for switched in switched_stories():
        assert switched.anomalies
        for label, kinds in switched.anomalies.items():
            assert kinds == switched.story.runs[label].verdict != ()
