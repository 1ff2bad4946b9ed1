"""Which figures there are."""

from __future__ import annotations

import pytest

from txnsim.pipeline.report_page.lives import Lives
from txnsim.pipeline.report_page.plots import plots


def test_nothing_is_drawn_of_nothing() -> None:
    assert list(plots(Lives([]), ())) == []


@pytest.mark.slow
def test_what_ended_is_drawn_though_it_began_unseen() -> None:
    lives = Lives([])
    lives.ended_ms[False].extend([5, 5_000])
    (drawn,) = plots(lives, ())
    assert drawn[0] == "Transactions that ended, by the times of their markers"
    assert b"aborted" in drawn[1]
