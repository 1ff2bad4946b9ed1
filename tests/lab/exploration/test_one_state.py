"""States with one fingerprint are one state: from each of them the same may happen next, and the
same choice leads to the same state. Drawn walks meet states again that they reached otherwise.
"""

from __future__ import annotations

import pytest

from txnsim.runtime.rng import RandomStreams
from txnsim_lab.exploration._conductor import Conductor
from txnsim_lab.exploration.catalog import explorations
from txnsim_lab.exploration.way import Choice
from txnsim_lab.simulation.play import play, quieten

QUIET_SHARE = 0.4
"""How often a walk does what a quiet network does: else it soon meets no state twice."""


class Walk:
    """A chooser that draws options, and compares the states with those of earlier walks."""

    def __init__(self, seed: int, graph: Graph) -> None:
        self._random = RandomStreams(seed).stream("walk")
        self._graph = graph
        self._previous: tuple[int, str] | None = None

    def pick(self, choice: Choice) -> int:
        """Draw an option, and note the state to which the previous option has led."""
        self._graph.note(self._previous, choice.fingerprint, frozenset(choice.keys))
        is_quiet = self._random.random() < QUIET_SHARE
        index = 0 if is_quiet else self._random.randrange(len(choice.options))
        self._previous = choice.fingerprint, choice.keys[index]
        return index


class Graph:
    """The states of an exploration, with the options in each and the states that follow."""

    def __init__(self) -> None:
        self.met_again = 0
        """How often a choice was made in a state in which it had been made before."""
        self._options: dict[int, frozenset[str]] = {}
        self._next_states: dict[tuple[int, str], int] = {}

    def note(
        self, previous_note: tuple[int, str] | None, fingerprint: int, options: frozenset[str]
    ) -> None:
        """Note a state and the choice that led to it."""
        assert self._options.setdefault(fingerprint, options) == options
        if previous_note is None:
            return
        self.met_again += previous_note in self._next_states
        next_state = self._next_states.setdefault(previous_note, fingerprint)
        assert next_state == fingerprint, f"{previous_note[1]!r} leads to two states"


@pytest.mark.parametrize(
    ("name", "walk_count"),
    [
        ("two-producers", 30),
        ("stale-coordinator", 20),
        ("broker-dies", 20),
        pytest.param("two-producers", 400, marks=pytest.mark.slow, id="two-producers, many"),
        pytest.param("coordinator-moves", 200, marks=pytest.mark.slow),
        pytest.param("late-high-watermark", 200, marks=pytest.mark.slow),
        pytest.param("one-producer-twice", 200, marks=pytest.mark.slow),
    ],
)
def test_states_that_are_taken_for_one_go_on_alike(name: str, walk_count: int) -> None:
    quieten()
    exploration, graph = explorations()[name], Graph()
    for seed in range(walk_count):
        play(exploration.plan, director=Conductor(exploration, Walk(seed, graph)))
    assert graph.met_again > walk_count / 2
