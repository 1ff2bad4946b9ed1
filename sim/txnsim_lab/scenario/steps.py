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
from txnsim_lab.scenario.actors._broker_calls import RETRIED_ERRORS
from txnsim_lab.scenario.actors.base import StoryActor
from txnsim_lab.scenario.call_results import ANY, NONE, CallResult, StoryFailedError
from txnsim_lab.scenario.fields import ByRun, OffsetByRun, RunSelection, by_run
from txnsim_lab.scenario.final_observation import observe_everything
from txnsim_lab.scenario.stage import LOOKER_NAME, PATIENCE_MS, Background, RunningStory
from txnsim_lab.scenario.steps_model import (
    GROUP_WIDE_CALLS,
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
from txnsim_lab.target.cluster import Target, TargetError, poll_until

T = TypeVar("T")


async def act(running_story: RunningStory, step: Step) -> None:
    """Play one step.

    Raises:
        StoryFailedError: What the step waits for or expects did not happen.
        ClientError: A request failed that the step needs.
    """
    step = running_story.with_numbers(step)
    if step.say:
        running_story.tell(step.say)
    if step.call is not None:
        await _play_call(running_story, step.call)
    elif step.await_ is not None:
        await _play_await(running_story, step.await_)
    elif step.give_up is not None:
        await _give_up(running_story, step.give_up)
    elif step.rule is not None:
        await _arm_rule(running_story, step.rule)
        running_story.armed_at[step.rule.id] = f"{step.place}: " if step.place else ""
    elif step.release is not None:
        await _release(running_story, step.release)
    elif step.disarm is not None:
        running_story.target.injector.disarm(running_story.rule_in_force(step.disarm).rule.id)
    elif step.cluster is not None:
        await _act_on_cluster(running_story, step.cluster)
    elif step.advance is not None:
        await running_story.target.advance(step.advance)
    elif step.wait_until is not None:
        await wait_until(running_story, step.wait_until)
    elif step.expect is not None:
        with running_story.recorder.asking():
            await expect(running_story, step.expect)
    elif step.observe == "healed":
        running_story.healed = True
        running_story.recorder.note_healing(LOOKER_NAME)
    else:
        await observe_everything(running_story)


def require_strikes(running_story: RunningStory) -> None:
    """Checks that every fault of the story has struck.

    Raises:
        StoryFailedError: A fault never struck.
    """
    for rule_id, place_prefix in running_story.armed_at.items():
        armed_rule = running_story.armed.get(rule_id)  # none where this take arms nothing
        if armed_rule is not None and armed_rule.struck == 0:
            raise StoryFailedError(
                "; ".join(
                    [
                        f"{place_prefix}the fault {rule_id} never struck: the story was not played",
                        *unknown_name_lines(running_story, armed_rule.rule),
                        *first_answer_lines(running_story, failure=""),
                    ]
                )
            )


async def _act_on_cluster(running_story: RunningStory, cluster_act: ClusterAct) -> None:
    """Change the cluster, and record the changes that judges need to know."""
    asked_ms = running_story.environment.clock.now_ms()
    await act_on_cluster(running_story, cluster_act)
    if cluster_act.do == "clean" and cluster_act.partition is not None:
        running_story.recorder.note_cleaning(LOOKER_NAME, cluster_act.partition)
    elif cluster_act.do == "delete-topic" and cluster_act.topic is not None:
        running_story.recorder.note_topic_deletion(
            LOOKER_NAME, cluster_act.topic, asked_ms=asked_ms
        )


# Calls


async def _play_call(running_story: RunningStory, call: Call) -> None:
    actor = running_story.actors[call.who]
    expected_code = expected_error(call.error, running_story.run_selection)
    if call.background is None:
        answer = await make_call(running_story, actor, call, expected_code=expected_code)
        _check_answer(running_story, f"{call.who}: {call.do}", answer, expected_code, call.offset)
        return
    sent_event = asyncio.Event()
    final_error = ANY if call.error is None else expected_code
    task: asyncio.Task[CallResult | StoryFailedError] = running_story.environment.tasks.spawn(
        _outcome_of_call(
            make_call(running_story, actor, call, expected_code=final_error, on_sent=sent_event.set)
        ),
        name=f"{call.who}: {call.do} ({call.background})",
    )
    running_story.background[call.background] = Background(actor, call, task)
    task.add_done_callback(lambda _: sent_event.set())
    # It must be on its way before the next step: a story has an order.
    await sent_event.wait()
    if running_story.run_selection.take == "disarmed" and call.do not in GROUP_WIDE_CALLS:
        await _await_answer(running_story, call.background)  # nothing holds it


async def _outcome_of_call(call: Awaitable[CallResult]) -> CallResult | StoryFailedError:
    """The result of a call in the background. A failure of the story is returned here, and raised
    where the call is awaited.
    """
    try:
        return await call
    except StoryFailedError as failed:
        return failed


def _do_nothing() -> None:
    """Default of ``sent``: a foreground call needs no signal that its request was sent."""


async def make_call(
    running_story: RunningStory,
    actor: StoryActor,
    call: Call,
    *,
    expected_code: str,
    on_sent: Callable[[], object] = _do_nothing,
) -> CallResult:
    """Let an actor make a call, and record the call and its result in the trace."""
    actor_declaration = running_story.scenario.cast.get(call.who)
    client = (None if actor_declaration is None else actor_declaration.client_id) or call.who
    trace = ClientTrace(running_story.environment.tracer, client)
    with trace.trace_call(
        call.do,
        tp=None if call.partition is None else str(call.partition),
        tps=[str(partition) for partition in call.partitions] if call.partitions else None,
        group=call.group,
        transaction=call.transaction,
        records=[value or "" for value in call.records],
    ) as traced:
        with running_story.recorder.asking():
            answer = await actor.call(call, expected_code=expected_code, on_sent=on_sent)
        if traced is not None:
            traced.result = {"error": answer.error} if answer.error != NONE else {}
            if answer.offset >= 0:
                traced.result["result"] = {"offset": answer.offset}
    return answer


async def _play_await(running_story: RunningStory, awaited_call: str | Awaited) -> None:
    call_name = awaited_call if isinstance(awaited_call, str) else awaited_call.call
    background = running_story.background_call(call_name)
    answer = await _await_answer(running_story, call_name)
    call = background.call
    error_by_run = (
        call.error
        if isinstance(awaited_call, str) or awaited_call.error is None
        else awaited_call.error
    )
    offset = (
        call.offset
        if isinstance(awaited_call, str) or awaited_call.offset is None
        else awaited_call.offset
    )
    expected_code = expected_error(error_by_run, running_story.run_selection)
    takes_first_answer = call.error is None and answer.error in RETRIED_ERRORS
    hint_text = "; it took its first answer: write `error: NONE`" if takes_first_answer else ""
    _check_answer(
        running_story,
        f"{call.who}: {call.do} ({call_name})",
        answer,
        expected_code,
        offset,
        hint_text=hint_text,
    )


def first_answer_lines(running_story: RunningStory, *, failure: str) -> Iterator[str]:
    """Lines about background calls that ended with an error after which clients retry: often the
    reason why a later step waits in vain.

    Args:
        running_story: The story that is being played.
        failure: Text of the failure; calls that it names are left out.
    """
    for call_name, background in running_story.background.items():
        task = background.task
        if background.call.error is not None or f"({call_name})" in failure:
            continue
        if not task.done() or task.cancelled() or task.exception() is not None:
            continue
        call_outcome = task.result()
        if isinstance(call_outcome, CallResult) and call_outcome.error in RETRIED_ERRORS:
            yield (
                f"the background call {call_name} was answered {call_outcome.error}, and is not"
                " repeated without error: NONE"
            )


async def _await_answer(running_story: RunningStory, call_name: str) -> CallResult:
    """Wait for the result of a call in the background."""
    task = running_story.background[call_name].task
    answer_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not answer_future.done():
            answer_future.set_result(None)

    task.add_done_callback(lambda _: end())
    timer = running_story.environment.clock.call_later(PATIENCE_MS, end)
    try:
        await answer_future
    finally:
        timer.cancel()
    if not task.done():
        actor_name, method_name = (
            running_story.background[call_name].call.who,
            running_story.background[call_name].call.do,
        )
        problem_lines = [
            f"{call_name} ({actor_name}: {method_name}) is not answered after {PATIENCE_MS} ms"
        ]
        raise StoryFailedError("; ".join([*problem_lines, *held_fault_lines(running_story)]))
    result = task.result()
    if isinstance(result, StoryFailedError):
        raise result
    return result


async def _give_up(running_story: RunningStory, call_name: str) -> None:
    background = running_story.background_call(call_name)
    await background.actor.give_up(background.call)


def expected_error(error_by_word: ByRun | None, run_selection: RunSelection) -> str:
    """The error that a run expects. For a disarmed or control take it is NONE unless the file gives
    one.
    """
    error_name = (
        by_run(error_by_word, run_selection) if isinstance(error_by_word, dict) else error_by_word
    )
    return NONE if error_name is None else str(error_name)


def expected_offset(offset_by_word: OffsetByRun | None, run_selection: RunSelection) -> int | None:
    """The offset that a run expects; None if any is accepted."""
    offset: int | None = (
        by_run(offset_by_word, run_selection)
        if isinstance(offset_by_word, dict)
        else offset_by_word
    )
    return offset


def _check_answer(
    running_story: RunningStory,
    subject: str,
    answer: CallResult,
    expected_code: str,
    offset_by_run: OffsetByRun | None,
    *,
    hint_text: str = "",
) -> None:
    if answer.error != NONE or expected_code not in (NONE, ANY):
        running_story.say(
            subject.split(":")[0], f"{subject.split(': ')[1]} is answered {answer.error}"
        )
    if expected_code not in (ANY, answer.error):
        reason_text = f" ({answer.because})" if answer.because else ""
        raise StoryFailedError(
            f"{subject} is answered {answer.error}{reason_text}, expected"
            f" {expected_code}{hint_text}",
            error_name=answer.error,
        )
    offset = expected_offset(offset_by_run, running_story.run_selection)
    if offset is not None and answer.error == NONE and answer.offset != offset:
        raise StoryFailedError(f"{subject} is at offset {answer.offset}, expected {offset}")


# Faults


async def _arm_rule(running_story: RunningStory, fault_rule: FaultRule) -> None:
    injector = running_story.target.injector
    try:
        running_story.armed[fault_rule.id] = injector.arm(fault_rule)
    except ValueError as error:
        raise ConfigError(f"rule {fault_rule.id}: {error}") from None
    if fault_rule.point is FaultPoint.NOW:
        await until_struck(running_story, fault_rule.id, strike_count=1)  # done, not only begun
    if fault_rule.point is FaultPoint.CLIENT_REQUEST and isinstance(fault_rule.action, Hold):
        # An onlooker at the way back: what is held can be waited for until it has been handled.
        onlooker = msgspec.structs.replace(
            fault_rule,
            id=fault_rule.id + ONLOOKER_SUFFIX,
            point=FaultPoint.CLIENT_RESPONSE,
            action=Pass(),
        )
        injector.arm(onlooker)
        running_story.onlookers[fault_rule.id] = onlooker.id


async def _release(running_story: RunningStory, release: str | ReleasedAs) -> None:
    injector = running_story.target.injector
    if isinstance(release, ReleasedAs):
        rule_id, fate_name = release.rule, str(release.as_)
    else:
        rule_id, fate_name = release, "pass"
    armed_rule = running_story.rule_in_force(rule_id)
    if armed_rule.struck == 0:
        problem_lines = [f"the fault {rule_id} never struck: there is nothing to release"]
        raise StoryFailedError(
            "; ".join([*problem_lines, *unknown_name_lines(running_story, armed_rule.rule)])
        )
    try:
        injector.release(rule_id, FATES[fate_name])
    except CannotStrikeError as error:
        raise StoryFailedError(str(error)) from error
    onlooker = running_story.onlookers.pop(rule_id, None)
    if onlooker is not None:
        if fate_name == "drop":
            await pause(
                running_story.environment.clock, 1
            )  # the one who held it tells that it is lost
        else:
            await until_struck(running_story, onlooker, strike_count=armed_rule.released)
        injector.disarm(onlooker)
    injector.disarm(rule_id)


# What a story does to the cluster itself: leaders, brokers, replicas, configs, care of logs


async def act_on_cluster(running_story: RunningStory, cluster_act: ClusterAct) -> None:
    """Change the cluster as a step says.

    Raises:
        ConfigError: There is no such broker or partition, or the act is not possible for it.
        StoryFailedError: The cluster can't do it, or did not reach the state in time.
    """
    try:
        await _apply_cluster_act(running_story, cluster_act, running_story.target)
    except TargetError as error:
        raise StoryFailedError(str(error)) from None


async def _apply_cluster_act(
    running_story: RunningStory, cluster_act: ClusterAct, target: Target
) -> None:
    match cluster_act.do:
        case "move-leader":
            await target.move_leader(
                await _partition_of_act(target, cluster_act), required(cluster_act.to)
            )
        case "reload-coordinator":
            await target.reload_coordinator(await _partition_of_act(target, cluster_act))
        case "reassign":
            await target.reassign(required(cluster_act.partition), required(cluster_act.replicas))
        case "kill" | "stop" | "start" | "restart":
            await _care_for_broker(cluster_act, target)
        case "isolate":
            await target.isolate(
                required(cluster_act.broker), from_clients=bool(cluster_act.from_clients)
            )
        case "heal":
            await target.heal(required(cluster_act.broker))
        case "age":
            await target.age(cluster_act.transactional_id or "", required(cluster_act.epoch))
        case "configure":
            await target.configure(
                required(cluster_act.topic), required(cluster_act.name), cluster_act.value
            )
        case "create-topic":
            brokers = min(target.brokers, running_story.scenario.brokers)
            await target.create_topic(
                new_topic(required(cluster_act.topic), topic_of(cluster_act), broker_count=brokers)
            )
        case "delete-topic":
            await target.delete_topic(required(cluster_act.topic))
        case "grow-topic":
            await target.grow_topic(
                required(cluster_act.topic), required(cluster_act.partitions), cluster_act.leaders
            )
        case "roll":
            await target.roll(required(cluster_act.partition))
        case "clean":
            await target.clean(required(cluster_act.partition))
        case "delete-old":
            await target.delete_old(required(cluster_act.partition))
        case unknown_act:
            raise InvariantViolation(
                f"the cluster can't {unknown_act!r}, and the file was accepted"
            )


async def _partition_of_act(target: Target, cluster_act: ClusterAct) -> TopicPartition:
    """The partition of the act; for a transactional id, its partition of
    ``__transaction_state``.
    """
    if cluster_act.partition is not None:
        return cluster_act.partition
    return await target.home_of_id(required(cluster_act.coordinator_of))


async def _care_for_broker(cluster_act: ClusterAct, target: Target) -> None:
    broker = required(cluster_act.broker)
    if cluster_act.do == "kill" or (
        cluster_act.do == "restart" and (cluster_act.kill or cluster_act.lose_unflushed)
    ):
        await target.kill(broker, lose_unflushed=bool(cluster_act.lose_unflushed))
    elif cluster_act.do in ("stop", "restart"):
        await target.stop(broker)
    if cluster_act.do in ("start", "restart"):
        await target.start(broker, as_version=cluster_act.as_version)


# What a story waits for and expects: seen on the wire, or shown by a fault that strikes. Nothing
# sleeps.

NO_LEADER: Final = "none"
"""Word of a condition for a partition without a leader."""
CheckCondition = Callable[[], Awaitable[tuple[bool, list[str]]]]
"""Checks a condition: returns whether it holds, and the present state in words."""


async def wait_until(running_story: RunningStory, condition: Condition) -> None:
    """Wait until a condition holds.

    Raises:
        StoryFailedError: The condition did not hold in time.
    """
    if condition.struck is not None:
        struck_condition = condition.struck
        strike_count = struck_condition.times if isinstance(struck_condition, StruckTimes) else 1
        armed_rule = running_story.rule_in_force(
            struck_condition.rule if isinstance(struck_condition, StruckTimes) else struck_condition
        )
        await until_struck(running_story, armed_rule.rule.id, strike_count=strike_count)
        return
    awaited_state, check_condition = _condition_check(running_story, condition)
    lines_of_case: list[str] = []

    async def holds() -> bool:
        nonlocal lines_of_case
        condition_holds, lines_of_case = await check_condition()
        return condition_holds

    try:
        await poll(running_story, holds, awaited_state)
    except StoryFailedError as error:
        problem_lines = dict.fromkeys(
            [str(error), *lines_of_case, *held_fault_lines(running_story, lines_of_case)]
        )
        raise StoryFailedError("; ".join(problem_lines)) from None


def _condition_check(
    running_story: RunningStory, condition: Condition
) -> tuple[str, CheckCondition]:
    """The condition in words, and the function that checks it."""
    if condition.answered is not None:
        background = running_story.background_call(condition.answered)
        return f"{condition.answered} is answered", partial(_has_answer, background)
    if (transaction := condition.transaction) is not None:
        awaited_state = f"{transaction.id} is {' or '.join(transaction.is_)}"
        return awaited_state, partial(_is_transaction_in_state, running_story, transaction)
    if (partition := condition.marker) is not None:
        awaited_state = f"DescribeProducers shows a marker on {partition}"
        return awaited_state, partial(_any_producer, running_story, partition, _has_marker)
    if (partition := condition.open) is not None:
        return f"DescribeProducers shows {partition} open", partial(
            _any_producer, running_story, partition, _is_open
        )
    if (watermark_condition := condition.high_watermark) is not None:
        awaited_state = (
            f"the high watermark of {watermark_condition.partition} is {watermark_condition.offset}"
        )
        return awaited_state, partial(
            _reaches,
            running_story,
            watermark_condition,
            lambda fetch_result: fetch_result.high_watermark,
        )
    if (stable_condition := condition.stable) is not None:
        awaited_state = (
            f"the last stable offset of {stable_condition.partition} is {stable_condition.offset}"
        )
        return awaited_state, partial(
            _reaches,
            running_story,
            stable_condition,
            lambda fetch_result: fetch_result.last_stable_offset,
        )
    if (leader := condition.leader) is not None:
        leader_text = "no broker" if leader.is_ == NO_LEADER else f"broker {leader.is_}"
        return f"{leader_text} leads {leader.partition}", partial(_is_led_by, running_story, leader)
    synced_partition = required(condition.in_sync)
    return f"all replicas of {synced_partition} are in sync", partial(
        _is_in_sync, running_story, synced_partition
    )


async def poll(
    running_story: RunningStory, condition_holds: Callable[[], Awaitable[bool]], awaited_state: str
) -> None:
    """Wait until ``condition_holds`` returns True.

    Raises:
        StoryFailedError: The time limit has passed.
    """
    try:
        await poll_until(
            running_story.environment.clock, condition_holds, awaited_state, patience_ms=PATIENCE_MS
        )
    except TargetError as error:
        raise StoryFailedError(str(error)) from None


async def until_struck(running_story: RunningStory, rule_id: str, *, strike_count: int) -> None:
    """Wait until a rule has struck ``strike_count`` times.

    Raises:
        StoryFailedError: It has not struck so often in time.
    """
    try:
        await running_story.target.injector.wait_until_struck(
            rule_id, count=strike_count, timeout_ms=PATIENCE_MS
        )
    except (TimeoutError, LookupError) as error:
        armed_rule = running_story.armed.get(
            rule_id
        )  # none for one that counts what another has held
        stranger_lines = (
            unknown_name_lines(running_story, armed_rule.rule)
            if armed_rule is not None and armed_rule.struck == 0
            else ()
        )
        held_lines = held_fault_lines(running_story, [str(error)])
        raise StoryFailedError("; ".join([str(error), *stranger_lines, *held_lines])) from None


def unknown_name_lines(running_story: RunningStory, fault_rule: FaultRule) -> Iterator[str]:
    """Lines about names in a rule that the story does not have, each with the nearest known
    name.
    """
    cast = running_story.scenario.cast
    client_id_by_actor = {
        actor_name: actor.client_id or actor_name for actor_name, actor in cast.items()
    }
    transactional_ids = [
        actor.transactional_id or actor_name
        for actor_name, actor in cast.items()
        if actor.plays in ("wire", "application")
    ]
    for name_noun, name_in_rule, known_names in (
        ("transactional id", fault_rule.transactional_id, transactional_ids),
        ("client id", fault_rule.client_id, [*client_id_by_actor.values()]),
        ("topic", fault_rule.topic, [*running_story.target.topics]),
    ):
        if name_in_rule is not None and name_in_rule not in known_names:
            yield unknown_word_message(name_noun, name_in_rule, known_names)


async def expect(running_story: RunningStory, expectation: Expectation) -> None:
    """Check what a new reader sees.

    Raises:
        StoryFailedError: It differs from the expectation.
    """
    if expectation.unanswered is not None:
        background = running_story.background_call(expectation.unanswered)
        if background.task.done():
            raise StoryFailedError(f"{expectation.unanswered} is answered, expected no answer yet")
        return
    if expectation.group is not None:
        await _check_positions(running_story, expectation.group, required(expectation.positions))
        return
    partition = required(expectation.partition)
    for isolation, expected_values_read in (
        (IsolationLevel.READ_COMMITTED, expectation.committed),
        (IsolationLevel.READ_UNCOMMITTED, expectation.uncommitted),
    ):
        if expected_values_read is not None:
            values, _ = await running_story.reader_from_start().read(partition, isolation)
            _check_value(
                f"{isolation.name.lower()} readers of {partition} get", values, expected_values_read
            )
    if expectation.records is not None:
        values, _ = await running_story.reader_from_start().read(
            partition, IsolationLevel.READ_UNCOMMITTED
        )
        subject = f"the number of records that read_uncommitted readers of {partition} get is"
        _check_value(subject, len(values), expectation.records)
    _, last_fetch = await running_story.reader.read(partition, IsolationLevel.READ_COMMITTED)
    if expectation.stable is not None:
        subject = f"the last stable offset of {partition} is"
        _check_value(subject, last_fetch.last_stable_offset, expectation.stable)
    if expectation.high_watermark is not None:
        subject = f"the high watermark of {partition} is"
        _check_value(subject, last_fetch.high_watermark, expectation.high_watermark)


async def _check_positions(
    running_story: RunningStory,
    group: str,
    expected_position_by_partition: Mapping[TopicPartition, int],
) -> None:
    admin = await running_story.operator.admin()
    offsets = await admin.committed_positions(group, tuple(expected_position_by_partition))
    running_story.recorder.note_positions(LOOKER_NAME, group, offsets)
    for partition, position in expected_position_by_partition.items():
        _check_value(
            f"the position of group {group} on {partition} is", offsets[partition], position
        )


def _check_value(subject: str, actual_value: object, expected_value: object) -> None:
    if actual_value != expected_value:
        raise StoryFailedError(f"{subject} {actual_value}, expected {expected_value}")


def held_fault_lines(running_story: RunningStory, lines: Sequence[str] = ()) -> list[str]:
    """Lines about faults that still hold something, except those that ``lines`` already name."""
    return [
        f"the fault {armed_rule.rule.id} still holds {len(armed_rule.held_crossings)} "
        f"at {armed_rule.rule.point}: a step before"
        f" has to release it (`release: {armed_rule.rule.id}`)"
        for armed_rule in running_story.target.injector.rules()
        if armed_rule.held_crossings and not any(armed_rule.rule.id in line for line in lines)
    ]


# Looks: whether it holds, and what is the case


async def _has_answer(background: Background) -> tuple[bool, list[str]]:
    call = background.call
    return background.task.done(), [f"{call.who}: {call.do} was sent, and has no answer yet"]


async def _is_transaction_in_state(
    running_story: RunningStory, condition: TransactionIs
) -> tuple[bool, list[str]]:
    admin = await running_story.operator.admin()
    description = (await admin.describe_transactions([condition.id]))[condition.id]
    is_in_state = not isinstance(description, ClientError) and description.state in condition.is_
    return is_in_state, [] if is_in_state else running_story.target.why_unfinished(condition.id)


async def _any_producer(
    running_story: RunningStory,
    partition: TopicPartition,
    is_awaited: Callable[[ProducerState], bool],
) -> tuple[bool, list[str]]:
    producers_or_error = (
        await (await running_story.operator.admin()).describe_producers([partition])
    )[partition]
    producers = () if isinstance(producers_or_error, ClientError) else producers_or_error
    case_lines = [_of_producer(partition, producer) for producer in producers] or [
        f"{partition} knows no producer"
    ]
    return any(map(is_awaited, producers)), case_lines


def _has_marker(producer: ProducerState) -> bool:
    """Whether the producer's last write was a marker: only a marker sets a coordinator epoch, and
    it closes the open transaction.
    """
    return producer.coordinator_epoch is not None and not _is_open(producer)


def _is_open(producer: ProducerState) -> bool:
    return producer.txn_start_offset is not None


def _of_producer(partition: TopicPartition, producer: ProducerState) -> str:
    start_offset = producer.txn_start_offset
    open_text = (
        "no transaction is open"
        if start_offset is None
        else f"a transaction is open since {start_offset}"
    )
    epoch = producer.producer_epoch
    return f"{partition}: producer {producer.producer_id}, epoch {epoch}: {open_text}"


async def _reaches(
    running_story: RunningStory, condition: Reaches, offset_of: Callable[[FetchResult], int]
) -> tuple[bool, list[str]]:
    _, last_fetch = await running_story.reader.read(
        condition.partition, IsolationLevel.READ_COMMITTED
    )
    stable_offset, high_watermark = last_fetch.last_stable_offset, last_fetch.high_watermark
    offsets_text = f"the last stable offset is {stable_offset}, the high watermark {high_watermark}"
    return offset_of(last_fetch) >= condition.offset, [f"{condition.partition}: {offsets_text}"]


async def _is_led_by(running_story: RunningStory, condition: LeaderIs) -> tuple[bool, list[str]]:
    cluster_metadata, partition_metadata, case_lines = await _leader_metadata(
        running_story, condition.partition
    )
    if partition_metadata is None:
        does_topic_exist = cluster_metadata.topic(condition.partition.topic) is not None
        return condition.is_ == NO_LEADER and does_topic_exist, case_lines
    return partition_metadata.leader_id == condition.is_, case_lines


async def _is_in_sync(
    running_story: RunningStory, partition: TopicPartition
) -> tuple[bool, list[str]]:
    _, partition_metadata, case_lines = await _leader_metadata(running_story, partition)
    return partition_metadata is not None and set(partition_metadata.isr) == set(
        partition_metadata.replicas
    ), case_lines


async def _leader_metadata(
    running_story: RunningStory, partition: TopicPartition
) -> tuple[ClusterMetadata, PartitionMetadata | None, list[str]]:
    """The metadata that clients see of a partition, and the same in words."""
    cluster_metadata = await (await running_story.operator.admin()).cluster.refresh(
        (partition.topic,)
    )
    partition_metadata = cluster_metadata.leader(partition)
    if partition_metadata is None:
        return cluster_metadata, None, [f"{partition} has no leader"]
    in_sync, replicas = _id_list(partition_metadata.isr), _id_list(partition_metadata.replicas)
    leader_text = (
        f"{partition}: broker {partition_metadata.leader_id} leads; in sync {in_sync} of {replicas}"
    )
    return cluster_metadata, partition_metadata, [leader_text]


def _id_list(broker_ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(broker_ids)))
