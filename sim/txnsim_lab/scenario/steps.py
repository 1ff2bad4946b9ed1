"""One step of a story acted out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from txnsim.client.backoff import pause
from txnsim.client.tracing import ClientTrace
from txnsim.errors import ConfigError
from txnsim.faults.actions import Drop, Hold, Pass
from txnsim.faults.meanings import FATES
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.injection.injector import CannotStrikeError
from txnsim.trace.story import ONLOOKER_SUFFIX
from txnsim_lab.scenario._cluster_steps import act_on_cluster
from txnsim_lab.scenario._conditions import expect, still_held, strangers, until_struck, wait_until
from txnsim_lab.scenario.actors._asking import ASKED_AGAIN
from txnsim_lab.scenario.actors.base import Actor
from txnsim_lab.scenario.answers import ANY, NONE, CallResult, StoryFailedError
from txnsim_lab.scenario.fields import ByRun, OffsetByRun, Situation, by_run
from txnsim_lab.scenario.final_observation import look_at_everything
from txnsim_lab.scenario.stage import LOOKER, PATIENCE_MS, Background, Stage
from txnsim_lab.scenario.steps_model import (
    FOR_OTHER_MEMBERS,
    Awaited,
    Call,
    ClusterAct,
    ReleasedAs,
    Step,
)

T = TypeVar("T")


async def act(stage: Stage, step: Step) -> None:
    """Act one step out.

    Raises:
        StoryFailedError: What the step waits for or expects did not happen.
        ClientError: An actor could not do its part.
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
        stage.recorder.healed(LOOKER)
    else:
        await look_at_everything(stage)


def need_strikes(stage: Stage) -> None:
    """See to it that every fault of the story was part of it.

    Raises:
        StoryFailedError: One never struck.
    """
    for rule_id, where in stage.armed_at.items():
        armed = stage.armed.get(rule_id)  # none where this take arms nothing
        if armed is not None and armed.struck == 0:
            raise StoryFailedError(
                "; ".join(
                    [
                        f"{where}the fault {rule_id} never struck: the story was not played",
                        *strangers(stage, armed.rule),
                    ]
                )
            )


async def _act_on_cluster(stage: Stage, act: ClusterAct) -> None:
    """Act on the cluster, and note the acts that judges need to know."""
    asked_ms = stage.environment.clock.now_ms()
    await act_on_cluster(stage, act)
    if act.do == "clean" and act.partition is not None:
        stage.recorder.cleaned(LOOKER, act.partition)
    elif act.do == "delete-topic" and act.topic is not None:
        stage.recorder.deleted(LOOKER, act.topic, asked_ms=asked_ms)


# Calls


async def _call(stage: Stage, call: Call) -> None:
    actor = stage.actors[call.who]
    wanted = expected_error(call.error, stage.situation)
    if call.background is None:
        answer = await done(stage, actor, call, wanted=wanted)
        _compare(stage, f"{call.who}: {call.do}", answer, wanted, call.offset)
        return
    sent = asyncio.Event()
    heard = ANY if call.error is None else wanted
    task: asyncio.Task[CallResult | StoryFailedError] = stage.environment.tasks.spawn(
        _kept(done(stage, actor, call, wanted=heard, sent=sent.set)),
        name=f"{call.who}: {call.do} ({call.background})",
    )
    stage.background[call.background] = Background(actor, call, task)
    task.add_done_callback(lambda _: sent.set())
    # It must be on its way before the next step: a story has an order.
    await sent.wait()
    if stage.situation.take == "disarmed" and call.do not in FOR_OTHER_MEMBERS:
        await _settled(stage, call.background)  # nothing holds it


async def _kept(call: Awaitable[CallResult]) -> CallResult | StoryFailedError:
    """What a call in the background comes to; where it is awaited, it may fail the story."""
    try:
        return await call
    except StoryFailedError as failed:
        return failed


def _nothing() -> None:
    """Default: a foreground call needs no signal that its request was sent."""


async def done(
    stage: Stage, actor: Actor, call: Call, *, wanted: str, sent: Callable[[], object] = _nothing
) -> CallResult:
    """Let an actor make a call, traced as its own; returns the result."""
    part = stage.scenario.cast.get(call.who)
    client = (None if part is None else part.client_id) or call.who
    trace = ClientTrace(stage.environment.tracer, client)
    with trace.call(
        call.do,
        tp=None if call.partition is None else str(call.partition),
        tps=[str(place) for place in call.partitions] if call.partitions else None,
        group=call.group,
        transaction=call.transaction,
        records=[value or "" for value in call.records],
    ) as traced:
        with stage.recorder.asking():
            answer = await actor.call(call, wanted=wanted, sent=sent)
        if traced is not None:
            traced.result = {"error": answer.error} if answer.error != NONE else {}
            if answer.offset >= 0:
                traced.result["result"] = {"offset": answer.offset}
    return answer


async def _await(stage: Stage, awaited: str | Awaited) -> None:
    name = awaited if isinstance(awaited, str) else awaited.call
    background = stage.called(name)
    answer = await _settled(stage, name)
    call = background.call
    given = call.error if isinstance(awaited, str) or awaited.error is None else awaited.error
    offset = call.offset if isinstance(awaited, str) or awaited.offset is None else awaited.offset
    wanted = expected_error(given, stage.situation)
    took_first = call.error is None and answer.error in ASKED_AGAIN
    hint = "; it took its first answer: write `error: NONE`" if took_first else ""
    _compare(stage, f"{call.who}: {call.do} ({name})", answer, wanted, offset, hint=hint)


async def _settled(stage: Stage, name: str) -> CallResult:
    """The answer to a call of the background."""
    task = stage.background[name].task
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    task.add_done_callback(lambda _: end())
    timer = stage.environment.clock.call_later(PATIENCE_MS, end)
    try:
        await over
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
    background = stage.called(name)
    await background.who.give_up(background.call)


def expected_error(given: ByRun | None, situation: Situation) -> str:
    """The error that a run expects; without the fault, and of a control, NONE
    unless the file says otherwise."""
    found = by_run(given, situation) if isinstance(given, dict) else given
    return NONE if found is None else str(found)


def expected_offset(given: OffsetByRun | None, situation: Situation) -> int | None:
    """The offset that a run expects; None for whatever it is."""
    found: int | None = by_run(given, situation) if isinstance(given, dict) else given
    return found


def _compare(
    stage: Stage,
    what: str,
    answer: CallResult,
    wanted: str,
    given: OffsetByRun | None,
    *,
    hint: str = "",
) -> None:
    if answer.error != NONE or wanted not in (NONE, ANY):
        stage.say(what.split(":")[0], f"{what.split(': ')[1]} is answered {answer.error}")
    if wanted not in (ANY, answer.error):
        because = f" ({answer.because})" if answer.because else ""
        raise StoryFailedError(
            f"{what} is answered {answer.error}{because}, expected {wanted}{hint}",
            answered=answer.error,
        )
    offset = expected_offset(given, stage.situation)
    if offset is not None and answer.error == NONE and answer.offset != offset:
        raise StoryFailedError(f"{what} is at offset {answer.offset}, expected {offset}")


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


async def _release(stage: Stage, wanted: str | ReleasedAs) -> None:
    injector = stage.target.injector
    if isinstance(wanted, ReleasedAs):
        rule_id, fate = wanted.rule, FATES[wanted.as_]
    else:
        rule_id, fate = wanted, FATES["pass"]
    armed = stage.in_force(rule_id)
    if armed.struck == 0:
        lines = [f"the fault {rule_id} never struck: there is nothing to release"]
        raise StoryFailedError("; ".join([*lines, *strangers(stage, armed.rule)]))
    try:
        injector.release(rule_id, fate)
    except CannotStrikeError as error:
        raise StoryFailedError(str(error)) from error
    onlooker = stage.onlookers.pop(rule_id, None)
    if onlooker is not None:
        if isinstance(fate, Drop):
            await pause(stage.environment.clock, 1)  # the one who held it tells that it is lost
        else:
            await until_struck(stage, onlooker, count=armed.released)
        injector.disarm(onlooker)
    injector.disarm(rule_id)
