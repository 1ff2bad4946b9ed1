"""Operations that use a client over the wire: for a simulated cluster, or one behind a proxy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.http.operation import ClusterNoun, Noun
from txnsim.runtime.environment import Environment
from txnsim.server.cluster import SimCluster
from txnsim.settings import Settings
from txnsim.types import TopicPartition


class WireNoun(Noun):
    """A noun whose operations use a client of the cluster."""

    def __init__(
        self,
        environment: Environment,
        *,
        outside: Callable[[ClientSettings], Cluster],
        place_of: Callable[[str, int], TopicPartition],
        bootstrap: Callable[[], str],
        answer_max_bytes: int = Settings().answer_max_bytes,
    ) -> None:
        """Make the routes for any kind of cluster."""
        self._environment = environment
        self._outside = outside
        self._place_of = place_of
        self._bootstrap = bootstrap
        self._answer_max_bytes = answer_max_bytes

    @classmethod
    def of_simulated(cls, cluster: SimCluster) -> Self:
        """Make the routes for a simulated cluster."""
        noun = ClusterNoun(cluster)
        return cls(
            cluster.environment,
            outside=noun.outside,
            place_of=noun.partition,
            bootstrap=lambda: cluster.bootstrap,
            answer_max_bytes=cluster.options.settings.answer_max_bytes,
        )
