"""Operations that ask the cluster over the wire, as any client does: a simulated cluster, or one
behind a proxy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Self

import msgspec

from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.operator_login import operator_login
from txnsim.http.operation import Noun
from txnsim.http.replies import RefusedError
from txnsim.http.topics import partition_of
from txnsim.runtime.env import Environment
from txnsim.server.cluster import SimCluster
from txnsim.settings import Settings
from txnsim.types import TopicPartition


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


class WireNoun(Noun):
    """A noun whose operations have a client of the cluster."""

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
