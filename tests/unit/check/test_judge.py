from __future__ import annotations

from tests.support.told import Told
from txnsim.check.anomaly import Kind
from txnsim.check.history import History
from txnsim.check.judge import judge


def test_nothing_seen_is_healthy() -> None:
    verdict = judge(History())
    assert verdict.healthy
    assert str(verdict) == "healthy"


def test_a_verdict_names_each_kind_once_in_order() -> None:
    told = Told()
    for label, value, offset in (("T1", "r1", 0), ("T2", "r2", 2)):
        told.wrote(label, value, offset)
        told.aborted(label)
    told.wrote(None, "r3", 4)
    told.read(0, {0: "r1", 2: "r2"}, 5)
    verdict = judge(told.history)
    assert verdict.kinds == (Kind.ABORTED_READ, Kind.LOST_WRITE)
    assert str(verdict) == "aborted-read, lost-write"
    assert len(verdict.anomalies) == 3
    assert not verdict.healthy
