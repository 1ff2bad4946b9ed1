"""Lessons on the live cluster: prepare one, note what the learner's client saw, tell how a part
stands.

A question or goal of such a lesson is a fact of the cluster's own trace, or of what clients saw:
the learner's client, which posts it here, and an onlooker, who reads over the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.requests import Request

from txnsim.client.admin import Admin
from txnsim.client.connection import ClientSettings
from txnsim.errors import BadInputError, ClientError, ErrorCode
from txnsim.http.operation import PREFIX, ClusterNoun, Operation
from txnsim.http.replies import Body, RefusedError, digits_of
from txnsim.http.work_thread import WorkThread
from txnsim.on_demand_imports import OnDemand
from txnsim.server.cluster import SimCluster
from txnsim.server.user_inputs import input_event
from txnsim.trace.trace_file import Recording
from txnsim_lab.check.history import History, HistoryError
from txnsim_lab.check.observations import Seen
from txnsim_lab.http._judging import LOOK_TIMEOUT_MS
from txnsim_lab.http._runs.lessons import LessonAnswer, lesson_of
from txnsim_lab.scenario.teaching.lessons import Lesson, OwnCluster, Part
from txnsim_lab.scenario.teaching.outside_facts import (
    is_outside_fact,
    judge_topic,
    places_of_facts,
    seen_fact,
)
from txnsim_lab.scenario.teaching.trace_facts import fact, fact_text, is_fact

if TYPE_CHECKING:
    from txnsim_lab.scenario import outside_view, recorder
else:
    outside_view = OnDemand("txnsim_lab.scenario.outside_view")
    recorder = OnDemand("txnsim_lab.scenario.recorder")

NEEDS_WAIT_S: Final = 5.0
"""Longest wait for what a lesson needs, in seconds."""
NEEDS_POLL_S: Final = 0.1
"""Time between two looks at what a lesson needs, in seconds."""
NOTED_MAX: Final = 10_000
"""A lesson keeps at most so many observations, as a bound against a runaway client."""


class LessonBegin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request to begin a lesson on this cluster."""

    part: int = 0
    """Part to continue from; part 0 recreates the topics."""


class LessonPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where the lesson is played."""

    bootstrap: str


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """How many observations of the learner's client are noted."""

    observations: int


class GoalFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact on which a goal depends."""

    fact: str
    """The fact in words."""
    wanted: str
    found: str


class LessonNow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a part of a lesson on the present cluster."""

    answer: LessonAnswer | None
    """The answer to its question."""
    goal: tuple[GoalFact, ...]
    met: bool
    """Whether the part has a goal that is reached."""
    because: tuple[str, ...]


class OwnClusterRoutes(ClusterNoun):
    """The routes for lessons on this cluster."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster)
        self._noted_by_lesson: dict[str, list[Seen]] = {}
        """Lesson -> what the learner's client saw."""

    @Operation("post", f"{PREFIX}/lessons/{{id}}/begin", refusals=("404", "409", "422", "503"))
    async def begin(self, request: Request, body: Body[LessonBegin]) -> LessonPlace:
        """Prepare this cluster for a lesson: create its topics anew, disarm its fault rules, forget
        its observations. Refused if the cluster lacks what the lesson needs.
        """
        lesson, cluster = _lesson_of(request)
        if (await body.read()).part == 0:
            unmet_needs = await self._unmet_needs(lesson, cluster.needs)
            if unmet_needs:
                unmet_text = "; ".join(
                    f"{fact_text(fact_words)}: {unmet_needs[fact_words]}"
                    for fact_words in unmet_needs
                )
                raise RefusedError(
                    409,
                    f"{lesson.id} can't be played on this cluster, which lacks: {unmet_text}. "
                    f"`txnsim lesson {lesson.id}` starts one, with its page",
                )
            await self._make_ready(lesson, cluster)
        return LessonPlace(bootstrap=self._cluster.bootstrap.split(",")[0])

    @Operation("post", f"{PREFIX}/lessons/{{id}}/seen", refusals=("404", "409", "413", "422"))
    async def seen(self, request: Request, body: Body[list[Seen]]) -> Noted:
        """Note what the learner's client saw, in order, as observations of docs/checkers.md."""
        lesson, _ = _lesson_of(request)
        noted_observations = self._noted_by_lesson.setdefault(lesson.id, [])
        new_observations = await body.read()
        if len(noted_observations) + len(new_observations) > NOTED_MAX:
            raise RefusedError(413, f"a lesson takes at most {NOTED_MAX} observations")
        noted_observations += new_observations
        return Noted(observations=len(noted_observations))

    @Operation(
        "get", f"{PREFIX}/lessons/{{id}}/parts/{{part}}/now", refusals=("404", "409", "422", "503")
    )
    async def now(self, request: Request) -> LessonNow:
        """Tell how a part of a lesson stands: the answer to its question, whether its goal is
        reached.
        """
        lesson, _ = _lesson_of(request)
        part = _part_of(lesson, request)
        question_facts = [part.fact] if part.fact else []
        facts_found, because = await self._read_facts(lesson, (*question_facts, *part.goal))
        goal_facts = tuple(
            GoalFact(fact=fact_text(fact_words), wanted=wanted_value, found=facts_found[fact_words])
            for fact_words, wanted_value in part.goal.items()
        )
        answer_key = facts_found.get(part.fact, "")
        return LessonNow(
            answer=LessonAnswer(key=answer_key, text=part.choices.get(answer_key, answer_key))
            if part.fact
            else None,
            goal=goal_facts,
            met=bool(goal_facts)
            and all(goal_fact.found == goal_fact.wanted for goal_fact in goal_facts),
            because=because,
        )

    async def _make_ready(self, lesson: Lesson, cluster: OwnCluster) -> None:
        self._noted_by_lesson[lesson.id] = []
        for rule_id in lesson.rules():
            if self._cluster.injector.get(rule_id) is not None:
                with input_event(self._cluster.environment, "disarm-fault", rule=rule_id):
                    self._cluster.injector.disarm(rule_id)
        client_settings = ClientSettings(
            client_id=outside_view.ONLOOKER_NAME, api_timeout_ms=LOOK_TIMEOUT_MS
        )
        try:
            async with self.outside(client_settings) as cluster_client:
                admin = Admin(cluster_client)
                for topic_name, topic_error in (
                    await admin.delete_topics(list(cluster.topics))
                ).items():
                    if (
                        topic_error
                        and topic_error.error is not ErrorCode.unknown_topic_or_partition
                    ):
                        raise RefusedError(409, f"topic {topic_name} is not deleted: {topic_error}")
                for topic_name, partition_count in cluster.topics.items():
                    await admin.create_topic(topic_name, partitions=partition_count)
        except ClientError as topic_error:
            raise RefusedError(503, f"the cluster did not answer: {topic_error}") from topic_error

    async def _unmet_needs(
        self, lesson: Lesson, needed_facts: Mapping[str, str]
    ) -> Mapping[str, str]:
        """The needs of a lesson that the cluster does not meet within ``NEEDS_WAIT_S``. A cluster
        that was loaded from disks still sends the markers that its coordinators owe.
        """
        for _ in range(int(NEEDS_WAIT_S / NEEDS_POLL_S)):
            found_facts, _ = await self._read_facts(lesson, needed_facts)
            unmet_needs = {
                fact_words: wanted_value
                for fact_words, wanted_value in needed_facts.items()
                if found_facts[fact_words] != wanted_value
            }
            if not unmet_needs:
                break
            await asyncio.sleep(NEEDS_POLL_S)
        return unmet_needs

    async def _read_facts(
        self, lesson: Lesson, asked_facts: Iterable[str]
    ) -> tuple[Mapping[str, str], tuple[str, ...]]:
        """Facts by name, or the reason why one is unknown; and the findings of the judges."""
        fact_names = tuple(asked_facts)
        history, because = await self._look_at_partitions(lesson, fact_names)
        trace_pieces = self._cluster.environment.tracer.pieces()
        read_facts = partial(
            _facts_of_trace,
            trace_pieces,
            [fact_name for fact_name in fact_names if is_fact(fact_name)],
        )
        facts = await WorkThread.run_beside(read_facts)
        seen_facts = {
            fact_name: seen_fact(history, fact_name)
            for fact_name in fact_names
            if is_outside_fact(fact_name)
        }
        return facts | seen_facts, because

    async def _look_at_partitions(
        self, lesson: Lesson, fact_names: tuple[str, ...]
    ) -> tuple[History, tuple[str, ...]]:
        """The observations of the learner's client, followed by those of an onlooker."""
        environment = self._cluster.environment
        look_recorder = recorder.Recorder(environment.clock)
        partitions = [
            self.partition(fact_partition.topic, fact_partition.partition)
            for fact_partition in places_of_facts(fact_names)
        ]
        client_settings = ClientSettings(
            client_id=outside_view.ONLOOKER_NAME, api_timeout_ms=LOOK_TIMEOUT_MS
        )
        try:
            if partitions:
                async with self.outside(client_settings) as onlooker_cluster:
                    for partition in partitions:
                        await outside_view.observe_partition(
                            onlooker_cluster, partition, look_recorder
                        )
            history = History((*self._noted_by_lesson.get(lesson.id, ()), *look_recorder.history))
            verdicts = [judge_topic(history, partition.topic) for partition in partitions]
        except ClientError as error:
            raise RefusedError(503, f"the onlooker was not answered: {error}") from error
        except HistoryError as error:
            raise RefusedError(
                422, f"your client's observations are no valid history: {error}"
            ) from None
        return history, tuple(
            f"{anomaly.kind}: {anomaly.because}"
            for verdict in verdicts
            for anomaly in verdict.anomalies
        )


def _facts_of_trace(trace_pieces: Iterable[bytes], fact_names: list[str]) -> dict[str, str]:
    """Facts of the cluster's trace; the error text for facts that the trace lacks."""
    if not fact_names:
        return {}
    recording = Recording.from_lines("the cluster's trace", b"".join(trace_pieces).splitlines())
    fact_by_name: dict[str, str] = {}
    for fact_name in fact_names:
        try:
            fact_by_name[fact_name] = fact(recording, fact_name)
        except BadInputError as error:
            fact_by_name[fact_name] = str(error)
    return fact_by_name


def _lesson_of(request: Request) -> tuple[Lesson, OwnCluster]:
    lesson = lesson_of(str(request.path_params["id"]))
    if lesson.cluster is None:
        raise RefusedError(409, f"{lesson.id} is played in a run of its story: POST {PREFIX}/runs")
    return lesson, lesson.cluster


def _part_of(lesson: Lesson, request: Request) -> Part:
    part_number = digits_of(str(request.path_params["part"]))
    if part_number is None or part_number >= len(lesson.parts):
        raise RefusedError(404, f"{lesson.id} has no such part")
    return lesson.parts[part_number]
