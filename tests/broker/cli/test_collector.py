from __future__ import annotations

import gc

from txnsim.cli.collector import THRESHOLDS, seldom_collected


def test_it_looks_seldom_inside_and_as_before_behind() -> None:
    before = gc.get_threshold()
    with seldom_collected():
        assert gc.get_threshold() == THRESHOLDS
        assert not any(one is gc.__dict__ for one in gc.get_objects()), "modules are passed over"
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
