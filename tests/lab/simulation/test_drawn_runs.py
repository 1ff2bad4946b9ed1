"""Two hundred runs drawn from seeds: whatever they find has a name.

A finding without one is a bug: of ours, of a judge, or of Apache Kafka, and then it needs a
scenario. ``txnsim simulate --seed N`` shrinks it.
"""

from __future__ import annotations

import pytest

from txnsim_lab.simulation.batch import Tally, row_of
from txnsim_lab.simulation.drawing import Wanted
from txnsim_lab.simulation.play import quieten

SEEDS = 200
BLOCKS = 4
"""Each a test of its own, so that they share the processors."""


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_drawn_runs_find_has_a_name(block: int) -> None:
    quieten()
    tally = Tally()
    for seed in range(block * SEEDS // BLOCKS, (block + 1) * SEEDS // BLOCKS):
        tally.add(row_of(seed, Wanted()))
    assert tally.idle is None
    nameless = {row.seed: row.because for row in tally.failed if not row.names}
    assert nameless == {}
