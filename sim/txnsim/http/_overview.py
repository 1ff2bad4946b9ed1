"""The cluster as a whole through the control port: health, overview, metrics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from txnsim import settings as settings_module
from txnsim.http.messages import Health
from txnsim.http.operation import PREFIX, ClusterNoun, Operation
from txnsim.http.replies import Listing
from txnsim.http.work_thread import WorkThread
from txnsim.on_demand_imports import OnDemand
from txnsim.runtime.loop_turns import rest_where_due
from txnsim.runtime.switch_interval import with_short_switch_interval
from txnsim.server.views.client_connections import ConnectionView, open_connections
from txnsim.server.views.metric_values import count_transactional_ids, readings
from txnsim.settings import DEFAULTS

if TYPE_CHECKING:
    from txnsim.metrics import exposition
else:
    exposition = OnDemand("txnsim.metrics.exposition")


WRITTEN_AT_ONCE: Final = 2_000
"""Number of readings that are written without a break."""


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster in brief."""

    cluster_id: str
    bootstrap: str
    """``host:port`` of every running broker, as clients use it."""
    kip_text_bootstrap: str | None
    brokers: int
    brokers_running: int
    releases: Mapping[str, str]
    """Broker -> the release of Apache Kafka that it emulates."""
    features: Mapping[str, int]
    """Finalized feature levels, including ``transaction.version``."""
    features_epoch: int
    metadata_offset: int
    """Increases with every change of the metadata."""
    topics: int
    partitions: int
    partitions_without_leader: int
    settings: Mapping[str, str]
    """Settings that differ from txnsim's defaults, by Kafka's names."""
    faults: int
    """Number of armed fault rules."""


class OverviewRoutes(ClusterNoun):
    """Routes for the health, the overview and the metrics of one cluster."""

    @Operation("get", "/healthz")
    async def health(self, _request: Request) -> Health:
        """The cluster answers."""
        cluster = self._cluster
        return Health(
            status="ok",
            brokers=len(cluster.brokers),
            bootstrap=cluster.bootstrap,
            kip_text_bootstrap=cluster.kip_text_bootstrap,
        )

    @Operation("get", "/metrics", media_type="text/plain")
    async def metrics(self, _request: Request) -> Response:
        """Metrics for Prometheus."""
        pace, all_readings = self._pace(), []
        id_counts = await count_transactional_ids(self._cluster, pace)
        for reading in readings(self._cluster, id_counts):
            all_readings.append(reading)
            await rest_where_due(pace, 1)
        if len(all_readings) <= WRITTEN_AT_ONCE:
            metrics_text = exposition.exposition(all_readings)
        else:
            metrics_text = await WorkThread.run_beside(
                partial(with_short_switch_interval, partial(exposition.exposition, all_readings))
            )
        return Response(metrics_text, media_type=exposition.CONTENT_TYPE)

    @Operation("get", f"{PREFIX}/cluster")
    async def cluster(self, _request: Request) -> ClusterView:
        """The cluster in brief: addresses, releases, features, changed settings."""
        cluster = self._cluster
        image = cluster.metadata.image
        partitions = [
            partition for topic in image.topics.values() for partition in topic.partitions
        ]
        return ClusterView(
            cluster_id=image.cluster_id,
            bootstrap=cluster.bootstrap,
            kip_text_bootstrap=cluster.kip_text_bootstrap,
            brokers=len(cluster.members),
            brokers_running=len(cluster.brokers),
            releases={
                str(broker_id): cluster.fleet.release_of(broker_id).patch_release
                for broker_id in cluster.members
            },
            features=dict(sorted(image.features.items())),
            features_epoch=image.features_epoch,
            metadata_offset=image.offset,
            topics=len(image.topics),
            partitions=len(partitions),
            partitions_without_leader=sum(partition.leader < 0 for partition in partitions),
            settings=self._changed_settings(),
            faults=len(cluster.injector.rules()),
        )

    @Operation("get", f"{PREFIX}/connections")
    async def connections(self, _request: Request) -> Listing[ConnectionView]:
        """Open connections of clients, by broker, the oldest first."""
        return self._listing(open_connections(self._cluster))

    def _changed_settings(self) -> dict[str, str]:
        cluster_settings = self._cluster.options.settings
        return {
            setting.kafka or setting_name: str(getattr(cluster_settings, setting_name))
            for setting_name, setting in settings_module.documentation().items()
            if getattr(cluster_settings, setting_name) != getattr(DEFAULTS, setting_name)
        }
