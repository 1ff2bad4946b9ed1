"""One step of a story acted out. Nothing sleeps: every wait is for a condition that is seen on the
wire, or for a fault that strikes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from sim.check.facts import Finding, PartitionFacts
from sim.client.txn_views import AbortSpec
from sim.client.waiting import Deadline, pause
from sim.errors import InvariantViolation, TxnsimError
from sim.faults.actions import Delay
from sim.faults.plan import FaultRule
from sim.faults.points import FaultPoint
from sim.scenario.model import Call, Condition, Expectation, Step
from sim.scenario.observations import (
    described,
    partition_facts,
    position_after_all,
    producer_on_partition,
)
from sim.scenario.stage import Stage
from sim.server.readings import late_transactions
from sim.trace.story import ONLOOKER_SUFFIX

PATIENCE_MS: Final = 30_000
"""How long a step may wait for its condition; a story takes about a second."""
POLL_MS: Final = 2
"""Between two looks at a condition."""


class StoryFailedError(TxnsimError):
    """A step's condition did not come about, or a fault never struck."""


async def act(stage: Stage, step: Step) -> None:
    """Act one step out.

    Raises:
        StoryFailedError: What the step waits for did not happen.
        ClientError: An actor could not do its part.
    """
    if step.say:
        stage.tell(step.say)
    if step.call is not None:
        await _call(stage, step.call)
    elif step.hold is not None:
        _hold(stage, step.hold)
    elif step.wait_until is not None:
        await _wait_until(stage, step.wait_until)
    elif step.release is not None:
        await _release(stage, step.release)
    elif step.advance is not None:
        stage.environment.clock.advance(step.advance)
    elif step.expect is not None:
        await _expect(stage, step.expect)


def need_strikes(stage: Stage) -> None:
    """See to it that every fault of the story was part of it.

    Raises:
        StoryFailedError: One never struck.
    """
    stage.facts.struck = sum(armed.struck for armed in stage.armed.values())
    for rule_id, armed in stage.armed.items():
        if armed.struck == 0:
            raise StoryFailedError(f"the fault {rule_id} never struck: the story was not told")


# Calls


async def _call(stage: Stage, call: Call) -> None:
    player = stage.player
    match (call.who, call.do):
        case ("producer", "begin"):
            await player.begin()
        case ("producer", "send"):
            await player.send(call.value)
        case ("producer", "await-ack"):
            await player.await_ack()
            await _note_epoch(stage)
        case ("producer", "give-up"):
            await player.give_up()
        case ("producer", "abort"):
            await player.abort()
        case ("bystander", "append"):
            await _append(stage, call.values)
        case ("operator", "find-hanging"):
            await _find_hanging(stage)
        case ("operator", "abort-found"):
            await _abort_found(stage)
        case _:
            raise InvariantViolation(f"{call.who} can't {call.do!r}, and the file was accepted")


async def _note_epoch(stage: Stage) -> None:
    """Remember the epoch under which the late record was sent."""
    transaction = await described(stage)
    if transaction is not None:
        stage.facts.late_epoch = transaction.producer_epoch


async def _append(stage: Stage, values: tuple[str, ...]) -> None:
    topic, partition = stage.partition.topic, stage.partition.partition
    offsets = []
    for value in values:
        written = await stage.bystander.send(topic, partition, value.encode())
        stage.facts.appended += (value,)
        offsets.append(written.offset)
    stage.tell(
        f"{', '.join(values)} acknowledged at {', '.join(map(str, offsets))}", who="bystander"
    )


async def _find_hanging(stage: Stage) -> None:
    stage.found = await stage.admin.find_hanging(
        now_ms=stage.environment.clock.now_ms(), topic=stage.partition.topic
    )
    for one in stage.found:
        start = one.producer.txn_start_offset
        finding = Finding(
            topic=one.partition.topic,
            partition=one.partition.partition,
            producer_id=one.producer.producer_id,
            producer_epoch=one.producer.producer_epoch,
            start_offset=-1 if start is None else start,
        )
        stage.facts.found += (finding,)
        stage.tell(
            f"find-hanging names {one.partition}: producer {finding.producer_id}, epoch "
            f"{finding.producer_epoch}, open since offset {finding.start_offset}",
            who="operator",
        )
    if not stage.found:
        stage.tell("find-hanging names nothing: there is nothing to abort", who="operator")


async def _abort_found(stage: Stage) -> None:
    for one in stage.found:
        await stage.admin.abort_transaction(
            AbortSpec(
                partition=one.partition,
                producer_id=one.producer.producer_id,
                producer_epoch=one.producer.producer_epoch,
                # Kafka's admin writes 0 where the partition has seen no marker of this producer.
                coordinator_epoch=one.producer.coordinator_epoch or 0,
            )
        )


# Faults


def _hold(stage: Stage, rule: FaultRule) -> None:
    injector = stage.cluster.injector
    stage.armed[rule.id] = injector.arm(rule)
    if rule.point is FaultPoint.CLIENT_REQUEST:
        # An onlooker at the way back: what is held can be waited for until it has been handled.
        onlooker = msgspec.structs.replace(
            rule,
            id=rule.id + ONLOOKER_SUFFIX,
            point=FaultPoint.CLIENT_RESPONSE,
            action=Delay(delay_ms=0),
        )
        injector.arm(onlooker)
        stage.onlookers[rule.id] = onlooker.id


async def _release(stage: Stage, rule_id: str) -> None:
    need_strikes(stage)
    injector = stage.cluster.injector
    armed = stage.armed[rule_id]
    injector.release(rule_id)
    onlooker = stage.onlookers.get(rule_id)
    if onlooker is not None:
        await _until_struck(stage, onlooker, count=armed.released)
        injector.disarm(onlooker)
        stage.facts.handled += armed.released
    injector.disarm(rule_id)


async def _until_struck(stage: Stage, rule_id: str, *, count: int) -> None:
    try:
        await stage.cluster.injector.wait_until_struck(rule_id, count=count, timeout_ms=PATIENCE_MS)
    except TimeoutError as error:
        raise StoryFailedError(str(error)) from None


# Conditions


async def _wait_until(stage: Stage, condition: Condition) -> None:
    if condition.struck is not None:
        await _until_struck(stage, condition.struck, count=1)
        await _note_epoch(stage)
    elif condition.transaction is not None:
        wanted = condition.transaction
        await _poll(
            stage, lambda: _is_in_state(stage, wanted), f"DescribeTransactions says {wanted}"
        )
    else:
        await _poll(stage, lambda: _marker_is_written(stage), "DescribeProducers shows the marker")


async def _is_in_state(stage: Stage, wanted: str) -> bool:
    facts = stage.facts
    transaction = await described(stage)
    if transaction is None:
        return False
    facts.state_after_abort = transaction.state
    facts.epoch_after_abort = transaction.producer_epoch
    if transaction.state == wanted:
        return True
    # A client that bumps its epoch after an abort (KIP-360) goes on to Empty at once.
    return (
        transaction.state == "Empty"
        and facts.late_epoch is not None
        and transaction.producer_epoch > facts.late_epoch
    )


async def _marker_is_written(stage: Stage) -> bool:
    """Whether the leader has written the abort marker: only a marker brings a coordinator epoch."""
    producer = await producer_on_partition(stage)
    if producer is None or producer.coordinator_epoch is None:
        return False
    stage.facts.marker_epoch = producer.producer_epoch
    return producer.txn_start_offset is None


async def _poll(stage: Stage, holds: Callable[[], Awaitable[bool]], what: str) -> None:
    clock = stage.environment.clock
    deadline = Deadline(clock, PATIENCE_MS)
    while not await holds():
        if deadline.passed:
            raise StoryFailedError(f"waited {PATIENCE_MS} ms in vain until {what}")
        await pause(clock, POLL_MS)


# Expectations


async def _expect(stage: Stage, expectation: Expectation) -> None:
    facts = stage.facts
    match expectation.observe:
        case "reader-position":
            facts.reader_offset = await position_after_all(stage)
            stage.tell(
                f"has read everything that is committed, and stands at offset "
                f"{facts.reader_offset}",
                who="reader",
            )
        case "after-release":
            facts.after_release = await partition_facts(stage)
            stage.tell(_reading(facts.after_release), who="reader")
        case "late-gauge-before":
            facts.late_gauge_before = late_transactions(stage.cluster)
        case "late-gauge-after":
            facts.late_gauge_after = late_transactions(stage.cluster)
            stage.tell(
                f"PartitionsWithLateTransactionsCount was {facts.late_gauge_before} and is "
                f"{facts.late_gauge_after}",
                who="metrics",
            )
        case "after-repair":
            facts.after_repair = await partition_facts(stage)
            same = facts.after_release is not None and (
                facts.after_release.reader.values == facts.after_repair.reader.values
            )
            stage.tell(_reading(facts.after_repair, again=True, same=same), who="reader")


def _reading(seen: PartitionFacts, *, again: bool = False, same: bool = False) -> str:
    """What the reader gets at its position, in words."""
    reader = seen.reader
    fetch = "the same Fetch" if again else f"a {reader.isolation} Fetch at {reader.offset}"
    still = (" still" if same else " now") if again else ""
    stable, high = reader.last_stable_offset, reader.high_watermark
    if reader.starved:
        return (
            f"{fetch}{still} brings nothing, though the high watermark is {high}: the last stable "
            f"offset stands at {stable}"
        )
    return (
        f"{fetch}{still} brings {', '.join(reader.values) or 'nothing'}; the last stable offset is "
        f"{stable}, the high watermark {high}"
    )
