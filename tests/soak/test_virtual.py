"""``VirtualSoak``: a short one leaves nothing open, unless markers are forgotten."""

from __future__ import annotations

import pytest

from tests.broker.simulation.test_seeds import forget_markers
from tests.soak.virtual import play_seed


@pytest.mark.costly
@pytest.mark.slow
def test_nothing_is_open_in_the_end() -> None:
    soak = play_seed(2, trouble_count=1)
    assert "was killed" in soak.last_acts[0]
    assert soak.ended["committed"] > 0
    assert soak.open == ()


@pytest.mark.costly
@pytest.mark.slow
def test_a_group_of_members_that_come_and_go_is_even_in_the_end() -> None:
    soak = play_seed(2, trouble_count=1, member_count=20)
    assert soak.crowd.answer_counts["none"] > 20
    assert (soak.open, soak.astray) == ((), ())


@pytest.mark.costly
@pytest.mark.slow
def test_a_forgotten_marker_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_markers(monkeypatch)
    assert play_seed(3, trouble_count=1).open
