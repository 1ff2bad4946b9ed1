"""Leaders ask the controller for other ISRs, one request at a time, until they are answered."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.support.images import B1, B2, B3
from tests.support.logs import plain
from tests.support.replication import TP, ReplicaBench
from txnsim.interbroker.replication import AlterPartitionCommand
from txnsim.node.peers import CONTROLLER_ID


def asked(bench: ReplicaBench) -> list[AlterPartitionCommand]:
    return [one for _, _, one in bench.sent if isinstance(one, AlterPartitionCommand)]


def lagging() -> ReplicaBench:
    """Broker 3 is cut off, and there is something that it has not got."""
    bench = ReplicaBench()
    bench.settle()
    bench.isolate(B3)
    bench.append(plain())
    bench.settle()
    return bench


def test_who_does_not_fetch_falls_out_after_its_time_and_frees_the_others() -> None:
    bench = lagging()
    bench.settle(seconds=29)
    assert list(bench.partition.isr) == [B1, B2, B3]
    assert bench.leader.log.high_watermark == 0
    bench.settle(seconds=17)
    assert list(bench.partition.isr) == [B1, B2]
    assert bench.leader.log.high_watermark == 1
    (command,) = asked(bench)
    assert (command.broker_id, command.broker_epoch) == (B1, 1)


def test_while_the_process_stood_still_no_follower_fell_behind() -> None:
    bench = lagging()
    bench.clock.pass_ms(60_000)
    bench.settle(seconds=1)
    assert list(bench.partition.isr) == [B1, B2, B3]
    bench.settle(seconds=15)
    assert list(bench.partition.isr) == [B1, B2]


def test_it_comes_back_when_it_has_caught_up() -> None:
    bench = lagging()
    bench.settle(seconds=46)
    bench.heal(B3)
    bench.settle(seconds=3)
    assert list(bench.partition.isr) == [B1, B2, B3]
    assert bench.nodes[B3].log.log_end_offset == 1


def test_an_idle_follower_stays_in_sync() -> None:
    bench = ReplicaBench()
    bench.append(plain())
    bench.settle(seconds=120)
    assert list(bench.partition.isr) == [B1, B2, B3]
    assert asked(bench) == []


def test_without_an_answer_it_is_asked_again_with_growing_pauses() -> None:
    bench = lagging()
    bench.cut.add(CONTROLLER_ID)
    bench.settle(seconds=60)
    tries = len(asked(bench))
    assert 10 < tries < 40
    assert bench.leader.log.high_watermark == 0, "until it is granted the larger ISR counts"
    bench.cut.discard(CONTROLLER_ID)
    bench.settle(seconds=2)
    assert list(bench.partition.isr) == [B1, B2]


def test_who_has_stopped_asks_nothing() -> None:
    bench = lagging()
    bench.cut.add(CONTROLLER_ID)
    bench.settle(seconds=46)
    bench.leader.isr_changes.stop()
    tries = len(asked(bench))
    bench.settle(seconds=60)
    assert len(asked(bench)) <= tries + 1


def test_an_answer_for_a_partition_that_is_led_no_more_is_nothing() -> None:
    bench = lagging()
    leader = bench.leader
    for _ in range(450):
        bench.clock.pass_ms(100)
    leader.replicas.replicated.clear()
    bench.settle(seconds=1)
    assert bench.partition.isr in ((B1, B2), (B1, B2, B3))
    assert leader.log.high_watermark == 0


@pytest.mark.usefixtures("all_levels")
def test_that_the_controller_never_answers_is_told_once() -> None:
    bench = lagging()
    bench.cut.add(CONTROLLER_ID)
    with capture_logs() as lines:
        bench.settle(seconds=120)
    told = [line for line in lines if line["event"] == "isr.change.failing"]
    assert len(told) == 1
    assert str(TP) in told[0]["reason"]
