"""What a story waits for and expects: seen on the wire, or shown by a fault that strikes. Nothing
sleeps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from txnsim.client.errors import ClientError
from txnsim.client.fetching import FetchResult
from txnsim.client.inspection.txn_views import ProducerState
from txnsim.client.metadata import ClusterView, PartitionView
from txnsim.client.positions import committed_positions
from txnsim.faults.plan import FaultRule
from txnsim.text import unknown
from txnsim.types import IsolationLevel, TopicPartition
from txnsim_lab.scenario.answers import StoryFailedError
from txnsim_lab.scenario.stage import LOOKER, PATIENCE_MS, Background, Stage
from txnsim_lab.scenario.steps_model import (
    Condition,
    Expectation,
    LeaderIs,
    Reaches,
    StruckTimes,
    TransactionIs,
    needed,
)
from txnsim_lab.target.cluster import TargetError, until

NO_LEADER: Final = "none"
"""Condition word for a partition without a leader."""
Look = Callable[[], Awaitable[tuple[bool, list[str]]]]
"""Returns whether a condition holds, and the present state in words."""


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
    what, look = _wanted(stage, condition)
    case: list[str] = []

    async def holds() -> bool:
        nonlocal case
        is_so, case = await look()
        return is_so

    try:
        await poll(stage, holds, what)
    except StoryFailedError as error:
        lines = dict.fromkeys([str(error), *case, *still_held(stage, case)])
        raise StoryFailedError("; ".join(lines)) from None


def _wanted(stage: Stage, condition: Condition) -> tuple[str, Look]:
    """A description of the condition, and its look."""
    if condition.answered is not None:
        background = stage.called(condition.answered)
        return f"{condition.answered} is answered", partial(_answered, background)
    if (wanted := condition.transaction) is not None:
        what = f"{wanted.id} is {' or '.join(wanted.is_)}"
        return what, partial(_in_state, stage, wanted)
    if (place := condition.marker) is not None:
        what = f"DescribeProducers shows a marker on {place}"
        return what, partial(_producers, stage, place, _is_marked)
    if (place := condition.open) is not None:
        return f"DescribeProducers shows {place} open", partial(_producers, stage, place, _is_open)
    if (high := condition.high_watermark) is not None:
        what = f"the high watermark of {high.partition} is {high.offset}"
        return what, partial(_reaches, stage, high, lambda seen: seen.high_watermark)
    if (stable := condition.stable) is not None:
        what = f"the last stable offset of {stable.partition} is {stable.offset}"
        return what, partial(_reaches, stage, stable, lambda seen: seen.last_stable_offset)
    if (leader := condition.leader) is not None:
        who = "no broker" if leader.is_ == NO_LEADER else f"broker {leader.is_}"
        return f"{who} leads {leader.partition}", partial(_is_led_by, stage, leader)
    whole = needed(condition.in_sync)
    return f"all replicas of {whole} are in sync", partial(_is_in_sync, stage, whole)


async def poll(stage: Stage, holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Look until it holds.

    Raises:
        StoryFailedError: Patience has run out.
    """
    try:
        await until(stage.environment.clock, holds, what, patience_ms=PATIENCE_MS)
    except TargetError as error:
        raise StoryFailedError(str(error)) from None


async def until_struck(stage: Stage, rule_id: str, *, count: int) -> None:
    """Wait until a rule has struck so often.

    Raises:
        StoryFailedError: It has not.
    """
    try:
        await stage.target.injector.wait_until_struck(rule_id, count=count, timeout_ms=PATIENCE_MS)
    except (TimeoutError, LookupError) as error:
        armed = stage.armed.get(rule_id)  # none for one that counts what another has held
        whom = strangers(stage, armed.rule) if armed is not None and armed.struck == 0 else ()
        held = still_held(stage, [str(error)])
        raise StoryFailedError("; ".join([str(error), *whom, *held])) from None


def strangers(stage: Stage, rule: FaultRule) -> Iterator[str]:
    """The names in a rule that the story does not have, each with the nearest known name."""
    cast = stage.scenario.cast
    clients = {name: actor.client_id or name for name, actor in cast.items()}
    ids = [
        actor.transactional_id or name
        for name, actor in cast.items()
        if actor.plays in ("wire", "application")
    ]
    for what, given, known in (
        ("transactional id", rule.transactional_id, ids),
        ("client id", rule.client_id, [*clients.values()]),
        ("topic", rule.topic, [*stage.target.topics]),
    ):
        if given is not None and given not in known:
            yield unknown(what, given, known)


async def expect(stage: Stage, expectation: Expectation) -> None:
    """Look from outside, as a reader that begins anew.

    Raises:
        StoryFailedError: It is not as expected.
    """
    if expectation.unanswered is not None:
        background = stage.called(expectation.unanswered)
        if background.task.done():
            raise StoryFailedError(f"{expectation.unanswered} is answered, expected no answer yet")
        return
    if expectation.group is not None:
        await _positions(stage, expectation.group, needed(expectation.positions))
        return
    place = needed(expectation.partition)
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


async def _positions(stage: Stage, group: str, wanted: Mapping[TopicPartition, int]) -> None:
    admin = await stage.operator.admin()
    found = await committed_positions(admin.cluster, group, tuple(wanted), stable=False)
    stage.recorder.positions(LOOKER, group, found)
    for place, position in wanted.items():
        _compare(f"the position of group {group} on {place} is", found[place], position)


def _compare(what: str, seen: object, wanted: object) -> None:
    if seen != wanted:
        raise StoryFailedError(f"{what} {seen}, expected {wanted}")


def still_held(stage: Stage, said: Sequence[str] = ()) -> list[str]:
    """Lines for faults that still hold something, unless a line already names the fault."""
    return [
        f"the fault {one.rule.id} still holds {len(one.held)} at {one.rule.point}: a step before"
        f" has to release it (`release: {one.rule.id}`)"
        for one in stage.target.injector.rules()
        if one.held and not any(one.rule.id in line for line in said)
    ]


# Looks: whether it holds, and what is the case


async def _answered(background: Background) -> tuple[bool, list[str]]:
    call = background.call
    return background.task.done(), [f"{call.who}: {call.do} was sent, and has no answer yet"]


async def _in_state(stage: Stage, wanted: TransactionIs) -> tuple[bool, list[str]]:
    admin = await stage.operator.admin()
    found = (await admin.describe_transactions([wanted.id]))[wanted.id]
    holds = not isinstance(found, ClientError) and found.state in wanted.is_
    return holds, [] if holds else stage.target.why_unfinished(wanted.id)


async def _producers(
    stage: Stage, place: TopicPartition, test: Callable[[ProducerState], bool]
) -> tuple[bool, list[str]]:
    answer = (await (await stage.operator.admin()).describe_producers([place]))[place]
    found = () if isinstance(answer, ClientError) else answer
    case = [_of_producer(place, one) for one in found] or [f"{place} knows no producer"]
    return any(map(test, found)), case


def _is_marked(one: ProducerState) -> bool:
    """Only a marker brings a coordinator epoch, and it closes what is open."""
    return one.coordinator_epoch is not None and not _is_open(one)


def _is_open(one: ProducerState) -> bool:
    return one.txn_start_offset is not None


def _of_producer(place: TopicPartition, one: ProducerState) -> str:
    start = one.txn_start_offset
    about = "no transaction is open" if start is None else f"a transaction is open since {start}"
    return f"{place}: producer {one.producer_id}, epoch {one.producer_epoch}: {about}"


async def _reaches(
    stage: Stage, wanted: Reaches, offset_of: Callable[[FetchResult], int]
) -> tuple[bool, list[str]]:
    _, seen = await stage.reader.read(wanted.partition, IsolationLevel.READ_COMMITTED)
    stable, high = seen.last_stable_offset, seen.high_watermark
    where = f"the last stable offset is {stable}, the high watermark {high}"
    return offset_of(seen) >= wanted.offset, [f"{wanted.partition}: {where}"]


async def _is_led_by(stage: Stage, wanted: LeaderIs) -> tuple[bool, list[str]]:
    seen, led, case = await _led(stage, wanted.partition)
    if led is None:
        is_there = seen.topic(wanted.partition.topic) is not None
        return wanted.is_ == NO_LEADER and is_there, case
    return led.leader_id == wanted.is_, case


async def _is_in_sync(stage: Stage, place: TopicPartition) -> tuple[bool, list[str]]:
    _, led, case = await _led(stage, place)
    return led is not None and set(led.isr) == set(led.replicas), case


async def _led(
    stage: Stage, place: TopicPartition
) -> tuple[ClusterView, PartitionView | None, list[str]]:
    """What clients see of a partition, also in words."""
    seen = await (await stage.operator.admin()).cluster.refresh((place.topic,))
    led = seen.leader(place)
    if led is None:
        return seen, None, [f"{place} has no leader"]
    in_sync, replicas = _listed(led.isr), _listed(led.replicas)
    text = f"{place}: broker {led.leader_id} leads; in sync {in_sync} of {replicas}"
    return seen, led, [text]


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))
