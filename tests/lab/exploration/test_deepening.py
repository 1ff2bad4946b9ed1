"""Explorations: what they find at the releases that have it, and what they find of planted bugs."""

from __future__ import annotations

from typing import Any

import pytest

from txnsim.errors import ConfigError
from txnsim.group._offsets import GroupOffsets
from txnsim.log.verification import VerificationEntries
from txnsim.txn.markers import MarkerQueue
from txnsim.types import ProducerId
from txnsim_lab.exploration.catalog import changed, explorations, find
from txnsim_lab.exploration.deepening import AnomalyFound, explore
from txnsim_lab.exploration.model import Exploration
from txnsim_lab.exploration.search import replay, search
from txnsim_lab.simulation.play import quieten

STUCK = "stuck-last-stable-offset"


@pytest.fixture(autouse=True, scope="module")
def no_log() -> None:
    quieten()


def the_anomaly(exploration: Exploration, *, deviations_max: int) -> AnomalyFound:
    result = explore(exploration, deviations_max=deviations_max)
    assert result.anomalies, "nothing was found"
    return result.anomalies[0]


def test_a_quiet_network_leaves_no_anomaly_in_any_of_them() -> None:
    for exploration in explorations().values():
        quiet_way = replay(exploration, ())
        assert quiet_way.way == ()
        assert quiet_way.played_run.findings == (), exploration.name
        assert len(quiet_way.steps) > 5


def test_one_death_hangs_a_commit_of_4_3_and_the_way_repeats_it() -> None:
    found_anomaly = the_anomaly(find("z27"), deviations_max=1)
    assert STUCK in found_anomaly.kinds
    assert [deviation.option_name for deviation in found_anomaly.way] == ["begins: broker 2 dies"]
    assert [found_anomaly.steps[index] for index in found_anomaly.deviating_steps] == [
        "begins: broker 2 dies"
    ]
    second_way = replay(find("broker-dies"), found_anomaly.way)
    assert second_way.played_run.kinds == found_anomaly.kinds
    assert second_way.steps == found_anomaly.steps


def test_a_late_unload_refuses_a_commit_of_4_4() -> None:
    found_anomaly = the_anomaly(find("stale-coordinator"), deviations_max=1)
    assert found_anomaly.kinds == ("false-fencing",)
    assert len(found_anomaly.way) == 1


@pytest.mark.thorough
def test_two_moves_lose_the_record_that_opens_a_transaction_of_4_4() -> None:
    """z34, without its story."""
    found_anomaly = the_anomaly(find("coordinator-moves"), deviations_max=3)
    assert found_anomaly.kinds == (STUCK,)
    assert [deviation.option_name for deviation in found_anomaly.way] == [
        "begins: broker 3 falls behind",
        "begins: the coordinator moves to broker 2",
        "begins: the coordinator moves to broker 3",
    ]


@pytest.mark.costly
def test_a_move_or_a_loss_leaves_nothing_of_two_producers() -> None:
    result = explore(find("two-producers"), deviations_max=1)
    assert result.anomalies == ()
    assert [search.is_stopped or bool(search.broken) for _, search in result.searches] == [
        False
    ] * 2
    assert result.largest.states > 1_000
    assert result.largest.ends > 50


def test_one_death_hangs_nothing_of_4_2() -> None:
    result = explore(changed(find("z27"), as_version="4.2"), deviations_max=1)
    assert result.anomalies == ()
    assert not result.is_complete, "what two deviations do was not asked"
    assert result.largest.cut > 0


def test_a_search_without_a_limit_is_complete_and_counts_each_state_once() -> None:
    exploration = changed(find("positions"), changed_bounds={"disturbances": 0})
    result = search(exploration)
    assert result.is_complete
    assert (result.broken, result.cut, result.found_ends) == (0, 0, ())
    parallel_search = search(exploration, lane_count=2)
    assert parallel_search.is_complete
    assert parallel_search.states >= result.states > 1


def test_a_late_produce_hangs_where_nothing_is_verified() -> None:
    found_anomaly = the_anomaly(find("late-produce-after-abort"), deviations_max=3)
    assert STUCK in found_anomaly.kinds
    assert len(found_anomaly.way) == 2
    assert any("ms pass" in step for step in found_anomaly.steps)


def test_a_limit_of_deviations_above_three_is_followed() -> None:
    exploration = changed(find("positions"), changed_bounds={"disturbances": 0})
    result = explore(exploration, deviations_max=4)
    assert [limit for limit, _ in result.searches] == [0, 1, 2, 3, 4]


def test_time_that_is_up_ends_a_search() -> None:
    result = explore(find("two-producers"), seconds_max=0.5)
    assert not result.is_complete
    assert result.largest.is_stopped


def test_a_run_that_can_not_be_played_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"9\.9"):
        search(changed(find("late-produce"), as_version="9.9"))


# Planted bugs


def test_a_guard_that_a_marker_leaves_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VerificationEntries, "on_marker", lambda _self, *_ids, **_rules: None)
    found_anomaly = the_anomaly(changed(find("late-produce"), mode="V+"), deviations_max=3)
    assert STUCK in found_anomaly.kinds


def test_a_marker_that_is_not_sent_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MarkerQueue, "route_later", lambda _self, _debt, _partitions: None)
    found_anomaly = the_anomaly(changed(find("broker-dies"), as_version="4.2"), deviations_max=2)
    assert found_anomaly.kinds


def test_positions_that_an_abort_commits_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    apply_marker = GroupOffsets.apply_marker

    def commit(offsets: GroupOffsets, producer_id: ProducerId, **marker: Any) -> None:
        apply_marker(offsets, producer_id, **{**marker, "is_commit": True})

    monkeypatch.setattr(GroupOffsets, "apply_marker", commit)
    found_anomaly = the_anomaly(find("positions"), deviations_max=2)
    assert found_anomaly.kinds == ("positions-before-decision",)
