from __future__ import annotations

import gc

from txnsim.cli.garbage_collection import THRESHOLDS, no_garbage_collection, rare_garbage_collection


def test_it_looks_seldom_inside_and_as_before_behind() -> None:
    before = gc.get_threshold()
    with rare_garbage_collection():
        assert gc.get_threshold() == THRESHOLDS
        assert not any(one is gc.__dict__ for one in gc.get_objects()), "modules are passed over"
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_nothing_is_collected_while_modules_are_imported() -> None:
    passes: list[str] = []
    gc.callbacks.append(lambda phase, _info: passes.append(phase))
    try:
        with no_garbage_collection():
            passes.clear()
            kept: list[object] = [[] for _ in range(2 * gc.get_threshold()[0])]
            seen = tuple(passes)
        assert not seen
        kept += [[] for _ in range(2 * gc.get_threshold()[0])]
        assert passes, "and again behind it"
    finally:
        gc.callbacks.pop()
