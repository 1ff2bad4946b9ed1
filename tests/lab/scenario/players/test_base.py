from __future__ import annotations

from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.players._base import DELIVERY_TIMEOUT_MS, PLAYERS, REQUEST_TIMEOUT_MS


def test_a_delivery_takes_longer_than_an_attempt() -> None:
    """kafka-python refuses other settings, and the story tells of an attempt that timed out."""
    assert DELIVERY_TIMEOUT_MS > REQUEST_TIMEOUT_MS


def test_every_player_plays_somewhere_and_ours_everywhere() -> None:
    able = [
        actor.players
        for scenario in catalog.scenarios().values()
        for actor in scenario.actors.values()
        if actor.plays == "application"
    ]
    assert {player for players in able for player in players} == set(PLAYERS)
    assert all("own" in players for players in able)
