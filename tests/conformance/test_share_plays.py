"""Share groups answer drawn raw requests as a real 4.4.0 did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest

from tests.conformance import drawn, share_drawn
from tests.conformance.cluster_setups import ClusterSetup, virtual_on
from tests.conformance.streams_plays import Plays

SEEDS_MIN: Final = 45
RECORDED: Final = drawn.recorded_rows(share_drawn.TRANSCRIPT)
SETUP: Final = ClusterSetup(name="share groups", properties=share_drawn.SETTINGS)
BEHIND_OTHERS: Final = frozenset({135})
"""Seeds that meet what an earlier seed has left: a share session of the group without a name."""


def assert_answers_of_a_real_broker(seeds: Iterable[int]) -> None:
    with virtual_on(SETUP, 2) as virtual_world:
        plays = Plays(virtual_world.bootstrap, pause_s=drawn.OUR_PAUSE_S)
        with plays.connected():
            for seed, rows in drawn.answers(plays, seeds, share_drawn.play):
                assert drawn.unlike(RECORDED[seed], rows) is None, seed


@pytest.mark.parametrize("drawn_seed", sorted(RECORDED.keys() - BEHIND_OTHERS))
def test_a_drawn_play_has_a_real_broker_s_answers(drawn_seed: int) -> None:
    assert_answers_of_a_real_broker([drawn_seed])


@pytest.mark.costly
def test_all_plays_one_after_the_other_have_a_real_broker_s_answers() -> None:
    assert len(RECORDED) >= SEEDS_MIN
    assert_answers_of_a_real_broker(sorted(RECORDED))
