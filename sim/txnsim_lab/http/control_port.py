"""What the lab adds to the control port of a simulated cluster (``txnsim.http._app``)."""

from __future__ import annotations

from typing import Final, Protocol

from starlette.routing import Route

from txnsim.http.operation import Noun
from txnsim.server.cluster import SimCluster
from txnsim_lab.http._explaining import ExplainRoutes
from txnsim_lab.http._judging import JudgingRoutes
from txnsim_lab.http._practising import PractiseRoutes
from txnsim_lab.http._runs.lessons import LessonRoutes
from txnsim_lab.http._runs.own_cluster import OwnClusterRoutes
from txnsim_lab.http._runs.scenarios import ScenarioRoutes
from txnsim_lab.http.page._files import served_files
from txnsim_lab.http.page._routes import StaticRoutes
from txnsim_lab.scenario.forked_processes import ForkServer

NOUNS: Final[tuple[type[Noun], ...]] = (
    ExplainRoutes,
    PractiseRoutes,
    JudgingRoutes,
    ScenarioRoutes,
    LessonRoutes,
    OwnClusterRoutes,
)
"""The classes whose operations the OpenAPI document lists."""


class _HasRoutes(Protocol):
    def routes(self) -> list[Route]: ...


class LabRoutes:
    """The lab's routes over one cluster."""

    def __init__(self, cluster: SimCluster, fork_server: ForkServer | None) -> None:
        self._cluster = cluster
        self._scenarios = ScenarioRoutes(cluster.environment, fork_server)
        self._explain = ExplainRoutes(
            cluster.environment.tracer, cluster.bootstrap, self._scenarios.trace_of
        )

    def nouns(self) -> tuple[_HasRoutes, ...]:
        cluster = self._cluster
        return (
            JudgingRoutes.of_simulated(cluster),
            self._scenarios,
            self._explain,
            PractiseRoutes(cluster),
            LessonRoutes(self._scenarios.trace_of, self._scenarios.warm_up),
            OwnClusterRoutes(cluster),
            StaticRoutes(self._scenarios.warm_up),
        )

    @property
    def traced(self) -> ExplainRoutes:
        """What the cluster's own trace tells, for the verdict on it."""
        return self._explain

    def warm_up(self) -> None:
        served_files()
        self._scenarios.warm_up()

    def close(self) -> None:
        self._scenarios.close()
        self._explain.close()
