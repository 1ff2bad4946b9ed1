"""Plays one step of a story."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from txnsim.client.backoff import pause
from txnsim.client.fetching import FetchResult
from txnsim.client.inspection.txn_views import ProducerState
from txnsim.client.metadata import ClusterMetadata, PartitionMetadata
from txnsim.client.tracing import ClientTrace
from txnsim.errors import ClientError, ConfigError, InvariantViolation
from txnsim.faults.actions import Hold, Pass
from txnsim.faults.meanings import FATES
from txnsim.faults.points import FaultPoint
from txnsim.faults.rule import FaultRule
from txnsim.injection.injector import CannotStrikeError
from txnsim.text import unknown_word_message
from txnsim.trace.story import ONLOOKER_SUFFIX
from txnsim.types import IsolationLevel, TopicPartition
from txnsim_lab.scenario._cluster_options import new_topic, topic_of
from txnsim_lab.scenario.actors._broker_calls import ASKED_AGAIN
from txnsim_lab.scenario.actors.base import StoryActor
from txnsim_lab.scenario.call_results import ANY, NONE, CallResult, StoryFailedError
from txnsim_lab.scenario.fields import ByRun, OffsetByRun, RunSelection, by_run
from txnsim_lab.scenario.final_observation import look_at_everything
from txnsim_lab.scenario.stage import LOOKER, PATIENCE_MS, Background, Stage
from txnsim_lab.scenario.steps_model import (
    FOR_OTHER_MEMBERS,
    Awaited,
    Call,
    ClusterAct,
    Condition,
    Expectation,
    LeaderIs,
    Reaches,
    ReleasedAs,
    Step,
    StruckTimes,
    TransactionIs,
    required,
)
from txnsim_lab.target.cluster import Target, TargetError, until

T = TypeVar("T")


async def act(stage: Stage, step: Step) -> None:
    """Play one step.

    Raises:
        StoryFailedError: What the step waits for or expects did not happen.
        ClientError: A request failed that the step needs.
    """
    step = stage.with_numbers(step)
    if step.say:
        stage.tell(step.say)
    if step.call is not None:
        await _call(stage, step.call)
    elif step.await_ is not None:
        await _await(stage, step.await_)
    elif step.give_up is not None:
        await _give_up(stage, step.give_up)
    elif step.rule is not None:
        await _arm(stage, step.rule)
        stage.armed_at[step.rule.id] = f"{step.place}: " if step.place else ""
    elif step.release is not None:
        await _release(stage, step.release)
    elif step.disarm is not None:
        stage.target.injector.disarm(stage.in_force(step.disarm).rule.id)
    elif step.cluster is not None:
        await _act_on_cluster(stage, step.cluster)
    elif step.advance is not None:
        await stage.target.advance(step.advance)
    elif step.wait_until is not None:
        await wait_until(stage, step.wait_until)
    elif step.expect is not None:
        with stage.recorder.asking():
            await expect(stage, step.expect)
    elif step.observe == "healed":
        stage.healed = True
        stage.recorder.note_healing(LOOKER)
    else:
        await look_at_everything(stage)


def need_strikes(stage: Stage) -> None:
    """Checks that every fault of the story has struck.

    Raises:
        StoryFailedError: A fault never struck.
    """
    for rule_id, where in stage.armed_at.items():
        armed = stage.armed.get(rule_id)  # none where this take arms nothing
        if armed is not None and armed.struck == 0:
            raise StoryFailedError(
                "; ".join(
                    [
                        f"{where}the fault {rule_id} never struck: the story was not played",
                        *strangers(stage, armed.rule),
                        *first_answers(stage, failure=""),
                    ]
                )
            )


async def _act_on_cluster(stage: Stage, act: ClusterAct) -> None:
    """Change the cluster, and record the changes that judges need to know."""
    asked_ms = stage.environment.clock.now_ms()
    await act_on_cluster(stage, act)
    if act.do == "clean" and act.partition is not None:
        stage.recorder.note_cleaning(LOOKER, act.partition)
    elif act.do == "delete-topic" and act.topic is not None:
        stage.recorder.note_topic_deletion(LOOKER, act.topic, asked_ms=asked_ms)


# Calls


async def _call(stage: Stage, call: Call) -> None:
    actor = stage.actors[call.who]
    expected_code = expected_error(call.error, stage.situation)
    if call.background is None:
        answer = await make_call(stage, actor, call, expected_code=expected_code)
        _compare(stage, f"{call.who}: {call.do}", answer, expected_code, call.offset)
        return
    sent = asyncio.Event()
    final_error = ANY if call.error is None else expected_code
    task: asyncio.Task[CallResult | StoryFailedError] = stage.environment.tasks.spawn(
        _outcome_of_call(make_call(stage, actor, call, expected_code=final_error, sent=sent.set)),
        name=f"{call.who}: {call.do} ({call.background})",
    )
    stage.background[call.background] = Background(actor, call, task)
    task.add_done_callback(lambda _: sent.set())
    # It must be on its way before the next step: a story has an order.
    await sent.wait()
    if stage.situation.take == "disarmed" and call.do not in FOR_OTHER_MEMBERS:
        await _await_answer(stage, call.background)  # nothing holds it


async def _outcome_of_call(call: Awaitable[CallResult]) -> CallResult | StoryFailedError:
    """The result of a call in the background. A failure of the story is returned here, and raised
    where the call is awaited.
    """
    try:
        return await call
    except StoryFailedError as failed:
        return failed


def _nothing() -> None:
    """Default of ``sent``: a foreground call needs no signal that its request was sent."""


async def make_call(
    stage: Stage,
    actor: StoryActor,
    call: Call,
    *,
    expected_code: str,
    sent: Callable[[], object] = _nothing,
) -> CallResult:
    """Let an actor make a call, and record the call and its result in the trace."""
    part = stage.scenario.cast.get(call.who)
    client = (None if part is None else part.client_id) or call.who
    trace = ClientTrace(stage.environment.tracer, client)
    with trace.call(
        call.do,
        tp=None if call.partition is None else str(call.partition),
        tps=[str(partition) for partition in call.partitions] if call.partitions else None,
        group=call.group,
        transaction=call.transaction,
        records=[value or "" for value in call.records],
    ) as traced:
        with stage.recorder.asking():
            answer = await actor.call(call, expected_code=expected_code, sent=sent)
        if traced is not None:
            traced.result = {"error": answer.error} if answer.error != NONE else {}
            if answer.offset >= 0:
                traced.result["result"] = {"offset": answer.offset}
    return answer


async def _await(stage: Stage, awaited: str | Awaited) -> None:
    name = awaited if isinstance(awaited, str) else awaited.call
    background = stage.background_call(name)
    answer = await _await_answer(stage, name)
    call = background.call
    error_by_run = (
        call.error if isinstance(awaited, str) or awaited.error is None else awaited.error
    )
    offset = call.offset if isinstance(awaited, str) or awaited.offset is None else awaited.offset
    expected_code = expected_error(error_by_run, stage.situation)
    took_first = call.error is None and answer.error in ASKED_AGAIN
    hint = "; it took its first answer: write `error: NONE`" if took_first else ""
    _compare(stage, f"{call.who}: {call.do} ({name})", answer, expected_code, offset, hint=hint)


def first_answers(stage: Stage, *, failure: str) -> Iterator[str]:
    """Lines about background calls that ended with an error after which clients retry: often the
    reason why a later step waits in vain.

    Args:
        stage: The stage with the calls so far.
        failure: Text of the failure; calls that it names are left out.
    """
    for call_name, background in stage.background.items():
        task = background.task
        if background.call.error is not None or f"({call_name})" in failure:
            continue
        if not task.done() or task.cancelled() or task.exception() is not None:
            continue
        answer = task.result()
        if isinstance(answer, CallResult) and answer.error in ASKED_AGAIN:
            yield (
                f"the background call {call_name} was answered {answer.error}, and is not repeated"
                " without error: NONE"
            )


async def _await_answer(stage: Stage, name: str) -> CallResult:
    """Wait for the result of a call in the background."""
    task = stage.background[name].task
    is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not is_over.done():
            is_over.set_result(None)

    task.add_done_callback(lambda _: end())
    timer = stage.environment.clock.call_later(PATIENCE_MS, end)
    try:
        await is_over
    finally:
        timer.cancel()
    if not task.done():
        who, do = stage.background[name].call.who, stage.background[name].call.do
        lines = [f"{name} ({who}: {do}) is not answered after {PATIENCE_MS} ms"]
        raise StoryFailedError("; ".join([*lines, *still_held(stage)]))
    result = task.result()
    if isinstance(result, StoryFailedError):
        raise result
    return result


async def _give_up(stage: Stage, name: str) -> None:
    background = stage.background_call(name)
    await background.who.give_up(background.call)


def expected_error(by_word: ByRun | None, situation: RunSelection) -> str:
    """The error that a run expects. For a disarmed or control take it is NONE unless the file gives
    one.
    """
    error = by_run(by_word, situation) if isinstance(by_word, dict) else by_word
    return NONE if error is None else str(error)


def expected_offset(by_word: OffsetByRun | None, situation: RunSelection) -> int | None:
    """The offset that a run expects; None if any is accepted."""
    offset: int | None = by_run(by_word, situation) if isinstance(by_word, dict) else by_word
    return offset


def _compare(
    stage: Stage,
    subject: str,
    answer: CallResult,
    expected_code: str,
    offset_by_run: OffsetByRun | None,
    *,
    hint: str = "",
) -> None:
    if answer.error != NONE or expected_code not in (NONE, ANY):
        stage.say(subject.split(":")[0], f"{subject.split(': ')[1]} is answered {answer.error}")
    if expected_code not in (ANY, answer.error):
        because = f" ({answer.because})" if answer.because else ""
        raise StoryFailedError(
            f"{subject} is answered {answer.error}{because}, expected {expected_code}{hint}",
            answered=answer.error,
        )
    offset = expected_offset(offset_by_run, stage.situation)
    if offset is not None and answer.error == NONE and answer.offset != offset:
        raise StoryFailedError(f"{subject} is at offset {answer.offset}, expected {offset}")


# Faults


async def _arm(stage: Stage, rule: FaultRule) -> None:
    injector = stage.target.injector
    try:
        stage.armed[rule.id] = injector.arm(rule)
    except ValueError as error:
        raise ConfigError(f"rule {rule.id}: {error}") from None
    if rule.point is FaultPoint.NOW:
        await until_struck(stage, rule.id, count=1)  # done, not only begun
    if rule.point is FaultPoint.CLIENT_REQUEST and isinstance(rule.action, Hold):
        # An onlooker at the way back: what is held can be waited for until it has been handled.
        onlooker = msgspec.structs.replace(
            rule,
            id=rule.id + ONLOOKER_SUFFIX,
            point=FaultPoint.CLIENT_RESPONSE,
            action=Pass(),
        )
        injector.arm(onlooker)
        stage.onlookers[rule.id] = onlooker.id


async def _release(stage: Stage, release: str | ReleasedAs) -> None:
    injector = stage.target.injector
    if isinstance(release, ReleasedAs):
        rule_id, fate = release.rule, str(release.as_)
    else:
        rule_id, fate = release, "pass"
    armed = stage.in_force(rule_id)
    if armed.struck == 0:
        lines = [f"the fault {rule_id} never struck: there is nothing to release"]
        raise StoryFailedError("; ".join([*lines, *strangers(stage, armed.rule)]))
    try:
        injector.release(rule_id, FATES[fate])
    except CannotStrikeError as error:
        raise StoryFailedError(str(error)) from error
    onlooker = stage.onlookers.pop(rule_id, None)
    if onlooker is not None:
        if fate == "drop":
            await pause(stage.environment.clock, 1)  # the one who held it tells that it is lost
        else:
            await until_struck(stage, onlooker, count=armed.released)
        injector.disarm(onlooker)
    injector.disarm(rule_id)


# What a story does to the cluster itself: leaders, brokers, replicas, configs, care of logs


async def act_on_cluster(stage: Stage, act: ClusterAct) -> None:
    """Change the cluster as a step says.

    Raises:
        ConfigError: There is no such broker or partition, or the act is not possible for it.
        StoryFailedError: The cluster can't do it, or did not reach the state in time.
    """
    try:
        await _act(stage, act, stage.target)
    except TargetError as error:
        raise StoryFailedError(str(error)) from None


async def _act(stage: Stage, act: ClusterAct, target: Target) -> None:
    match act.do:
        case "move-leader":
            await target.move_leader(await _partition_of_act(target, act), required(act.to))
        case "reload-coordinator":
            await target.reload_coordinator(await _partition_of_act(target, act))
        case "reassign":
            await target.reassign(required(act.partition), required(act.replicas))
        case "kill" | "stop" | "start" | "restart":
            await _care_for_broker(act, target)
        case "isolate":
            await target.isolate(required(act.broker), from_clients=bool(act.from_clients))
        case "heal":
            await target.heal(required(act.broker))
        case "age":
            await target.age(act.transactional_id or "", required(act.epoch))
        case "configure":
            await target.configure(required(act.topic), required(act.name), act.value)
        case "create-topic":
            brokers = min(target.brokers, stage.scenario.brokers)
            await target.create_topic(
                new_topic(required(act.topic), topic_of(act), brokers=brokers)
            )
        case "delete-topic":
            await target.delete_topic(required(act.topic))
        case "grow-topic":
            await target.grow_topic(required(act.topic), required(act.partitions), act.leaders)
        case "roll":
            await target.roll(required(act.partition))
        case "clean":
            await target.clean(required(act.partition))
        case "delete-old":
            await target.delete_old(required(act.partition))
        case unknown:
            raise InvariantViolation(f"the cluster can't {unknown!r}, and the file was accepted")


async def _partition_of_act(target: Target, act: ClusterAct) -> TopicPartition:
    """The partition of the act; for a transactional id, its partition of
    ``__transaction_state``.
    """
    if act.partition is not None:
        return act.partition
    return await target.home_of_id(required(act.coordinator_of))


async def _care_for_broker(act: ClusterAct, target: Target) -> None:
    broker = required(act.broker)
    if act.do == "kill" or (act.do == "restart" and (act.kill or act.lose_unflushed)):
        await target.kill(broker, lose_unflushed=bool(act.lose_unflushed))
    elif act.do in ("stop", "restart"):
        await target.stop(broker)
    if act.do in ("start", "restart"):
        await target.start(broker, as_version=act.as_version)


# What a story waits for and expects: seen on the wire, or shown by a fault that strikes. Nothing
# sleeps.

NO_LEADER: Final = "none"
"""Word of a condition for a partition without a leader."""
Look = Callable[[], Awaitable[tuple[bool, list[str]]]]
"""Checks a condition: returns whether it holds, and the present state in words."""


async def wait_until(stage: Stage, condition: Condition) -> None:
    """Wait until a condition holds.

    Raises:
        StoryFailedError: The condition did not hold in time.
    """
    if condition.struck is not None:
        struck = condition.struck
        times = struck.times if isinstance(struck, StruckTimes) else 1
        armed = stage.in_force(struck.rule if isinstance(struck, StruckTimes) else struck)
        await until_struck(stage, armed.rule.id, count=times)
        return
    awaited_state, look = _look_for(stage, condition)
    case: list[str] = []

    async def holds() -> bool:
        nonlocal case
        is_so, case = await look()
        return is_so

    try:
        await poll(stage, holds, awaited_state)
    except StoryFailedError as error:
        lines = dict.fromkeys([str(error), *case, *still_held(stage, case)])
        raise StoryFailedError("; ".join(lines)) from None


def _look_for(stage: Stage, condition: Condition) -> tuple[str, Look]:
    """The condition in words, and the function that checks it."""
    if condition.answered is not None:
        background = stage.background_call(condition.answered)
        return f"{condition.answered} is answered", partial(_has_answer, background)
    if (transaction := condition.transaction) is not None:
        awaited_state = f"{transaction.id} is {' or '.join(transaction.is_)}"
        return awaited_state, partial(_in_state, stage, transaction)
    if (partition := condition.marker) is not None:
        awaited_state = f"DescribeProducers shows a marker on {partition}"
        return awaited_state, partial(_producers, stage, partition, _has_marker)
    if (partition := condition.open) is not None:
        return f"DescribeProducers shows {partition} open", partial(
            _producers, stage, partition, _is_open
        )
    if (high := condition.high_watermark) is not None:
        awaited_state = f"the high watermark of {high.partition} is {high.offset}"
        return awaited_state, partial(_reaches, stage, high, lambda fetched: fetched.high_watermark)
    if (stable := condition.stable) is not None:
        awaited_state = f"the last stable offset of {stable.partition} is {stable.offset}"
        return awaited_state, partial(
            _reaches, stage, stable, lambda fetched: fetched.last_stable_offset
        )
    if (leader := condition.leader) is not None:
        who = "no broker" if leader.is_ == NO_LEADER else f"broker {leader.is_}"
        return f"{who} leads {leader.partition}", partial(_is_led_by, stage, leader)
    whole = required(condition.in_sync)
    return f"all replicas of {whole} are in sync", partial(_is_in_sync, stage, whole)


async def poll(stage: Stage, holds: Callable[[], Awaitable[bool]], awaited_state: str) -> None:
    """Wait until ``holds`` returns True.

    Raises:
        StoryFailedError: The time limit has passed.
    """
    try:
        await until(stage.environment.clock, holds, awaited_state, patience_ms=PATIENCE_MS)
    except TargetError as error:
        raise StoryFailedError(str(error)) from None


async def until_struck(stage: Stage, rule_id: str, *, count: int) -> None:
    """Wait until a rule has struck ``count`` times.

    Raises:
        StoryFailedError: It has not struck so often in time.
    """
    try:
        await stage.target.injector.wait_until_struck(rule_id, count=count, timeout_ms=PATIENCE_MS)
    except (TimeoutError, LookupError) as error:
        armed = stage.armed.get(rule_id)  # none for one that counts what another has held
        whom = strangers(stage, armed.rule) if armed is not None and armed.struck == 0 else ()
        held_lines = still_held(stage, [str(error)])
        raise StoryFailedError("; ".join([str(error), *whom, *held_lines])) from None


def strangers(stage: Stage, rule: FaultRule) -> Iterator[str]:
    """Lines about names in a rule that the story does not have, each with the nearest known
    name.
    """
    cast = stage.scenario.cast
    clients = {name: actor.client_id or name for name, actor in cast.items()}
    ids = [
        actor.transactional_id or name
        for name, actor in cast.items()
        if actor.plays in ("wire", "application")
    ]
    for noun, name_in_rule, known_names in (
        ("transactional id", rule.transactional_id, ids),
        ("client id", rule.client_id, [*clients.values()]),
        ("topic", rule.topic, [*stage.target.topics]),
    ):
        if name_in_rule is not None and name_in_rule not in known_names:
            yield unknown_word_message(noun, name_in_rule, known_names)


async def expect(stage: Stage, expectation: Expectation) -> None:
    """Check what a new reader sees.

    Raises:
        StoryFailedError: It differs from the expectation.
    """
    if expectation.unanswered is not None:
        background = stage.background_call(expectation.unanswered)
        if background.task.done():
            raise StoryFailedError(f"{expectation.unanswered} is answered, expected no answer yet")
        return
    if expectation.group is not None:
        await _positions(stage, expectation.group, required(expectation.positions))
        return
    partition = required(expectation.partition)
    for isolation, expected in (
        (IsolationLevel.READ_COMMITTED, expectation.committed),
        (IsolationLevel.READ_UNCOMMITTED, expectation.uncommitted),
    ):
        if expected is not None:
            values, _ = await stage.beginner().read(partition, isolation)
            _expect(f"{isolation.name.lower()} readers of {partition} get", values, expected)
    if expectation.records is not None:
        values, _ = await stage.beginner().read(partition, IsolationLevel.READ_UNCOMMITTED)
        subject = f"the number of records that read_uncommitted readers of {partition} get is"
        _expect(subject, len(values), expectation.records)
    _, last_fetch = await stage.reader.read(partition, IsolationLevel.READ_COMMITTED)
    if expectation.stable is not None:
        subject = f"the last stable offset of {partition} is"
        _expect(subject, last_fetch.last_stable_offset, expectation.stable)
    if expectation.high_watermark is not None:
        subject = f"the high watermark of {partition} is"
        _expect(subject, last_fetch.high_watermark, expectation.high_watermark)


async def _positions(stage: Stage, group: str, expected: Mapping[TopicPartition, int]) -> None:
    admin = await stage.operator.admin()
    offsets = await admin.committed_positions(group, tuple(expected))
    stage.recorder.note_positions(LOOKER, group, offsets)
    for partition, position in expected.items():
        _expect(f"the position of group {group} on {partition} is", offsets[partition], position)


def _expect(subject: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise StoryFailedError(f"{subject} {actual}, expected {expected}")


def still_held(stage: Stage, lines: Sequence[str] = ()) -> list[str]:
    """Lines about faults that still hold something, except those that ``lines`` already name."""
    return [
        f"the fault {armed.rule.id} still holds {len(armed.held)} at {armed.rule.point}: a step"
        " before"
        f" has to release it (`release: {armed.rule.id}`)"
        for armed in stage.target.injector.rules()
        if armed.held and not any(armed.rule.id in line for line in lines)
    ]


# Looks: whether it holds, and what is the case


async def _has_answer(background: Background) -> tuple[bool, list[str]]:
    call = background.call
    return background.task.done(), [f"{call.who}: {call.do} was sent, and has no answer yet"]


async def _in_state(stage: Stage, condition: TransactionIs) -> tuple[bool, list[str]]:
    admin = await stage.operator.admin()
    description = (await admin.describe_transactions([condition.id]))[condition.id]
    holds = not isinstance(description, ClientError) and description.state in condition.is_
    return holds, [] if holds else stage.target.why_unfinished(condition.id)


async def _producers(
    stage: Stage, partition: TopicPartition, test: Callable[[ProducerState], bool]
) -> tuple[bool, list[str]]:
    answer = (await (await stage.operator.admin()).describe_producers([partition]))[partition]
    producers = () if isinstance(answer, ClientError) else answer
    case = [_of_producer(partition, producer) for producer in producers] or [
        f"{partition} knows no producer"
    ]
    return any(map(test, producers)), case


def _has_marker(producer: ProducerState) -> bool:
    """Whether the producer's last write was a marker: only a marker sets a coordinator epoch, and
    it closes the open transaction.
    """
    return producer.coordinator_epoch is not None and not _is_open(producer)


def _is_open(producer: ProducerState) -> bool:
    return producer.txn_start_offset is not None


def _of_producer(partition: TopicPartition, producer: ProducerState) -> str:
    start = producer.txn_start_offset
    about = "no transaction is open" if start is None else f"a transaction is open since {start}"
    return f"{partition}: producer {producer.producer_id}, epoch {producer.producer_epoch}: {about}"


async def _reaches(
    stage: Stage, condition: Reaches, offset_of: Callable[[FetchResult], int]
) -> tuple[bool, list[str]]:
    _, last_fetch = await stage.reader.read(condition.partition, IsolationLevel.READ_COMMITTED)
    stable, high = last_fetch.last_stable_offset, last_fetch.high_watermark
    where = f"the last stable offset is {stable}, the high watermark {high}"
    return offset_of(last_fetch) >= condition.offset, [f"{condition.partition}: {where}"]


async def _is_led_by(stage: Stage, condition: LeaderIs) -> tuple[bool, list[str]]:
    view, leader, case = await _led(stage, condition.partition)
    if leader is None:
        is_there = view.topic(condition.partition.topic) is not None
        return condition.is_ == NO_LEADER and is_there, case
    return leader.leader_id == condition.is_, case


async def _is_in_sync(stage: Stage, partition: TopicPartition) -> tuple[bool, list[str]]:
    _, leader, case = await _led(stage, partition)
    return leader is not None and set(leader.isr) == set(leader.replicas), case


async def _led(
    stage: Stage, partition: TopicPartition
) -> tuple[ClusterMetadata, PartitionMetadata | None, list[str]]:
    """The metadata that clients see of a partition, and the same in words."""
    view = await (await stage.operator.admin()).cluster.refresh((partition.topic,))
    leader = view.leader(partition)
    if leader is None:
        return view, None, [f"{partition} has no leader"]
    in_sync, replicas = _id_list(leader.isr), _id_list(leader.replicas)
    text = f"{partition}: broker {leader.leader_id} leads; in sync {in_sync} of {replicas}"
    return view, leader, [text]


def _id_list(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))
