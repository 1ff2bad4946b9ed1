"""High watermarks move, and requests that wait for one are checked again."""

from __future__ import annotations

import pytest

from tests.support.images import B1, B2
from tests.support.logs import NOW, plain
from tests.support.replication import TP, ReplicaBench
from txnsim.log.leader_append import append_client
from txnsim.runtime.trace import TraceLevel


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    seen: list[object] = []
    monkeypatch.setattr(
        "txnsim.node.purgatory.Purgatory.touch", lambda _self, key: seen.append(key)
    )
    return seen


def test_without_followers_an_append_is_replicated(touched: list[object]) -> None:
    bench = ReplicaBench(replicas=(B1,))
    bench.append(plain())
    assert (bench.leader.log.high_watermark, touched) == (1, []), "nobody waits"
    bench.leader.purgatory.parked[TP] = {}
    bench.append(plain())
    assert touched == [TP]


def test_with_followers_an_append_is_answered_once_they_have_it(touched: list[object]) -> None:
    bench = ReplicaBench(replicas=(B1, B2))
    bench.settle()
    touched.clear()
    bench.append(plain())
    assert touched == []
    bench.settle()
    assert touched == [TP]


def test_the_leader_alone_in_the_isr_replicates_at_once(touched: list[object]) -> None:
    bench = ReplicaBench(replicas=(B1, B2), isr=(B1,))
    bench.leader.purgatory.parked[TP] = {}
    touched.clear()
    bench.append(plain())
    assert touched == [TP]


def test_what_moves_is_in_the_trace() -> None:
    bench = ReplicaBench(replicas=(B1, B2))
    bench.settle()
    bench.tracer.level = TraceLevel.FULL
    bench.append(plain())
    assert list(bench.tracer.events()) == []
    bench.settle()
    assert [event.k for event in bench.tracer.events()] == ["log.hw", "log.lso"]


def test_a_deletion_reaches_followers_and_waiting_requests(touched: list[object]) -> None:
    bench = ReplicaBench(replicas=(B1, B2))
    bench.append(plain(2))
    bench.settle()
    touched.clear()
    bench.leader.log.delete_records_before(1)
    bench.leader.watermarks.log_start_raised(bench.leader.log)
    assert touched == [TP]
    bench.settle()
    assert bench.nodes[B2].log.log_start_offset == 1
    assert touched.count(TP) > 1


def test_without_followers_a_deletion_reaches_waiting_requests(touched: list[object]) -> None:
    bench = ReplicaBench(replicas=(B1,))
    append_client(bench.leader.log, plain(), guard=0, now_ms=NOW)
    bench.leader.watermarks.log_start_raised(bench.leader.log)
    assert touched == [TP]
