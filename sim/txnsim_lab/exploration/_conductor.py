"""Leads a run from one choice to the next: holds every message that counts at its fault point, and
where nothing is left to do lets one of them arrive.

A step is all that follows from one choice at once. Then the loop has nothing to do before time
passes, and the next choice is due (``VirtualLoop.before_time_passes``). Messages of one connection
or link arrive in their order. Time passes where nothing is on its way, while a step on the cluster
needs it, and where that is chosen.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Sequence
from typing import Final

import msgspec

from txnsim.errors import ClientError, ConfigError
from txnsim.faults.interception import Crossing, FaultEffect, SubmitOutcome
from txnsim.faults.points import FaultPoint
from txnsim.injection.armed_rule import ArmedRule
from txnsim.runtime.trace_kinds import PEER_POLLS
from txnsim.runtime.virtual.run import VirtualEnvironment
from txnsim.wire.apis import api_name
from txnsim_lab.exploration._node_states import Conversation, NodeStates
from txnsim_lab.exploration.model import Exploration
from txnsim_lab.exploration.way import Choice, Chooser, Deviation
from txnsim_lab.scenario.call_results import StoryFailedError
from txnsim_lab.scenario.stage import RunningStory
from txnsim_lab.scenario.steps_model import Step
from txnsim_lab.simulation.plan import Act, StepBody, Track
from txnsim_lab.simulation.play import play_step
from txnsim_lab.target.simulated import SimulatedTarget

_REQUEST_POINTS: Final = (FaultPoint.CLIENT_REQUEST, FaultPoint.PEER_REQUEST)
_PEER_POINTS: Final = (FaultPoint.PEER_REQUEST, FaultPoint.PEER_RESPONSE)
_MESSAGE_POINTS: Final = (*_REQUEST_POINTS, FaultPoint.CLIENT_RESPONSE, FaultPoint.PEER_RESPONSE)

ARRIVES: Final = "arrives"
IS_LOST: Final = "is lost"
LOSES_ITS_ANSWER: Final = "arrives, its answer is lost"
BEGINS: Final = "begins"
GOES_ON: Final = "goes on"
TIME_PASSES: Final = "time passes"
END: Final = "nothing more happens"
_OUTCOMES: Final = {
    ARRIVES: SubmitOutcome.PASS,
    IS_LOST: SubmitOutcome.DROP,
    LOSES_ITS_ANSWER: SubmitOutcome.DROP_ANSWER,
}


class HeldMessage(msgspec.Struct, frozen=True, eq=False):
    """A message that is on its way."""

    kind_name: str
    """API, sender and receiver."""
    number: int
    """Its number among those of this kind."""
    sender: str
    receiver: str
    is_request: bool
    content: object
    conversation: Conversation
    ordinal: int
    """Its number among all messages of the run: the oldest has the smallest."""
    future: asyncio.Future[FaultEffect]

    @property
    def name(self) -> str:
        """The message's name in a ``Way``: its kind and its number."""
        return f"{self.kind_name} #{self.number}"


class Conductor:
    """The director of one run (``simulation.play.Director``)."""

    def __init__(self, exploration: Exploration, chooser: Chooser) -> None:
        self.way: list[Deviation] = []
        """What was chosen so far that does not happen on a quiet network."""
        self.steps: list[str] = []
        """All that has happened."""
        self.deviating_steps: list[int] = []
        """Indexes of the steps that do not happen on a quiet network."""
        self._exploration = exploration
        self._chooser = chooser
        self._choice_count = 0
        self._future_by_track: dict[str, asyncio.Future[None]] = {}
        self._traffic: _Traffic | None = None

    async def take_over(self, running_story: RunningStory, target: SimulatedTarget) -> None:
        """Make the steps that come before, and stand at the fault points of a cluster; messages
        pass until all tracks are ready.
        """
        for step_body in self._exploration.before:
            await play_step(running_story, Step.model_validate(step_body))
        environment = target.environment
        assert isinstance(environment, VirtualEnvironment), "a run in virtual time"
        self._traffic = _Traffic(self._exploration, running_story, target, environment)
        environment.loop.before_time_passes = self._take_step

    async def before_act(self, track: Track, drawn_act: Act) -> None:
        """Let each track wait behind its first unit until all have come that far."""
        traffic = self._traffic
        if traffic is None or traffic.is_choosing or drawn_act.unit == 0:
            return
        own_future = self._future_by_track[track.name] = traffic.environment.loop.create_future()
        if len(self._future_by_track) == len(self._exploration.plan.tracks):
            traffic.begin()
            for track_future in self._future_by_track.values():
                track_future.set_result(None)
        await own_future

    async def until_all_arrived(self) -> None:
        """Wait until nothing is on its way and nothing more happens."""
        if self._traffic is not None:
            await self._traffic.until_all_arrived()

    def _take_step(self) -> bool:
        """Let something happen; returns whether it does, and time must wait."""
        traffic = self._traffic
        if traffic is None or not traffic.is_ready():
            return False
        options = traffic.options()
        if not options:
            return False
        index = 0
        # At the end it is asked even without a choice: equal ends are judged once.
        if len(options) > 1 or options[0] == END:
            index = self._chooser.pick(traffic.choice_of(options))
        option = options[index]
        if index:
            self.way.append(Deviation(self._choice_count, option))
            self.deviating_steps.append(len(self.steps))
        self._choice_count += len(options) > 1
        self.steps.append(option)
        return traffic.carry_out(option)


class _Traffic:
    """What is on its way in a cluster, and what may happen to it; an ``Interceptor``."""

    is_armed = True
    """Each message is asked about."""

    def __init__(
        self,
        exploration: Exploration,
        running_story: RunningStory,
        target: SimulatedTarget,
        environment: VirtualEnvironment,
    ) -> None:
        self.environment = environment
        self.is_choosing = False
        """Whether messages are held until they are chosen."""
        self._exploration = exploration
        self._bounds = exploration.bounds
        self._running_story = running_story
        self._cluster = target.cluster
        self._injector = target.cluster.injector
        environment.network.interceptor = self
        self._until_s = 0.0
        self._messages_by_line: dict[tuple[str, bool], list[HeldMessage]] = {}
        """(connection or link, whether it carries requests) -> what is on its way on it."""
        self._next_ordinal = itertools.count().__next__
        self._late_ordinals: set[int] = set()
        """Messages that others have overtaken: they arrive when nothing else is on its way."""
        self._count_by_kind: dict[str, int] = {}
        """Kind of a message -> how many were sent."""
        self._heard_senders: set[str] = set()
        """Senders of which a message has been chosen."""
        self._nodes = NodeStates()
        self._loss_count = self._delay_count = 0
        self._steps_left_by_name = {
            disturbance.name: list(disturbance.steps) for disturbance in exploration.disturbances
        }
        self._begun_disturbances: list[str] = []
        """Names of the disturbances that have begun."""
        self._awaited_future: asyncio.Future[None] | None = None
        """The end of a step on the cluster, or of a delay."""
        self._was_offered = False
        """Whether a step that lets time pass was offered since the last such step."""
        self._arrival_future: asyncio.Future[None] | None = None

    # From outside

    def begin(self) -> None:
        """Hold messages from now on."""
        self.is_choosing = True
        self._until_s = self.environment.loop.time() + self._bounds.within_ms / 1_000

    async def until_all_arrived(self) -> None:
        """Wait until nothing is on its way and nothing more happens."""
        if self.is_choosing:
            self._arrival_future = self.environment.loop.create_future()
            await self._arrival_future

    def cross(self, crossing: Crossing) -> FaultEffect | Awaitable[FaultEffect] | None:
        """Hold a message until it is chosen (``Interceptor``)."""
        is_peer = crossing.point in _PEER_POINTS
        if crossing.point not in _MESSAGE_POINTS or (is_peer and crossing.api_key in PEER_POLLS):
            return self._injector.cross(crossing) if self._injector.is_armed else None
        is_request = crossing.point in _REQUEST_POINTS
        sender, receiver = crossing.source, crossing.target
        api = api_name(crossing.api_key)
        kind_name = f"{api} {'' if is_request else 'answer '}{crossing.source} > {crossing.target}"
        conversation = crossing.line, crossing.correlation_id
        if not is_request:
            sender, receiver = receiver, sender
            self._nodes.end_handling(sender, conversation)
        elif is_peer:
            self._nodes.begin_awaiting(sender, conversation, kind_name, crossing.content)
        chosen_apis = self._bounds.peer_apis if is_peer else self._bounds.client_apis
        is_chosen = is_request or (is_peer and self._bounds.peer_answers)
        if not (self.is_choosing and is_chosen and api in chosen_apis):
            self._note_arrival(
                receiver, kind_name, crossing.content, conversation, is_request=is_request
            )
            return None
        message_number = self._count_by_kind[kind_name] = self._count_by_kind.get(kind_name, 0) + 1
        message = HeldMessage(
            kind_name=kind_name,
            number=message_number,
            sender=sender,
            receiver=receiver,
            is_request=is_request,
            content=crossing.content,
            conversation=conversation,
            ordinal=self._next_ordinal(),
            future=self.environment.loop.create_future(),
        )
        self._messages_by_line.setdefault((crossing.line, is_request), []).append(message)
        return message.future

    def _note_arrival(
        self,
        node: str,
        message_name: str,
        content: object,
        conversation: Conversation,
        *,
        is_request: bool,
    ) -> None:
        """Note that a message has arrived: a broker handles a request from now on, or awaits an
        answer no more.
        """
        self._nodes.note_arrival(node, message_name, content)
        now = self.environment.loop.time_ns()
        if is_request:
            self._nodes.begin_handling(node, conversation, message_name, content, now)
        else:
            self._nodes.end_awaiting(node, conversation, now)

    # Choices

    def is_ready(self) -> bool:
        """Whether a choice is due now."""
        if not self.is_choosing:
            return False
        if self._awaited_future is not None:
            if not self._awaited_future.done():
                return False
            self._awaited_future = None
        return True

    def options(self) -> list[str]:
        """What may happen now; the first is what happens on a quiet network. Empty if time passes,
        or the time of choosing is over.
        """
        if self.environment.loop.time() > self._until_s:
            self._stop()
            return []
        first_messages = self._first_messages()
        options = [f"{ARRIVES}: {message.name}" for message in first_messages]
        if self._loss_count < self._bounds.losses:
            for message in first_messages:
                options.append(f"{IS_LOST}: {message.name}")
                if message.is_request:
                    options.append(f"{LOSES_ITS_ANSWER}: {message.name}")
        if first_messages and self._delay_count < self._bounds.delays:
            options.append(self._delay_name)
        disturbances = list(self._disturbances_that_may())
        if not first_messages:
            is_last = self._arrival_future is not None
            if not is_last and (self._was_offered or not disturbances):
                return []
            self._was_offered = True
            options.append(END if is_last else TIME_PASSES)
        return options + disturbances

    def carry_out(self, option: str) -> bool:
        """Let an option happen; returns whether anything does before time passes."""
        if option == TIME_PASSES:
            return False
        if option == END:
            self._stop()
            return True
        self._was_offered = False
        option_kind, _, name = option.partition(": ")
        if option == self._delay_name:
            self._let_time_pass()
        elif option_kind in (BEGINS, GOES_ON):
            self._begin_step(name)
        else:
            self._let_arrive(option_kind, name)
        return True

    @property
    def _delay_name(self) -> str:
        return f"{self._bounds.delay_ms} ms pass"

    def _first_messages(self) -> list[HeldMessage]:
        """The first message of each line: the oldest first, and last those that were passed over.
        Of twins of which nothing was heard yet only those of the first: they are the same but for
        their names.
        """
        silent_nodes: set[str] = set()
        for twins in self._exploration.twins:
            unheard_clients = [
                f"client/{name}" for name in twins if f"client/{name}" not in self._heard_senders
            ]
            silent_nodes.update(unheard_clients[1:])
        return sorted(
            (
                messages[0]
                for messages in self._messages_by_line.values()
                if messages[0].sender not in silent_nodes
            ),
            key=self._order_of,
        )

    def _order_of(self, message: HeldMessage) -> tuple[bool, int]:
        return message.ordinal in self._late_ordinals, message.ordinal

    def _disturbances_that_may(self) -> list[str]:
        is_full = len(self._begun_disturbances) >= self._bounds.disturbances
        return [
            f"{GOES_ON if name in self._begun_disturbances else BEGINS}: {name}"
            for name, steps in self._steps_left_by_name.items()
            if steps and (name in self._begun_disturbances or not is_full)
        ]

    def fingerprint(self) -> int:
        """The state of the whole run as a number."""
        messages_under_way = {
            line: [(message.kind_name, message.content) for message in messages]
            for line, messages in self._messages_by_line.items()
        }
        leaders = {
            name: [(partition.leader, partition.leader_epoch) for partition in topic.partitions]
            for name, topic in self._cluster.metadata.image.topics.items()
        }
        return self._nodes.fingerprint(
            self._cluster.brokers,
            *(messages_under_way, leaders, self.environment.loop.time_ns()),
            [*map(_state_of_rule, self._injector.rules())],
            *(
                self._loss_count,
                self._delay_count,
                self._begun_disturbances,
                self._steps_left_by_name,
            ),
            *(self._was_offered, self._arrival_future is not None, self._heard_senders),
        )

    def choice_of(self, options: Sequence[str]) -> Choice:
        """The choice between options."""
        line_by_name = {
            messages[0].name: f"{messages[0].kind_name} on {line}"
            for line, messages in self._messages_by_line.items()
        }
        option_parts = [option.partition(": ") for option in options]
        return Choice(
            options=options,
            keys=[
                f"{option_kind}: {line_by_name.get(name, name)}"
                for option_kind, _, name in option_parts
            ],
            fingerprint=self.fingerprint(),
        )

    # What happens

    def _let_arrive(self, option_kind: str, name: str) -> None:
        line, message = next(
            (line, messages[0])
            for line, messages in self._messages_by_line.items()
            if messages[0].name == name
        )
        self._late_ordinals.update(
            other_message.ordinal
            for other_message in self._first_messages()
            if self._order_of(other_message) < self._order_of(message)
        )
        del self._messages_by_line[line][0]
        if not self._messages_by_line[line]:
            del self._messages_by_line[line]
        submit_outcome = _OUTCOMES[option_kind]
        self._loss_count += submit_outcome is not SubmitOutcome.PASS
        self._heard_senders.add(message.sender)
        if submit_outcome is SubmitOutcome.DROP:
            self._nodes.note_arrival(message.receiver, f"{option_kind} {message.kind_name}", None)
        else:
            self._note_arrival(
                message.receiver,
                f"{option_kind} {message.kind_name}",
                message.content,
                message.conversation,
                is_request=message.is_request,
            )
        if not message.future.done():
            message.future.set_result(FaultEffect(outcome=submit_outcome))

    def _begin_step(self, name: str) -> None:
        """Make the next step of a disturbance."""
        if name not in self._begun_disturbances:
            self._begun_disturbances.append(name)
        step_bodies = self._steps_left_by_name[name].pop(0)
        if isinstance(step_bodies, dict):
            step_bodies = (step_bodies,)
        event_name = f"{name} {len(self._steps_left_by_name[name])}"
        self._nodes.note_at_brokers(event_name)
        if not all(map(_is_unnoticed, step_bodies)):
            self._nodes.note_at_clients(event_name)
        step_done = self._awaited_future = self.environment.loop.create_future()
        self.environment.tasks.spawn(
            self._perform(step_bodies, step_done), name=f"disturbance {name}"
        )

    async def _perform(
        self, step_bodies: Sequence[StepBody], step_done: asyncio.Future[None]
    ) -> None:
        try:
            # What is impossible now, such as to move a leader to a broker that is down, is no
            # anomaly.
            with contextlib.suppress(ClientError, StoryFailedError, ConfigError):
                for step_body in step_bodies:
                    await play_step(self._running_story, Step.model_validate(step_body))
        finally:
            if not step_done.done():
                step_done.set_result(None)

    def _let_time_pass(self) -> None:
        """Let time pass while messages are on their way."""
        self._delay_count += 1
        self._nodes.note_at_brokers(self._delay_name)
        self._nodes.note_at_clients(self._delay_name)
        delay_done = self._awaited_future = self.environment.loop.create_future()
        self.environment.loop.call_later(self._bounds.delay_ms / 1_000, delay_done.set_result, None)

    def _stop(self) -> None:
        """Let all that is on its way arrive in its order, and hold nothing any more."""
        self.is_choosing = False
        messages = [message for line in self._messages_by_line.values() for message in line]
        self._messages_by_line.clear()
        for message in sorted(messages, key=_ordinal_of):
            if not message.future.done():
                message.future.set_result(FaultEffect.PASS)
        if self._arrival_future is not None and not self._arrival_future.done():
            self._arrival_future.set_result(None)


def _state_of_rule(armed_rule: ArmedRule) -> tuple[object, ...]:
    """What a fault rule of a disturbance will do: by what it has counted, and what it holds."""
    held_crossings = [
        (
            held_crossings.crossing.point,
            held_crossings.crossing.source,
            held_crossings.crossing.target,
            held_crossings.crossing.content,
        )
        for held_crossings in armed_rule.held_crossings.values()
    ]
    return (
        armed_rule.rule.id,
        armed_rule.matched,
        armed_rule.begun_count,
        armed_rule.is_disarmed,
        held_crossings,
    )


def _is_unnoticed(step_body: StepBody) -> bool:
    """Whether clients notice nothing of a step but what messages tell them: it breaks no
    connection.
    """
    act = step_body.get("cluster")
    return isinstance(act, dict) and act.get("do") == "move-leader"


def _ordinal_of(message: HeldMessage) -> int:
    return message.ordinal
