"""Lessons on the cluster itself: made ready, told what the learner's client saw, asked whether a
goal is reached.

What a lesson asks is a fact of the cluster's own trace, or of what clients saw: the learner's,
which notes it here, and an onlooker, who reads over the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.requests import Request

from txnsim.client.admin import Admin
from txnsim.client.connection import ClientSettings
from txnsim.errors import BadInputError, ClientError, ErrorCode
from txnsim.extensions import OnDemand
from txnsim.http.operation import PREFIX, ClusterNoun, Operation
from txnsim.http.replies import Body, RefusedError, digits_of
from txnsim.http.work_thread import WorkThread
from txnsim.server.cluster import SimCluster
from txnsim.server.inputs import input_event
from txnsim.trace.reading import Recording
from txnsim_lab.check.history import History, HistoryError
from txnsim_lab.check.observations import Seen
from txnsim_lab.http._judging import LOOK_TIMEOUT_MS
from txnsim_lab.http._runs.lessons import LessonAnswer, lesson_of
from txnsim_lab.scenario.teaching.facts import fact, in_words, is_fact
from txnsim_lab.scenario.teaching.lessons import Lesson, OwnCluster, Part
from txnsim_lab.scenario.teaching.seen import is_seen, judged, places, seen_fact

if TYPE_CHECKING:
    from txnsim_lab.scenario import onlooker, recorder
else:
    onlooker = OnDemand("txnsim_lab.scenario.onlooker")
    recorder = OnDemand("txnsim_lab.scenario.recorder")

NOTED_MAX: Final = 10_000
"""Maximum number of observations of a lesson; a runaway client exceeds it."""


class LessonBegin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make a lesson ready."""

    part: int = 0
    """Part to continue from; part 0 recreates the topics."""


class LessonPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a lesson is played."""

    bootstrap: str


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """The observations of the learner's client."""

    observations: int


class GoalFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact on which a goal depends."""

    fact: str
    """In words."""
    wanted: str
    found: str


class LessonNow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a part of a lesson on the present cluster."""

    answer: LessonAnswer | None
    """To its question."""
    goal: tuple[GoalFact, ...]
    met: bool
    """Whether the part has a goal and has reached it."""
    because: tuple[str, ...]


class OwnClusterRoutes(ClusterNoun):
    """The routes over one cluster."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster)
        self._noted: dict[str, list[Seen]] = {}
        """Lesson -> what the learner's client saw."""

    @Operation("post", f"{PREFIX}/lessons/{{id}}/begin", refusals=("404", "409", "422", "503"))
    async def begin(self, request: Request, body: Body[LessonBegin]) -> LessonPlace:
        """Make a lesson ready on this cluster: its topics anew, none of its fault rules in force,
        nothing noted. Refused where the cluster lacks what the lesson needs.
        """
        one, cluster = _lesson_of(request)
        if (await body.read()).part == 0:
            found, _ = await self._found(one, cluster.needs)
            lacks = {
                words: wanted for words, wanted in cluster.needs.items() if found[words] != wanted
            }
            if lacks:
                listed = "; ".join(f"{in_words(words)}: {lacks[words]}" for words in lacks)
                raise RefusedError(
                    409,
                    f"{one.id} can't be played on this cluster, which lacks: {listed}. "
                    f"`txnsim lesson {one.id}` starts one, with its page",
                )
            await self._make_ready(one, cluster)
        return LessonPlace(bootstrap=self._cluster.bootstrap.split(",")[0])

    @Operation("post", f"{PREFIX}/lessons/{{id}}/seen", refusals=("404", "409", "413", "422"))
    async def seen(self, request: Request, body: Body[list[Seen]]) -> Noted:
        """Note what the learner's client saw, in order: observations of docs/checkers.md."""
        one, _ = _lesson_of(request)
        noted = self._noted.setdefault(one.id, [])
        more = await body.read()
        if len(noted) + len(more) > NOTED_MAX:
            raise RefusedError(413, f"a lesson takes at most {NOTED_MAX} observations")
        noted += more
        return Noted(observations=len(noted))

    @Operation(
        "get", f"{PREFIX}/lessons/{{id}}/parts/{{part}}/now", refusals=("404", "409", "422", "503")
    )
    async def now(self, request: Request) -> LessonNow:
        """What a part of a lesson comes to now: the answer to its question, whether its goal is
        reached.
        """
        one, _ = _lesson_of(request)
        part = _part_of(one, request)
        asked = [part.fact] if part.fact else []
        found, because = await self._found(one, (*asked, *part.goal))
        goal = tuple(
            GoalFact(fact=in_words(words), wanted=wanted, found=found[words])
            for words, wanted in part.goal.items()
        )
        key = found.get(part.fact, "")
        return LessonNow(
            answer=LessonAnswer(key=key, text=part.choices.get(key, key)) if part.fact else None,
            goal=goal,
            met=bool(goal) and all(each.found == each.wanted for each in goal),
            because=because,
        )

    async def _make_ready(self, one: Lesson, cluster: OwnCluster) -> None:
        self._noted[one.id] = []
        for rule in one.rules():
            if self._cluster.injector.get(rule) is not None:
                with input_event(self._cluster.environment, "disarm-fault", rule=rule):
                    self._cluster.injector.disarm(rule)
        settings = ClientSettings(client_id=onlooker.ONLOOKER, api_timeout_ms=LOOK_TIMEOUT_MS)
        try:
            async with self.outside(settings) as outside:
                admin = Admin(outside)
                for name, error in (await admin.delete_topics(list(cluster.topics))).items():
                    if error and error.error is not ErrorCode.unknown_topic_or_partition:
                        raise RefusedError(409, f"topic {name} is not deleted: {error}")
                for name, partitions in cluster.topics.items():
                    await admin.create_topic(name, partitions=partitions)
        except ClientError as error:
            raise RefusedError(503, f"the cluster did not answer: {error}") from error

    async def _found(
        self, one: Lesson, wanted: Iterable[str]
    ) -> tuple[Mapping[str, str], tuple[str, ...]]:
        """Facts by name, or why unknown; and the findings of the judges."""
        words = tuple(wanted)
        history, because = await self._looked(one, words)
        pieces = self._cluster.environment.tracer.pieces()
        reading = partial(_of_trace, pieces, [each for each in words if is_fact(each)])
        found = await WorkThread.beside(reading)
        seen = {each: seen_fact(history, each) for each in words if is_seen(each)}
        return found | seen, because

    async def _looked(self, one: Lesson, words: tuple[str, ...]) -> tuple[History, tuple[str, ...]]:
        """What the learner's client has noted, then what an onlooker sees."""
        environment = self._cluster.environment
        notes = recorder.Recorder(environment.clock)
        wanted = [self.partition(one.topic, one.partition) for one in places(words)]
        settings = ClientSettings(client_id=onlooker.ONLOOKER, api_timeout_ms=LOOK_TIMEOUT_MS)
        try:
            if wanted:
                async with self.outside(settings) as outside:
                    for place in wanted:
                        await onlooker.look(outside, place, notes)
            history = History((*self._noted.get(one.id, ()), *notes.history))
            verdicts = [judged(history, place.topic) for place in wanted]
        except ClientError as error:
            raise RefusedError(503, f"the onlooker was not answered: {error}") from error
        except HistoryError as error:
            raise RefusedError(422, f"what your client has noted is no history: {error}") from None
        return history, tuple(
            f"{anomaly.kind}: {anomaly.because}" for each in verdicts for anomaly in each.anomalies
        )


def _of_trace(pieces: Iterable[bytes], words: list[str]) -> dict[str, str]:
    """Facts of the cluster's trace; the error text for facts that the trace lacks."""
    if not words:
        return {}
    run = Recording.of("the cluster's trace", b"".join(pieces).splitlines())
    found: dict[str, str] = {}
    for each in words:
        try:
            found[each] = fact(run, each)
        except BadInputError as error:
            found[each] = str(error)
    return found


def _lesson_of(request: Request) -> tuple[Lesson, OwnCluster]:
    one = lesson_of(str(request.path_params["id"]))
    if one.cluster is None:
        raise RefusedError(409, f"{one.id} is played in a run of its story: POST {PREFIX}/runs")
    return one, one.cluster


def _part_of(one: Lesson, request: Request) -> Part:
    number = digits_of(str(request.path_params["part"]))
    if number is None or number >= len(one.parts):
        raise RefusedError(404, f"{one.id} has no such part")
    return one.parts[number]
