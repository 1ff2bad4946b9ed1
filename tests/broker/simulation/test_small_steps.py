"""What a small request keeps, and what it costs when it comes for the thousandth time.

Every API is asked hundreds of times with small arguments: with the same ones, with a new name each
time, and in ``GROWING_STEPS`` with what makes one thing grow. Memory that stays, with the bytes of
the logs, is at most ``KEPT_MAX`` times what was sent, or what ``KEPT`` states. The last requests
run no more lines of code than the fiftieth did.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

import msgspec
import pytest

from tests.broker.simulation import test_costs
from tests.broker.simulation.test_costs import ASKED, Broker
from tests.support.broker_api import KEYS
from tests.support.clusters import VirtualCluster, options, run_cluster
from tests.support.counted_steps import CountedSteps
from tests.support.raw_connection import WireClient
from txnsim.security.options import SecurityOptions
from txnsim.wire import codec
from txnsim.wire.apis import api_name
from txnsim.wire.batch import Record, build_batch
from txnsim.wire.plain_values import message_from

FEW: Final = 50
COUNTS: Final = (300, 1_000)
"""How often each step is repeated: in the gate, and in the nightly."""
KEPT_MAX: Final = 8.0
"""Bytes kept for a byte that was sent."""
ALLOWANCE_BYTES: Final = 100_000
"""Kept by the way: a segment's array grows, a cache fills."""
STEADY_MAX: Final = 1.5
FEW_LINES: Final = 300
COUNTED: Final = 10
"""Requests whose lines are counted, in front of the fiftieth and of the last."""
MEANINGFUL_WORDS: Final = frozenset(
    {"consumer", "range", "PLAIN", "producer_byte_rate", "retention.ms", "*"}
)
"""Strings that are no names."""

RENAMED: Final = "renamed"
"""How the names of steps end that have new names in each request."""

TRANSCRIPT_BYTES: Final = 64
"""What the test's own client keeps of each request."""

KEPT: Final[Mapping[str, float]] = {
    # A topic or a partition: 3 kB, with its replica's log and its share of the metadata.
    "CreateTopics renamed": 105,
    "CreatePartitions renamed": 80,
    # A group with its member, timers and records: 5 kB, for a request of 50 to 80 bytes.
    "ConsumerGroupHeartbeat renamed": 115,
    "ShareGroupHeartbeat renamed": 130,
    "StreamsGroupHeartbeat renamed": 80,
    # A member: 1.3 kB and its records.
    "ConsumerGroupHeartbeat grows": 40,
    # A group that is waited for until its first rebalance.
    "JoinGroup renamed": 18,
    # A session with its connection's note: 0.7 to 1.2 kB, up to 1,000 and 2,000 sessions.
    "Fetch grows": 14,
    "ShareFetch renamed": 20,
    # A transactional id: its record, as Kafka writes it, and its entry.
    "InitProducerId renamed": 18,
    # Records of a share group's state, as Kafka writes them.
    "AlterShareGroupOffsets same": 14,
    "AlterShareGroupOffsets renamed": 11,
    "InitializeShareGroupState renamed": 14,
    "ReadShareGroupState renamed": 14,  # of a new leader epoch
    "CreateAcls renamed": 13,
    # A client instance: 0.8 kB until it has been silent for three push intervals.
    "GetTelemetrySubscriptions renamed": 32,
    "PushTelemetry renamed": 22,
    # Each record lists all partitions of the transaction, as Kafka's does: no bound of ours.
    "AddPartitionsToTxn grows": 90,
}
"""Step -> bytes kept for a byte that was sent, where it is more than ``KEPT_MAX``."""
RISING: Final = frozenset(
    {
        # The record is the whole transaction, as Kafka's is.
        "AddPartitionsToTxn grows",
        # A line or two for each session, up to 1,000 and 2,000.
        "Fetch grows",
        "ShareFetch renamed",
    }
)
"""Steps whose requests cost more as one thing grows."""
PARTS: Final = 6
"""Tests that share the steps, so that processes share them."""

Values = Callable[[Broker, int], Mapping[str, Any]]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A request that the test repeats many times."""

    name: str
    api_key: int
    version: int
    values: Values


def renamed(value: Any, number: int) -> Any:
    """The value with another name in place of each name that it contains."""
    if isinstance(value, str):
        return value if value in MEANINGFUL_WORDS or not value else f"{value}-{number}"
    if isinstance(value, Mapping):
        return {key: renamed(field, number) for key, field in value.items()}
    if isinstance(value, (list, tuple)):
        return [renamed(element, number) for element in value]
    if isinstance(value, UUID):
        return UUID(int=value.int + number)
    return value


def _same(values_of: test_costs.Values) -> Values:
    return lambda broker, _: values_of(broker)


def _renamed(values_of: test_costs.Values) -> Values:
    return lambda broker, number: renamed(values_of(broker), number)


def _grown_transaction(broker: Broker, number: int) -> dict[str, Any]:
    topics = [{"name": "wide", "partitions": [number]}]
    return test_costs.added("t", broker.producer, topics)


def _new_producer(_: Broker, number: int) -> dict[str, Any]:
    batch = build_batch(
        [Record(key=b"k", value=b"v")],
        timestamp_ms=test_costs.STAMP_MS,
        producer_id=10_000 + number,
        producer_epoch=0,
        base_sequence=0,
    )
    return test_costs._written(batch)


def _new_marker(_: Broker, number: int) -> dict[str, Any]:
    return test_costs._marked(20_000 + number)


def _new_member(_: Broker, number: int) -> dict[str, Any]:
    return {**test_costs._JOINING, "group_id": "many", "member_id": f"m{number}"}


GROWING_STEPS: Final = (
    Step(
        name="AddPartitionsToTxn grows",
        api_key=KEYS["AddPartitionsToTxn"],
        version=3,
        values=_grown_transaction,
    ),
    Step(name="Produce grows", api_key=KEYS["Produce"], version=9, values=_new_producer),
    Step(
        name="WriteTxnMarkers grows", api_key=KEYS["WriteTxnMarkers"], version=1, values=_new_marker
    ),
    Step(
        name="ConsumerGroupHeartbeat grows",
        api_key=KEYS["ConsumerGroupHeartbeat"],
        version=1,
        values=_new_member,
    ),
    Step(
        name="Fetch grows",
        api_key=KEYS["Fetch"],
        version=12,
        values=lambda _broker, _number: test_costs._fetched(session_epoch=0),
    ),
)
STEPS: Final = (
    *(
        Step(
            name=f"{api_name(api_key)} {kind}",
            api_key=api_key,
            version=version,
            values=vary(values),
        )
        for api_key, version, values in ASKED
        for kind, vary in (("same", _same), (RENAMED, _renamed))
    ),
    *GROWING_STEPS,
)


class StepRepetition(msgspec.Struct, frozen=True):
    """The bytes and steps that the repetitions of a request cost."""

    sent_bytes: int
    kept_bytes: int
    lines_at_few: int
    lines_at_many: int


async def _repeat(broker: Broker, step: Step, count: int) -> StepRepetition:
    await _ask(broker, step, range(FEW - COUNTED))
    with CountedSteps() as steps_at_few:
        await _ask(broker, step, range(FEW - COUNTED, FEW))
    repetition = await _measure(broker, step, range(FEW, count), lines_at_few=steps_at_few.total)
    if step not in GROWING_STEPS and _too_much(step.name, repetition):
        # A table of the whole process (interned strings, caches), which other tests have filled,
        # may have grown meanwhile. That happens once; what a broker keeps comes again.
        repeated_numbers = range(count, 2 * count - FEW)
        repetition = await _measure(broker, step, repeated_numbers, lines_at_few=steps_at_few.total)
    return repetition


async def _measure(
    broker: Broker, step: Step, numbers: range, *, lines_at_few: int
) -> StepRepetition:
    kept_before = await _kept()
    sent_bytes = await _ask(broker, step, numbers[:-COUNTED])
    with CountedSteps() as steps_at_many:
        sent_bytes += await _ask(broker, step, numbers[-COUNTED:])
    kept_bytes = await _kept() - kept_before - TRANSCRIPT_BYTES * len(numbers)
    return StepRepetition(sent_bytes, kept_bytes, lines_at_few, steps_at_many.total)


async def _ask(broker: Broker, step: Step, numbers: range) -> int:
    """Send a request for each number; returns the bytes sent."""
    sent_bytes = 0
    request_class = codec.request_class(step.api_key, step.version)
    for number in numbers:
        message = message_from(request_class, step.values(broker, number))
        frame = broker.wire.frame(step.api_key, step.version, message)
        broker.wire.send(frame)
        sent_bytes += len(frame)
        await broker.wire.answer()
    return sent_bytes


async def _kept() -> int:
    await asyncio.sleep(1)
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def _play(
    cluster: VirtualCluster, steps: tuple[Step, ...], count: int
) -> dict[str, StepRepetition]:
    (broker_image,) = cluster.sim.metadata.image.brokers.values()
    broker = Broker(cluster, await WireClient.open(broker_image.host, broker_image.port))
    await test_costs._prepared(broker)
    repetitions = {}
    for step in steps:
        broker.producer = await test_costs.began(broker, "t")
        repetitions[step.name] = await _repeat(broker, step, count)
    await broker.wire.close()
    return repetitions


def _too_much(step_name: str, repetition: StepRepetition) -> list[str]:
    factor = KEPT.get(step_name, KEPT_MAX)
    complaints = []
    if repetition.kept_bytes > ALLOWANCE_BYTES + factor * repetition.sent_bytes:
        complaints.append(
            f"{step_name} keeps {repetition.kept_bytes} of {repetition.sent_bytes} bytes"
        )
    lines_max = STEADY_MAX * max(repetition.lines_at_few, FEW_LINES)
    if repetition.lines_at_many > lines_max and step_name not in RISING:
        complaints.append(
            f"{step_name}: {repetition.lines_at_few} lines for {COUNTED} requests, then"
            f" {repetition.lines_at_many}"
        )
    return complaints


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("count", [COUNTS[0], pytest.param(COUNTS[1], marks=pytest.mark.thorough)])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_small_request_keeps_and_costs_little_however_often_it_comes(
    part: int, count: int
) -> None:
    repetitions: dict[str, StepRepetition] = {}

    async def story(cluster: VirtualCluster) -> None:
        repetitions.update(await _play(cluster, STEPS[part::PARTS], count))

    options_for_everybody = SecurityOptions(
        has_authorizer=True, allow_everyone_if_no_acl_found=True
    )
    tracemalloc.start()
    try:
        run_cluster(
            story,
            cluster_options=options(
                brokers=1,
                topics=(("orders", 1), ("other", 1), ("wide", count)),
                security=options_for_everybody,
                client_telemetry_enable=True,
            ),
        )
    finally:
        tracemalloc.stop()
    complaints = [
        complaint
        for name, step_repetition in repetitions.items()
        for complaint in _too_much(name, step_repetition)
    ]
    assert not complaints, "\n".join(complaints)


def test_what_is_stated_belongs_to_a_step() -> None:
    names = {step.name for step in STEPS}
    assert KEPT.keys() <= names
    assert names >= RISING
