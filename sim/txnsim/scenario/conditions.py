"""What a story waits for and expects: seen on the wire, or shown by a fault that strikes. Nothing
sleeps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from txnsim.client.errors import ClientError
from txnsim.client.fetching import FetchResult
from txnsim.client.inspection.txn_views import ProducerState
from txnsim.client.waiting import Deadline, pause
from txnsim.scenario.answers import StoryFailedError
from txnsim.scenario.stage import PATIENCE_MS, Stage
from txnsim.scenario.steps_model import (
    Condition,
    Expectation,
    Reaches,
    StruckTimes,
    TransactionIs,
)
from txnsim.types import IsolationLevel, TopicPartition

NO_LEADER: Final = "none"
"""In place of a leader."""
POLL_FIRST_MS: Final = 2
POLL_MAX_MS: Final = 250
"""Between two looks at a condition; the pause grows."""


async def wait_until(stage: Stage, condition: Condition) -> None:
    """Wait until it holds.

    Raises:
        StoryFailedError: It did not come about.
    """
    if condition.struck is not None:
        struck = condition.struck
        times = struck.times if isinstance(struck, StruckTimes) else 1
        armed = stage.in_force(struck.rule if isinstance(struck, StruckTimes) else struck)
        await until_struck(stage, armed.rule.id, count=times)
        return
    holds, what = _condition(stage, condition)
    try:
        await poll(stage, holds, what)
    except StoryFailedError as error:
        case = await _case(stage, condition)
        lines = dict.fromkeys([str(error), *case, *still_held(stage, case)])
        raise StoryFailedError("; ".join(lines)) from None


def _condition(stage: Stage, condition: Condition) -> tuple[Callable[[], Awaitable[bool]], str]:
    """How to look, and what is looked for."""
    if condition.answered is not None:
        background = stage.called(condition.answered)

        async def answered() -> bool:
            return background.task.done()

        return answered, f"{condition.answered} is answered"
    if condition.transaction is not None:
        wanted = condition.transaction
        return lambda: _is_in_state(stage, wanted), f"{wanted.id} is {' or '.join(wanted.is_)}"
    if condition.marker is not None:
        place = condition.marker
        return lambda: _marked(stage, place), f"DescribeProducers shows a marker on {place}"
    if condition.open is not None:
        place = condition.open
        return lambda: _opened(stage, place), f"DescribeProducers shows {place} open"
    if condition.high_watermark is not None:
        wanted_high = condition.high_watermark
        return (
            lambda: _reaches(stage, wanted_high, lambda seen: seen.high_watermark),
            f"the high watermark of {wanted_high.partition} is {wanted_high.offset}",
        )
    if condition.stable is not None:
        wanted_stable = condition.stable
        return (
            lambda: _reaches(stage, wanted_stable, lambda seen: seen.last_stable_offset),
            f"the last stable offset of {wanted_stable.partition} is {wanted_stable.offset}",
        )
    return _of_metadata(stage, condition)


def _of_metadata(stage: Stage, condition: Condition) -> tuple[Callable[[], Awaitable[bool]], str]:
    if condition.leader is not None:
        place, leader = condition.leader.partition, condition.leader.is_
        who = "no broker" if leader == NO_LEADER else f"broker {leader}"
        return lambda: _is_led_by(stage, place, leader), f"{who} leads {place}"
    assert condition.in_sync is not None, "the file was accepted"
    whole = condition.in_sync
    return lambda: _is_in_sync(stage, whole), f"all replicas of {whole} are in sync"


async def poll(stage: Stage, holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Look until it holds.

    Raises:
        StoryFailedError: Patience has run out.
    """
    clock = stage.environment.clock
    deadline = Deadline(clock, PATIENCE_MS)
    pause_ms: float = POLL_FIRST_MS
    while not await holds():
        if deadline.passed:
            raise StoryFailedError(f"waited {PATIENCE_MS} ms in vain until {what}")
        await pause(clock, pause_ms)
        pause_ms = min(pause_ms * 1.5, POLL_MAX_MS)


async def until_struck(stage: Stage, rule_id: str, *, count: int) -> None:
    """Wait until a rule has struck so often.

    Raises:
        StoryFailedError: It has not.
    """
    try:
        await stage.ground.injector.wait_until_struck(rule_id, count=count, timeout_ms=PATIENCE_MS)
    except (TimeoutError, LookupError) as error:
        held = still_held(stage, [str(error)])
        raise StoryFailedError("; ".join([str(error), *held])) from None


async def expect(stage: Stage, expectation: Expectation) -> None:
    """Look from outside, as a reader that begins anew.

    Raises:
        StoryFailedError: It is not as expected.
    """
    place = expectation.partition
    for isolation, wanted in (
        (IsolationLevel.READ_COMMITTED, expectation.committed),
        (IsolationLevel.READ_UNCOMMITTED, expectation.uncommitted),
    ):
        if wanted is not None:
            values, _ = await stage.beginner().read(place, isolation)
            _compare(f"{isolation.name.lower()} readers of {place} get", values, wanted)
    if expectation.records is not None:
        values, _ = await stage.beginner().read(place, IsolationLevel.READ_UNCOMMITTED)
        what = f"the number of records that read_uncommitted readers of {place} get is"
        _compare(what, len(values), expectation.records)
    _, seen = await stage.reader.read(place, IsolationLevel.READ_COMMITTED)
    if expectation.stable is not None:
        what = f"the last stable offset of {place} is"
        _compare(what, seen.last_stable_offset, expectation.stable)
    if expectation.high_watermark is not None:
        what = f"the high watermark of {place} is"
        _compare(what, seen.high_watermark, expectation.high_watermark)


def _compare(what: str, seen: object, wanted: object) -> None:
    if seen != wanted:
        raise StoryFailedError(f"{what} {seen}, expected {wanted}")


# What is the case, where something is waited for in vain


def still_held(stage: Stage, said: Sequence[str] = ()) -> list[str]:
    """One line for each fault that holds something, unless a line that was said names it: what is
    held may well be what was waited for.
    """
    return [
        f"the fault {one.rule.id} still holds {len(one.held)} at {one.rule.point}: a step before"
        f" has to release it (`release: {one.rule.id}`)"
        for one in stage.ground.injector.rules()
        if one.held and not any(one.rule.id in line for line in said)
    ]


async def _case(stage: Stage, condition: Condition) -> list[str]:
    """What is seen instead of what was waited for."""
    if condition.answered is not None:
        call = stage.called(condition.answered).call
        return [f"{call.who}: {call.do} was sent, and has no answer yet"]
    if condition.transaction is not None:
        name = condition.transaction.id
        return stage.ground.why_unfinished(name)
    place = condition.marker or condition.open
    if place is not None:
        producers = await _producers(stage, place)
        return [_of_producer(place, one) for one in producers] or [f"{place} knows no producer"]
    reaches = condition.high_watermark or condition.stable
    if reaches is not None:
        _, seen = await stage.reader.read(reaches.partition, IsolationLevel.READ_COMMITTED)
        return [
            f"{reaches.partition}: the last stable offset is {seen.last_stable_offset}, the high"
            f" watermark {seen.high_watermark}"
        ]
    place = condition.in_sync if condition.leader is None else condition.leader.partition
    assert place is not None, "the file was accepted"
    admin = await stage.operator.admin()
    led = (await admin.cluster.refresh((place.topic,))).leader(place)
    if led is None:
        return [f"{place} has no leader"]
    in_sync, replicas = _listed(led.isr), _listed(led.replicas)
    return [f"{place}: broker {led.leader_id} leads; in sync {in_sync} of {replicas}"]


def _of_producer(place: TopicPartition, one: ProducerState) -> str:
    start = one.txn_start_offset
    about = "no transaction is open" if start is None else f"a transaction is open since {start}"
    return f"{place}: producer {one.producer_id}, epoch {one.producer_epoch}: {about}"


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))


# Looks


async def _is_in_state(stage: Stage, wanted: TransactionIs) -> bool:
    admin = await stage.operator.admin()
    found = (await admin.describe_transactions([wanted.id]))[wanted.id]
    return not isinstance(found, ClientError) and found.state in wanted.is_


async def _marked(stage: Stage, place: TopicPartition) -> bool:
    """Only a marker brings a coordinator epoch, and it closes what is open."""
    found = await _producers(stage, place)
    return any(one.coordinator_epoch is not None and one.txn_start_offset is None for one in found)


async def _opened(stage: Stage, place: TopicPartition) -> bool:
    return any(one.txn_start_offset is not None for one in await _producers(stage, place))


async def _producers(stage: Stage, place: TopicPartition) -> tuple[ProducerState, ...]:
    found = (await (await stage.operator.admin()).describe_producers([place]))[place]
    return () if isinstance(found, ClientError) else found


async def _reaches(stage: Stage, wanted: Reaches, offset_of: Callable[[FetchResult], int]) -> bool:
    _, seen = await stage.reader.read(wanted.partition, IsolationLevel.READ_COMMITTED)
    return offset_of(seen) >= wanted.offset


async def _is_led_by(stage: Stage, place: TopicPartition, leader: int | str) -> bool:
    admin = await stage.operator.admin()
    seen = await admin.cluster.refresh((place.topic,))
    found = seen.leader(place)
    if found is None:
        topic = seen.topic(place.topic)
        return leader == NO_LEADER and topic is not None
    return found.leader_id == leader


async def _is_in_sync(stage: Stage, place: TopicPartition) -> bool:
    admin = await stage.operator.admin()
    seen = await admin.cluster.refresh((place.topic,))
    found = seen.leader(place)
    return found is not None and set(found.isr) == set(found.replicas)
