"""The running story: the cluster of a run and all actors on it. It is built for one run and
taken down after it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from txnsim.client.admin import Admin
from txnsim.errors import ConfigError
from txnsim.injection.armed_rule import ArmedRule
from txnsim.runtime.environment import Environment
from txnsim.server.cluster import SimCluster
from txnsim.trace.story import NARRATOR
from txnsim.types import INTERNAL_TOPICS, TopicPartition
from txnsim_lab.scenario._cluster_options import TRANSACTION_VERSION, new_topic, options_of
from txnsim_lab.scenario._notation.internal_partitions import is_internal, partition_of_group
from txnsim_lab.scenario.actors._application import ApplicationActor
from txnsim_lab.scenario.actors._bystander import BystanderActor
from txnsim_lab.scenario.actors._member import MemberActor
from txnsim_lab.scenario.actors._operator import OperatorActor
from txnsim_lab.scenario.actors._reader import ReaderActor
from txnsim_lab.scenario.actors._share_member import ShareMemberActor
from txnsim_lab.scenario.actors._wire import WireActor
from txnsim_lab.scenario.actors.base import StoryActor as Acting
from txnsim_lab.scenario.actors.base import Surroundings
from txnsim_lab.scenario.call_results import CallResult, StoryFailedError
from txnsim_lab.scenario.fields import RunSelection, with_numbers
from txnsim_lab.scenario.model import Actor, Run, Scenario
from txnsim_lab.scenario.players._base import PlayerPart
from txnsim_lab.scenario.players.casting import Cast
from txnsim_lab.scenario.recorder import Recorder
from txnsim_lab.scenario.steps_model import Call, Step
from txnsim_lab.target.cluster import Target, TargetError
from txnsim_lab.target.simulated import SimulatedTarget

LOOKER_NAME: Final = "onlooker"
"""Name of the actor that observes everything at the end of a story."""
PATIENCE_MS: Final = 60_000
"""Limit of the wait for a condition: longer than the 30 s after which brokers retry."""


class Background:
    """A call that runs while the story continues."""

    def __init__(
        self, actor: Acting, call: Call, task: asyncio.Task[CallResult | StoryFailedError]
    ) -> None:
        self.actor = actor
        self.call = call
        self.task = task


class RunningStory:
    """The target of one run, and its actors."""

    def __init__(
        self, scenario: Scenario, run_selection: RunSelection, target: Target, recorder: Recorder
    ) -> None:
        self.scenario = scenario
        self.run_selection = run_selection
        self.target = target
        self.recorder = recorder
        self.actors: dict[str, Acting] = {}
        self.background: dict[str, Background] = {}
        self.armed: dict[str, ArmedRule] = {}
        """All faults armed so far, also those no longer in force."""
        self.armed_at: dict[str, str] = {}
        """Where the story arms each rule, as ``late.yaml:24: steps.3.hold: ``; empty without a
        file.
        """
        self.healed = False
        """Whether the story has ended all faults."""
        self._touched_partitions: set[TopicPartition] = set()
        """Partitions of internal topics that a step has named or used."""
        self.onlookers: dict[str, str] = {}
        """Id of a rule -> id of the rule that counts the answers to the requests it held."""
        self.around = Surroundings(
            environment=target.environment,
            bootstrap=target.bootstrap,
            run_selection=run_selection,
            recorder=recorder,
            tell=self.say,
            has_transactions_v2=TRANSACTION_VERSION[run_selection.mode] == 2,
            is_ours=self._is_ours,
            prefix=target.prefix,
            security=target.security,
        )
        self._readers_from_start: list[ReaderActor] = []
        self.operator = OperatorActor(LOOKER_NAME, self.around)
        self.reader = ReaderActor(LOOKER_NAME, Actor(plays="reader"), self.around)
        target.acts_for(_Looker(self))

    @property
    def environment(self) -> Environment:
        return self.target.environment

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All present partitions of the story: those of its topics, including topics that it has
        created or grown, and the internal partitions that it has used.
        """
        topics = self.target.topics
        declared_topics = [
            topic_name for topic_name in self.scenario.topics if topic_name in topics
        ]
        new_topics = [
            topic_name
            for topic_name in topics
            if topic_name not in INTERNAL_TOPICS and topic_name not in declared_topics
        ]
        return tuple(
            TopicPartition(topic_name, partition_index)
            for topic_name in (*declared_topics, *sorted(new_topics))
            for partition_index in range(topics[topic_name])
        ) + tuple(
            partition for partition in sorted(self._touched_partitions) if partition.topic in topics
        )

    def with_numbers(self, step: Step) -> Step:
        """A copy of the step in which internal partitions have numbers; notes them as used."""
        settings = self.target.settings
        numbered_step: Step = with_numbers(step, settings)
        call = numbered_step.call
        if call is not None:
            group = call.group or self.scenario.cast[call.member or call.who].group
            if group is not None:
                self._touched_partitions.add(partition_of_group(group, settings))
        if numbered_step.expect is not None and numbered_step.expect.group is not None:
            self._touched_partitions.add(partition_of_group(numbered_step.expect.group, settings))
        self._touched_partitions.update(
            partition for partition in numbered_step.partitions if is_internal(partition)
        )
        return numbered_step

    def _is_ours(self, partition: TopicPartition) -> bool:
        return partition in self._touched_partitions or not self.target.is_hidden(partition)

    def background_call(self, call_name: str) -> Background:
        """The call of this name in the background.

        Raises:
            StoryFailedError: No step of this run has made the call.
        """
        background = self.background.get(call_name)
        if background is None:
            raise StoryFailedError(f"the call {call_name} was not made in this run")
        return background

    def rule_in_force(self, rule_id: str) -> ArmedRule:
        """The fault rule of this id, which must be armed now.

        Raises:
            StoryFailedError: No step of this run has armed the rule, or a step has released or
                disarmed it.
        """
        armed_rule = self.armed.get(rule_id)
        if armed_rule is None:
            raise StoryFailedError(f"the fault {rule_id} was not armed in this run")
        if armed_rule.is_disarmed:
            raise StoryFailedError(
                f"the fault {rule_id} is armed no more: a step before has released it or taken it "
                "back"
            )
        return armed_rule

    def reader_from_start(self) -> ReaderActor:
        self._readers_from_start.append(
            ReaderActor(LOOKER_NAME, Actor(plays="reader"), self.around)
        )
        return self._readers_from_start[-1]

    def say(self, speaker: str, sentence: str) -> None:
        tracer = self.environment.tracer
        if tracer.on:
            tracer.emit("note", speaker, data={"text": sentence})

    def tell(self, sentence: str) -> None:
        """Put a sentence of the story itself into the trace."""
        self.say(NARRATOR, sentence)

    async def close(self) -> None:
        """Close all actors, and cancel the calls that still wait."""
        for actor in (*self.actors.values(), *self._readers_from_start, self.operator, self.reader):
            await actor.close()
        for background in self.background.values():
            background.task.cancel()
        tasks = [background.task for background in self.background.values()]
        await asyncio.gather(*tasks, return_exceptions=True)


class _Looker:
    """The name under which observations of ``target.cluster.Operator`` are recorded: the
    onlooker.
    """

    def __init__(self, running_story: RunningStory) -> None:
        self._running_story = running_story

    async def admin(self) -> Admin:
        return await self._running_story.operator.admin()

    def say(self, sentence: str) -> None:
        self._running_story.say(LOOKER_NAME, sentence)


@contextlib.asynccontextmanager
async def simulated_target(
    scenario: Scenario, run: Run, environment: Environment
) -> AsyncIterator[SimulatedTarget]:
    """Start the simulated cluster of a run, and stop it afterwards.

    Raises:
        ConfigError: A setting or a release is unknown.
    """
    cluster = SimCluster(environment, options_of(scenario, run))
    await cluster.start()
    try:
        yield SimulatedTarget(cluster)
    finally:
        await cluster.stop()


@contextlib.asynccontextmanager
async def open_story(
    scenario: Scenario,
    run_selection: RunSelection,
    *,
    casts: Mapping[str, Cast],
    target: Target,
    recorder: Recorder,
) -> AsyncIterator[RunningStory]:
    """Build what one run needs on its target, and take it down afterwards.

    Raises:
        ConfigError: A topic of the story can't be created.
    """
    async with contextlib.AsyncExitStack() as exit_stack:
        for declared_name, topic in scenario.topics.items():
            brokers = min(target.brokers, scenario.brokers)
            try:
                await target.create_topic(new_topic(declared_name, topic, broker_count=brokers))
            except TargetError as error:
                raise ConfigError(f"{scenario.name}: {error}") from None
        running_story = RunningStory(scenario, run_selection, target, recorder)
        for declared_name, actor_declaration in scenario.cast.items():
            running_story.actors[declared_name] = _create_actor(
                running_story, declared_name, actor_declaration, casts
            )
        exit_stack.push_async_callback(running_story.close)
        # Whatever still waits at a fault point when the story ends must not keep its connection.
        exit_stack.callback(target.injector.disarm_all)
        yield running_story


def _create_actor(
    running_story: RunningStory, actor_name: str, declaration: Actor, casts: Mapping[str, Cast]
) -> Acting:
    surroundings = running_story.around
    match declaration.plays:
        case "wire":
            return WireActor(actor_name, declaration, surroundings)
        case "application":
            player = casts[actor_name].make(_player_part(running_story, actor_name, declaration))
            return ApplicationActor(
                actor_name, declaration.transactional_id or actor_name, player, surroundings
            )
        case "member":
            return MemberActor(actor_name, declaration, surroundings)
        case "share-member":
            return ShareMemberActor(actor_name, declaration, surroundings)
        case "bystander":
            return BystanderActor(actor_name, surroundings)
        case "reader":
            return ReaderActor(actor_name, declaration, surroundings)
        case "operator":
            return OperatorActor(actor_name, surroundings)


def _player_part(running_story: RunningStory, actor_name: str, declaration: Actor) -> PlayerPart:
    """The part that a player plays; a program gets the first partition that the application sends
    to.
    """
    story_steps = running_story.scenario.steps
    first_partitions = [
        step.call.partition
        for step in story_steps
        if step.call is not None and step.call.who == actor_name and step.call.partition is not None
    ]
    first_partition = (*first_partitions, *running_story.partitions)[0]
    return PlayerPart(
        bootstrap=running_story.target.bootstrap,
        security=running_story.target.security,
        transactional_id=declaration.transactional_id or actor_name,
        client_id=declaration.client_id or actor_name,
        topic=first_partition.topic,
        partition=first_partition.partition,
        now_ms=running_story.environment.clock.now_ms(),
        environment=running_story.environment,
    )
