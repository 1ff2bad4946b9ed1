from __future__ import annotations

from txnsim_lab.simulation._plan import Act, Plan, Track, World
from txnsim_lab.simulation.drawing import Wanted, draw
from txnsim_lab.simulation.guide import AMONG, guided, pairs_of

WANTED = Wanted()


def test_of_each_eight_seeds_one_is_played_and_always_the_same() -> None:
    chosen = [*guided(range(100), WANTED)]
    assert [seed // AMONG for seed in chosen] == [*range(13)]
    assert chosen == [*guided(range(100), WANTED)]


def test_what_is_chosen_has_more_pairs_than_what_comes_first() -> None:
    def pairs(seeds: list[int]) -> int:
        return len({pair for seed in seeds for pair in pairs_of(draw(seed))})

    chosen = [*guided(range(40 * AMONG), WANTED)]
    assert pairs(chosen) > 1.1 * pairs([*range(40)])


def test_pairs_are_of_what_is_asked_for_and_what_that_may_meet() -> None:
    steps = (
        {"call": {"who": "a1", "do": "begin"}},
        {"ask": {"api": "ListGroups", "version": 5, "to": {"broker": 1}, "fields": {}}},
        {"cluster": {"do": "kill", "broker": 1}},
        {"arm": {"id": "d1", "point": "client.response", "action": {"do": "drop"}}},
        {"observe": "everything"},
    )
    track = Track(name="a1", acts=tuple(Act(step=step) for step in steps))
    plan = Plan(seed=1, world=World(mode="TV2+"), tracks=(track,), features=("kill",))
    met = {"TV2+", "kill", "cluster kill", "arm client.response drop"}
    asked = {"begin", "ask ListGroups", "observe"}
    assert pairs_of(plan) == {(one, other) for one in asked for other in met}
