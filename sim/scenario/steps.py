"""One step of a story acted out. Nothing sleeps: every wait is for a condition that is seen on the
wire, or for a fault that strikes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from sim.check.facts import Finding
from sim.client.txn_views import AbortSpec
from sim.client.waiting import Deadline, pause
from sim.errors import ConfigError, TxnsimError
from sim.faults.plan import Delay, FaultRule
from sim.faults.points import FaultPoint
from sim.scenario.model import Call, Condition, Expectation, Step
from sim.scenario.observations import described, partition_facts, producer_on_partition
from sim.scenario.stage import Stage
from sim.server.readings import late_transactions

PATIENCE_MS: Final = 30_000
"""How long a step may wait for its condition; a story takes about a second."""
POLL_MS: Final = 2
"""Between two looks at a condition."""


class StoryFailedError(TxnsimError):
    """A step's condition did not come about."""


async def act(stage: Stage, step: Step) -> None:
    """Act one step out.

    Raises:
        StoryFailedError: What the step waits for did not happen.
        ClientError: An actor could not do its part.
    """
    if step.say:
        stage.note(step.say)
    if step.call is not None:
        await _call(stage, step.call)
    elif step.hold is not None:
        _hold(stage, step.hold)
    elif step.wait_until is not None:
        await _wait_until(stage, step.wait_until)
    elif step.release is not None:
        await _release(stage, step.release)
    elif step.advance is not None:
        stage.facts.late_gauge_before = late_transactions(stage.cluster)
        stage.environment.clock.advance(step.advance)
    elif step.expect is not None:
        await _expect(stage, step.expect)


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
            for value in call.values:
                await stage.bystander.send(
                    stage.partition.topic, stage.partition.partition, value.encode()
                )
        case ("operator", "find-hanging"):
            await _find_hanging(stage)
        case ("operator", "abort-found"):
            await _abort_found(stage)
        case _:
            raise ConfigError(f"{call.who} can't {call.do!r}")


async def _note_epoch(stage: Stage) -> None:
    """Remember the epoch under which the late record was sent."""
    transaction = await described(stage)
    if transaction is not None:
        stage.facts.late_epoch = transaction.producer_epoch


async def _find_hanging(stage: Stage) -> None:
    stage.found = await stage.admin.find_hanging(
        now_ms=stage.environment.clock.now_ms(), topic=stage.partition.topic
    )
    stage.facts.found = tuple(
        Finding(
            topic=one.partition.topic,
            partition=one.partition.partition,
            producer_id=one.producer.producer_id,
            producer_epoch=one.producer.producer_epoch,
            start_offset=-1
            if one.producer.txn_start_offset is None
            else one.producer.txn_start_offset,
        )
        for one in stage.found
    )
    for finding in stage.facts.found:
        stage.note(
            f"find-hanging names {finding.topic}-{finding.partition}: producer "
            f"{finding.producer_id}, epoch {finding.producer_epoch}, open since offset "
            f"{finding.start_offset}."
        )
    if not stage.found:
        stage.note("find-hanging finds nothing.")


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
    if not stage.facts.armed:
        return
    injector = stage.cluster.injector
    injector.arm(rule)
    if rule.point is FaultPoint.CLIENT_REQUEST:
        # An onlooker at the way back, so that the story can wait until what was held has been
        # handled.
        counter = msgspec.structs.replace(
            rule,
            id=f"{rule.id}-answered",
            point=FaultPoint.CLIENT_RESPONSE,
            action=Delay(delay_ms=0),
        )
        injector.arm(counter)
        stage.handled_rules[rule.id] = counter.id


async def _release(stage: Stage, rule_id: str) -> None:
    if not stage.facts.armed:
        return
    injector = stage.cluster.injector
    armed = injector.get(rule_id)
    if armed is None:
        raise ConfigError(f"release {rule_id}: no such rule was armed")
    if armed.struck == 0:
        raise StoryFailedError(f"the fault {rule_id} never struck: the story was not told")
    stage.facts.struck = armed.struck
    injector.release(rule_id)
    counter = stage.handled_rules.get(rule_id)
    if counter is not None:
        await injector.wait_until_struck(counter, count=armed.released, timeout_ms=PATIENCE_MS)
        injector.disarm(counter)
    injector.disarm(rule_id)


# Conditions and expectations


async def _wait_until(stage: Stage, condition: Condition) -> None:
    if condition.struck is not None:
        if not stage.facts.armed:
            return
        await stage.cluster.injector.wait_until_struck(
            condition.struck, count=1, timeout_ms=PATIENCE_MS
        )
        await _note_epoch(stage)
    elif condition.transaction is not None:
        wanted = condition.transaction

        async def is_in_state() -> bool:
            transaction = await described(stage)
            stage.facts.state_after_abort = "" if transaction is None else transaction.state
            return stage.facts.state_after_abort == wanted or (
                transaction is not None
                and transaction.state == "Empty"
                and stage.facts.late_epoch is not None
                and transaction.producer_epoch > stage.facts.late_epoch
            )

        await _poll(stage, is_in_state, f"DescribeTransactions says {wanted}")
    else:
        await _poll(stage, lambda: _marker_is_written(stage), "DescribeProducers shows the marker")


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


async def _expect(stage: Stage, expectation: Expectation) -> None:
    facts = stage.facts
    match expectation.observe:
        case "after-release":
            facts.after_release = await partition_facts(stage)
        case "late-gauge":
            facts.late_gauge_after = late_transactions(stage.cluster)
        case "after-repair":
            facts.after_repair = await partition_facts(stage)
