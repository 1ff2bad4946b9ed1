"""Histories through the control port: an onlooker for tests in other languages, and the judges.

A test notes what its clients saw in the words of ``txnsim_lab.check.observations``. What a
client library does not tell (who has a transaction open, what coordinators list, the last
stable offset) an onlooker sees for it, over the wire as everybody; the judges know nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Self

import msgspec
from starlette.requests import Request

from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.operator_login import operator_login
from txnsim.http.operation import PREFIX, Noun, Operation
from txnsim.http.replies import Body, RefusedError
from txnsim.http.topics import partition_of
from txnsim.on_demand import OnDemand
from txnsim.runtime.env import Environment
from txnsim.server.cluster import SimCluster
from txnsim.settings import Settings
from txnsim.types import TopicPartition
from txnsim_lab.check.history import History, HistoryError
from txnsim_lab.check.observations import Seen
from txnsim_lab.scenario.onlooker import ONLOOKER, look
from txnsim_lab.scenario.recorder import Recorder

if TYPE_CHECKING:
    from txnsim_lab.check import judge as judges
else:
    judges = OnDemand("txnsim_lab.check.judge")

LOOK_TIMEOUT_MS: Final = 10_000


class Look(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Look at a partition."""

    topic: str
    partition: int
    offset: int = 0
    """Where the reading begins."""


class AnomalyView(msgspec.Struct, frozen=True, kw_only=True):
    """One conviction."""

    kind: str
    because: str
    evidence: tuple[int, ...]
    """Indexes of the observations that prove it."""


class VerdictView(msgspec.Struct, frozen=True, kw_only=True):
    """What a history comes to."""

    healthy: bool
    kinds: tuple[str, ...]
    anomalies: tuple[AnomalyView, ...]


def outside_of(cluster: SimCluster, settings: ClientSettings, *, traced: bool = False) -> Cluster:
    """A client of a simulated cluster, not connected; refuses with 503 where no broker lives.

    ``traced``: its calls are in the cluster's trace, as those of an application of ours.
    """
    environment, bootstrap = cluster.environment, cluster.bootstrap
    login = operator_login(cluster.options.security)
    if login is not None:
        bootstrap = cluster.bootstrap_of(login[0])
        settings = msgspec.structs.replace(settings, security=login[1])
    if not bootstrap:
        raise RefusedError(503, "no broker lives: POST /api/v1/brokers/1/start starts one")
    return Cluster(
        bootstrap,
        settings=settings,
        clock=environment.clock,
        tasks=environment.tasks,
        tracer=environment.tracer if traced else None,
    )


class LookedAt(Noun):
    """A check of a cluster over the wire protocol."""

    def __init__(
        self,
        environment: Environment,
        *,
        outside: Callable[[ClientSettings], Cluster],
        place_of: Callable[[str, int], TopicPartition],
        bootstrap: Callable[[], str],
        answer_max_bytes: int = Settings().answer_max_bytes,
    ) -> None:
        """Routes over a cluster, of whatever kind."""
        self._environment = environment
        self._outside = outside
        self._place_of = place_of
        self._bootstrap = bootstrap
        self._answer_max_bytes = answer_max_bytes

    @classmethod
    def of_simulated(cls, cluster: SimCluster) -> Self:
        """Over a simulated cluster."""
        return cls(
            cluster.environment,
            outside=partial(outside_of, cluster),
            place_of=partial(partition_of, cluster),
            bootstrap=lambda: cluster.bootstrap,
            answer_max_bytes=cluster.options.settings.answer_max_bytes,
        )


class JudgingRoutes(LookedAt):
    """The routes over one cluster."""

    @Operation("post", f"{PREFIX}/looks", refusals=("404", "422", "503"))
    async def look(self, _request: Request, body: Body[Look]) -> list[Seen]:
        """What an onlooker sees over the wire: open transactions of a partition, every
        transactional id, the open transactions again, and what readers get from an offset on.
        """
        wanted = await body.read()
        place = self._place_of(wanted.topic, wanted.partition)
        recorder = Recorder(self._environment.clock)
        settings = ClientSettings(client_id=ONLOOKER, api_timeout_ms=LOOK_TIMEOUT_MS)
        try:
            async with self._outside(settings) as outside:
                await look(outside, place, recorder, offset=wanted.offset)
        except ClientError as error:
            raise RefusedError(
                503,
                f"the onlooker was not answered: {error}; see GET {PREFIX}/brokers, and whether a "
                "fault without client_id strikes it",
            ) from error
        return list(recorder.history)

    @Operation("post", f"{PREFIX}/verdicts", refusals=("413", "422"))
    async def judge(self, _request: Request, body: Body[list[Seen]]) -> VerdictView:
        """What the checkers make of a history: an array of observations, in order."""
        try:
            verdict = judges.judge(History(await body.read()))
        except HistoryError as error:
            raise RefusedError(422, str(error)) from None
        return VerdictView(
            healthy=verdict.healthy,
            kinds=tuple(kind.value for kind in verdict.kinds),
            anomalies=tuple(
                AnomalyView(kind=one.kind.value, because=one.because, evidence=one.evidence)
                for one in verdict.anomalies
            ),
        )
