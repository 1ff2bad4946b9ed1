"""What a broker does to its logs by the clock, and what a full disk does to that."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tests.support.coordinator import ManualClock
from tests.support.gates import Gates
from tests.support.logs import batch
from txnsim.broker.broker import Housekeeping
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_client
from txnsim.log.partition_log import PartitionLog
from txnsim.node.crossings import at_once
from txnsim.node.log_events import LogEvents
from txnsim.releases.rules import LATEST
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.runtime.tasks import LoopTasks
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.settings import DEFAULTS
from txnsim.types import TopicPartition

TP = TopicPartition("t", 0)
EXPIRY_MS = DEFAULTS.producer_id_expiration_check_interval_ms
CHECKPOINT_MS = DEFAULTS.replica_high_watermark_checkpoint_interval_ms


class Bench:
    """One hosted log with an idempotent producer that wrote once."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.tracer = Tracer(self.clock.monotonic_us, level=TraceLevel.FULL, strict=True)
        self.gates = Gates(LoopTasks(asyncio.get_running_loop()))
        self.disk = self.gates.disk
        self.log = PartitionLog(
            topic_partition=TP,
            config=LogConfig(rules=LATEST, producer_id_expiration_ms=1_000),
            leader_epoch=0,
        )
        now_ms = self.clock.now_ms()
        append_client(self.log, batch(0, timestamp=now_ms), guard=0, now_ms=now_ms)
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.disk.adopt(uuid.UUID(int=1), self.log, high_watermark=0)
        self.housekeeping = Housekeeping(
            clock=self.clock,
            settings=lambda: DEFAULTS,
            hosted={TP: self.log},
            logs=self.disk,
            gate=self.gates.log,
            timers=at_once,
            log_events=LogEvents(self.tracer, "broker/1"),
        )
        self.housekeeping.start()

    def kinds(self) -> list[str]:
        return [event.k for event in self.tracer.events()]


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_idle_producers_are_forgotten_again_and_again(bench: Bench) -> None:
    bench.clock.advance(EXPIRY_MS - 1)
    assert len(bench.log.producers.all()) == 1
    bench.clock.advance(1)
    assert len(bench.log.producers.all()) == 0
    assert bench.kinds()[:1] == ["timer.fire"]
    before = len(bench.kinds())
    now_ms = bench.clock.now_ms()
    append_client(bench.log, batch(0, timestamp=now_ms), guard=0, now_ms=now_ms)
    bench.clock.advance(EXPIRY_MS)
    assert len(bench.log.producers.all()) == 0
    assert len(bench.kinds()) > before


async def test_nothing_happens_after_the_stop(bench: Bench) -> None:
    bench.housekeeping.stop()
    bench.clock.advance(EXPIRY_MS)
    assert len(bench.log.producers.all()) == 1


async def test_checkpoints_are_written_while_there_is_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(BrokerLogs, "checkpoint", lambda _disk: written.append("watermarks"))
    monkeypatch.setattr(BrokerLogs, "note_log_starts", lambda _disk: written.append("starts"))
    bench.clock.pass_ms(CHECKPOINT_MS)
    bench.clock.pass_ms(CHECKPOINT_MS)
    bench.housekeeping.note_log_starts()
    assert written == ["watermarks", "watermarks", "starts"]
    bench.disk.is_full = True
    bench.clock.pass_ms(CHECKPOINT_MS)
    bench.housekeeping.note_log_starts()
    assert len(written) == 3
    assert bench.gates.failures == 2, "the first write that finds no room fails the directory"
    bench.disk.is_full = False
    bench.clock.pass_ms(CHECKPOINT_MS)
    assert written[3:] == ["watermarks"]
