"""What happens to logs without a request: by the clock, in pieces, until the broker stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.support.coordinator import START_MS, ManualClock
from txnsim.log import cleaner
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_client
from txnsim.log.partition_log import PartitionLog
from txnsim.node.log_events import LogEvents
from txnsim.releases.rules import LATEST_RULES
from txnsim.replication import log_maintenance
from txnsim.replication.log_maintenance import SHORTEST_PAUSE_MS, LogMaintenance
from txnsim.runtime.tasks import LoopTasks
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.settings import DEFAULTS, Settings
from txnsim.types import TopicPartition
from txnsim.wire.batch import ZSTD, Record, build_batch, read_records

FIRST = TopicPartition("t", 0)
SECOND = TopicPartition("t", 1)
COMPACTED = LogConfig(
    rules=LATEST_RULES,
    roll_bytes=1,
    is_compacted=True,
    is_deleted=False,
    min_cleanable_dirty_ratio=0.0,
)
BACKOFF_MS = DEFAULTS.log_cleaner_backoff_ms
FIRST_CHECK_MS = DEFAULTS.log_initial_task_delay_ms
CHECK_MS = DEFAULTS.log_retention_check_interval_ms


class Bench:
    """A broker's logs with their maintenance, on a clock that moves by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.tasks = LoopTasks(asyncio.get_running_loop())
        self.settings: Settings = DEFAULTS
        self.tracer = Tracer(self.clock.monotonic_us, level=TraceLevel.FULL, is_strict=True)
        self.hosted: dict[TopicPartition, PartitionLog] = {}
        self.noted: list[int] = []
        """When starts of logs were noted."""
        self.maintenance = LogMaintenance(
            clock=self.clock,
            tasks=self.tasks,
            settings=lambda: self.settings,
            hosted=self.hosted,
            log_events=LogEvents(self.tracer, "broker/1"),
            note_log_starts=lambda: self.noted.append(self.clock.now_ms() - START_MS),
        )

    def host(self, topic_partition: TopicPartition, config: LogConfig) -> PartitionLog:
        log = PartitionLog(topic_partition=topic_partition, config=config, leader_epoch=0)
        self.hosted[topic_partition] = log
        return log

    def put(self, log: PartitionLog, *keys: str) -> None:
        """Append a batch for each key, and advance the high watermark."""
        now_ms = self.clock.now_ms()
        for key in keys:
            batch = build_batch([Record(key=key.encode(), value=b"v")], timestamp_ms=now_ms)
            append_client(log, batch, guard=0, now_ms=now_ms)
        log.advance_high_watermark(log.log_end_offset)

    async def settle(self) -> None:
        """Let the tasks run until the round of maintenance has ended."""
        for _ in range(50):
            await asyncio.sleep(0)


def keys(log: PartitionLog) -> list[bytes | None]:
    return [record.key for batch in log.batches() for record in read_records(batch)]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    bench.maintenance.stop()
    await bench.tasks.close()


async def test_old_segments_are_looked_for_first_early_and_then_seldom(bench: Bench) -> None:
    log = bench.host(FIRST, LogConfig(rules=LATEST_RULES, roll_bytes=1, retention_ms=1_000))
    bench.put(log, "a", "b")
    bench.maintenance.start()
    bench.clock.advance(FIRST_CHECK_MS - 1)
    assert log.log_start_offset == 0
    bench.clock.advance(1)
    assert log.log_start_offset == 2
    bench.put(log, "c")
    bench.clock.advance(CHECK_MS - 1)
    assert log.log_start_offset == 2
    bench.clock.advance(1)
    assert log.log_start_offset == 3
    events = list(bench.tracer.events())
    log_starts = [(event.p, event.d) for event in events if event.k == "log.start"]
    event_fields = {"tp": str(FIRST), "reason": "retention", "open": []}
    assert log_starts == [
        ((0,), {**event_fields, "to": 2, "lso": 2}),
        ((2,), {**event_fields, "to": 3, "lso": 3}),
    ]
    timers = [(event.k, event.p, event.d) for event in (events[0], events[2])]
    assert timers == [("timer.fire", (), {"timer": "retention", "waited_ms": CHECK_MS})] * 2


async def test_starts_of_logs_are_noted_first_early_and_then_every_minute(bench: Bench) -> None:
    bench.maintenance.start()
    bench.clock.advance(FIRST_CHECK_MS + 130_000)
    assert bench.noted == [30_000, 90_000, 150_000]
    bench.maintenance.stop()
    bench.clock.advance(130_000)
    assert len(bench.noted) == 3


async def test_without_an_interval_they_are_noted_once(bench: Bench) -> None:
    bench.settings = msgspec.structs.replace(
        DEFAULTS, log_flush_start_offset_checkpoint_interval_ms=0
    )
    bench.maintenance.start()
    bench.clock.advance(FIRST_CHECK_MS + 130_000)
    assert bench.noted == [30_000]


async def test_retention_leaves_compacted_logs_to_the_cleaner(bench: Bench) -> None:
    config = LogConfig(
        rules=LATEST_RULES,
        roll_bytes=1,
        retention_ms=1_000,
        is_compacted=True,
        is_deleted=True,
        min_cleanable_dirty_ratio=1.0,
    )
    bench.settings = msgspec.structs.replace(DEFAULTS, log_cleaner_backoff_ms=FIRST_CHECK_MS + 1)
    log = bench.host(FIRST, config)
    bench.put(log, "a", "b")
    bench.maintenance.start()
    bench.clock.advance(FIRST_CHECK_MS)
    assert log.log_start_offset == 0
    bench.clock.advance(1)
    assert log.log_start_offset == 2


async def test_compacted_logs_are_cleaned_and_then_left_alone(bench: Bench) -> None:
    log = bench.host(FIRST, COMPACTED)
    bench.put(log, "a", "b", "a", "c")
    bench.maintenance.start()
    bench.clock.advance(BACKOFF_MS)
    assert keys(log) == [b"a", b"b", b"a", b"c"], "a round is no part of anybody's request"
    await bench.settle()
    assert keys(log) == [b"b", b"a", b"c"]
    bench.put(log, "b", "d")
    bench.clock.advance(BACKOFF_MS)
    await bench.settle()
    assert keys(log) == [b"a", b"c", b"b", b"d"]


async def test_all_logs_that_are_dirty_get_their_turn(bench: Bench) -> None:
    logs = [bench.host(FIRST, COMPACTED), bench.host(SECOND, COMPACTED)]
    bench.put(logs[0], "a", "b", "a", "c")
    bench.put(logs[1], "a", "a", "a", "c")
    bench.maintenance.start()
    bench.clock.advance(BACKOFF_MS)
    await bench.settle()
    assert keys(logs[0]) == [b"b", b"a", b"c"]
    assert keys(logs[1]) == [b"a", b"c"]


async def test_a_round_leaves_the_loop_to_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner, "PAUSE_BYTES", 1)
    log = bench.host(FIRST, COMPACTED)
    bench.put(log, *"abcdefgh")
    bench.maintenance.start()
    bench.clock.advance(BACKOFF_MS)
    turn_count = 0
    while log.local.cleaned_until is None:
        await asyncio.sleep(0)
        turn_count += 1
    assert turn_count > 14


@pytest.mark.usefixtures("all_levels")
async def test_a_log_that_can_not_be_read_is_not_tried_again(bench: Bench) -> None:
    log = bench.host(FIRST, COMPACTED)
    bench.put(log, "a", "b")
    broken_batch = bytearray(build_batch([Record(key=b"k")] * 2, timestamp_ms=1))
    broken_batch[61] = 0x7E  # the length of its first record
    (segment,) = log.local.inactive_segments(0, 1)
    segment.append(bytes(broken_batch), 0, 1, max_timestamp=1, now_ms=1)
    bench.maintenance.start()
    bench.clock.advance(BACKOFF_MS)
    assert bench.maintenance.uncleanable_count == 0
    with capture_logs() as lines:
        await bench.settle()
    uncleanable_lines = [line for line in lines if line["event"] == "log.uncleanable"]
    assert [uncleanable_line["partition"] for uncleanable_line in uncleanable_lines] == [str(FIRST)]
    assert uncleanable_lines[0]["reason"]
    assert log.local.cleaned_until is None
    assert bench.maintenance.uncleanable_count == 1
    second_log = bench.host(SECOND, COMPACTED)
    bench.put(second_log, "a", "a", "b")
    bench.clock.advance(BACKOFF_MS)
    await bench.settle()
    assert keys(second_log) == [b"a", b"b"]
    assert log.local.cleaned_until is None


async def test_a_cleaner_with_room_for_no_key_pauses_between_its_rounds(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[PartitionLog] = []

    def count_round(log: PartitionLog, *arguments: Any) -> Any:
        rounds.append(log)
        return cleaner.clean(log, *arguments)

    monkeypatch.setattr(log_maintenance, "clean", count_round)
    log = bench.host(FIRST, msgspec.structs.replace(COMPACTED, cleaner_keys_max=0))
    bench.put(log, "a", "a", "b")
    bench.maintenance.start()
    for round_number in (1, 2):
        bench.clock.advance(BACKOFF_MS)
        await bench.settle()
        assert len(rounds) == round_number
    assert keys(log) == [b"a", b"a", b"b"]


@pytest.mark.parametrize("backoff_ms", [0, 1])
async def test_the_cleaner_pauses_however_small_its_backoff_is(
    bench: Bench, backoff_ms: int
) -> None:
    looks: list[int] = []

    def note_look(_name: str, _run: Callable[[], object], run_again: Callable[[], object]) -> None:
        looks.append(bench.clock.now_ms() - START_MS)
        assert len(looks) < 100
        run_again()

    bench.settings = msgspec.structs.replace(DEFAULTS, log_cleaner_backoff_ms=backoff_ms)
    bench.maintenance.gate = note_look
    bench.maintenance.start()
    bench.clock.advance(5 * SHORTEST_PAUSE_MS)
    assert looks == [SHORTEST_PAUSE_MS * number for number in range(1, 6)]


async def test_heavy_batches_are_cleaned_beside_the_loop(bench: Bench) -> None:
    await bench.tasks.close()
    bench.maintenance.tasks = tasks = LoopTasks(asyncio.get_running_loop(), has_threads=True)
    log = bench.host(FIRST, COMPACTED)
    for _ in range(2):
        records = [Record(key=b"%d" % record_number, value=b"v") for record_number in range(5_000)]
        batch = build_batch(records, timestamp_ms=START_MS, compression=ZSTD)
        append_client(log, batch, guard=0, now_ms=START_MS)
    bench.put(log, "last")
    bench.maintenance.start()
    await tasks.unpacker.enter()
    bench.clock.advance(BACKOFF_MS)
    await bench.settle()
    assert log.local.cleaned_until is None, "it waits for the room"
    tasks.unpacker.leave()
    for _ in range(100):
        await tasks.unpacker.enter()  # behind what is being done there
        tasks.unpacker.leave()
        await asyncio.sleep(0)
    assert len(keys(log)) == 5_001
    bench.maintenance.stop()
    await tasks.close()


async def test_a_deleted_log_is_not_cleaned_to_its_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner, "PAUSE_BYTES", 1)
    log = bench.host(FIRST, COMPACTED)
    bench.put(log, *"aaaa")
    bench.maintenance.start()
    bench.clock.advance(BACKOFF_MS)
    await asyncio.sleep(0)
    del bench.hosted[FIRST]
    await bench.settle()
    assert log.local.cleaned_until is None


async def test_the_cleaner_may_be_switched_off(bench: Bench) -> None:
    bench.settings = msgspec.structs.replace(DEFAULTS, log_cleaner_enable=False)
    log = bench.host(FIRST, COMPACTED)
    bench.put(log, *"aaaa")
    bench.maintenance.start()
    bench.clock.advance(100 * BACKOFF_MS)
    await bench.settle()
    assert keys(log) == [b"a"] * 4


async def test_a_stopped_broker_does_nothing_any_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner, "PAUSE_BYTES", 1)
    log = bench.host(FIRST, COMPACTED)
    bench.put(log, *"aaaa")
    bench.maintenance.start()
    bench.clock.advance(BACKOFF_MS)
    await asyncio.sleep(0)
    bench.maintenance.stop()
    await bench.settle()
    assert log.local.cleaned_until is None
    assert bench.clock.armed_timers == 0


async def test_who_does_not_want_to_wait_has_it_done_at_once(bench: Bench) -> None:
    log = bench.host(FIRST, msgspec.structs.replace(COMPACTED, roll_bytes=10_000))
    bench.put(log, "a", "a")
    bench.maintenance.clean_now(FIRST)
    assert keys(log) == [b"a", b"a"]  # a cleaner never touches the active segment
    bench.maintenance.roll_segment_now(FIRST)
    bench.maintenance.roll_segment_now(FIRST)
    assert len(log.local.segments) == 2
    bench.maintenance.clean_now(FIRST)
    assert keys(log) == [b"a"]

    old_log = bench.host(SECOND, LogConfig(rules=LATEST_RULES, roll_bytes=10_000, retention_ms=5))
    bench.put(old_log, "b")
    bench.maintenance.roll_segment_now(SECOND)
    bench.maintenance.clean_now(SECOND)
    bench.clock.advance(6)
    bench.maintenance.delete_old_segments_now(SECOND)
    assert (old_log.log_start_offset, old_log.log_end_offset) == (1, 1)


async def test_what_is_not_hosted_is_not_looked_after(bench: Bench) -> None:
    for take_care in (
        bench.maintenance.roll_segment_now,
        bench.maintenance.clean_now,
        bench.maintenance.delete_old_segments_now,
    ):
        take_care(FIRST)
    assert bench.hosted == {}
