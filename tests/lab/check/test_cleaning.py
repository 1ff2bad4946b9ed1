from __future__ import annotations

from typing import Any

import pytest

from tests.support.told import T0, Told, ghost, hangs
from txnsim_lab.check._cleaning import uncleanable_logs
from txnsim_lab.check.observations import Isolation

KEYS = {2: "x", 3: "x"}


def grown(told: Told) -> None:
    """Two records of one key behind the ghost, at 2 and 3."""
    told.wrote(None, "x is 2", 3, who="bystander", key="x")
    told.read(1, {}, 1, high_watermark=4)


def everything(told: Told, **more: Any) -> int:
    given: dict[str, Any] = {
        "isolation": Isolation.READ_UNCOMMITTED,
        "last_stable_offset": -1,
        "keys": KEYS,
    }
    return told.read(1, {1: "late", 2: "after", 3: "x is 2"}, 4, **(given | more))


def test_what_the_cleaner_leaves_behind_a_hanging_transaction_convicts() -> None:
    told = Told()
    hangs(told)
    grown(told)
    cleaned = told.cleaned()
    read = everything(told)
    (anomaly,) = uncleanable_logs(told.history)
    assert {cleaned, read} <= set(anomaly.evidence)
    assert "key 'x'" in anomaly.because


def test_the_cleaner_must_have_had_its_turn() -> None:
    told = Told()
    hangs(told)
    grown(told)
    everything(told)
    assert uncleanable_logs(told.history) == ()


def test_what_was_written_after_its_turn_it_could_not_clean() -> None:
    told = Told()
    hangs(told)
    told.cleaned()
    grown(told)
    everything(told)
    assert uncleanable_logs(told.history) == ()


@pytest.mark.parametrize("keys", [{0: "x", 3: "x"}, {2: "x", 3: "y"}, {}])
def test_a_record_before_the_transaction_or_of_another_key_tells_nothing(
    keys: dict[int, str],
) -> None:
    told = Told()
    hangs(told)
    grown(told)
    told.cleaned()
    everything(told, keys=keys)
    assert uncleanable_logs(told.history) == ()


def test_behind_a_transaction_that_is_alive_the_cleaner_waits() -> None:
    told = Told()
    ghost(told)
    told.producers((7, 1))
    told.described("Ongoing", T0)
    grown(told)
    told.cleaned()
    everything(told)
    assert uncleanable_logs(told.history) == ()
