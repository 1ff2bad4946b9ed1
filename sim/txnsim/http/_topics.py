"""Topics through the control port: created and deleted as by CreateTopics and DeleteTopics, and
shown with the offsets of every replica whose broker runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from starlette.requests import Request

from txnsim.controller.controller import TopicToCreate
from txnsim.errors import ErrorCode, Rejection
from txnsim.http.messages import PartitionView, TopicView
from txnsim.http.operation import PREFIX, ClusterNoun, Operation
from txnsim.http.replies import Body, Listing, RefusedError
from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.image import PartitionImage, TopicImage
from txnsim.runtime.loop_turns import rest_where_due
from txnsim.server.cluster import SimCluster
from txnsim.server.user_inputs import input_event
from txnsim.types import BrokerId, TopicPartition


class CreateTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Create a topic, as CreateTopics does."""

    name: str
    partitions: Annotated[int, msgspec.Meta(ge=-1, le=2_147_483_647)] = -1
    """-1 means the cluster's ``num.partitions``."""
    replication_factor: Annotated[int, msgspec.Meta(ge=-1, le=32_767)] = -1
    """-1 means the cluster's ``default.replication.factor``."""
    configs: Mapping[str, str] = {}


class ReplicaView(msgspec.Struct, frozen=True, kw_only=True):
    """A replica as its own broker sees it; without offsets if that broker does not run."""

    broker: int
    is_running: bool
    in_sync: bool
    log_start_offset: int | None = None
    last_stable_offset: int | None = None
    """``read_committed`` readers get records below it."""
    high_watermark: int | None = None
    log_end_offset: int | None = None
    size_bytes: int | None = None


class PartitionOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """A partition with the offsets of every replica."""

    partition: int
    leader: int
    """-1 if there is no leader."""
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[ReplicaView, ...]
    """In the order of the assignment."""


class TopicOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with the offsets of its replicas."""

    name: str
    id: str
    is_internal: bool
    configs: Mapping[str, str]
    """Configs that the topic overrides; all others have the cluster's value."""
    partitions: tuple[PartitionOffsets, ...]


class TopicRoutes(ClusterNoun):
    """Routes that create, change and describe topics of one cluster."""

    @Operation("get", f"{PREFIX}/topics")
    async def topics(self, _request: Request) -> Listing[TopicView]:
        """Every topic with leaders, ISR, ELR and epochs, as the controller knows it."""
        image = self._cluster.metadata.image
        return self._listing(topic_view(topic) for _, topic in sorted(image.topics.items()))

    @Operation("post", f"{PREFIX}/topics", status="201", refusals=("409", "422"))
    async def create(self, _request: Request, body: Body[CreateTopic]) -> TopicView:
        """Create a topic, as CreateTopics does."""
        topic_body = await body.read()
        environment = self._cluster.environment
        topic_fields = {
            "topic": topic_body.name,
            "partitions": topic_body.partitions,
            "replication_factor": topic_body.replication_factor,
            "configs": dict(topic_body.configs) or None,
        }
        with input_event(environment, "create-topic", **topic_fields):
            topic_image = self._cluster.metadata.create_topic(
                TopicToCreate(
                    name=topic_body.name,
                    partition_count=topic_body.partitions,
                    replication_factor=topic_body.replication_factor,
                    configs=dict(topic_body.configs),
                )
            )
        if isinstance(topic_image, Rejection):
            status = 409 if topic_image.error is ErrorCode.topic_already_exists else 422
            raise RefusedError(status, f"{topic_image.error.name.upper()}: {topic_image.reason}")
        return topic_view(topic_image)

    @Operation("get", f"{PREFIX}/topics/{{topic}}", refusals=("404",))
    async def describe(self, request: Request) -> TopicOffsets:
        """One topic with log start, last stable offset, high watermark and log end per replica."""
        topic = self._topic_image(request)
        pace, partition_views = self._pace(), []
        for index, partition in enumerate(topic.partitions):
            partition_views.append(
                self._partition_offsets(TopicPartition(topic.name, index), partition)
            )
            await rest_where_due(pace, 1 + len(partition.replicas))
        return TopicOffsets(
            name=topic.name,
            id=str(topic.topic_id),
            is_internal=topic.is_internal,
            configs=dict(sorted(topic.configs.items())),
            partitions=tuple(partition_views),
        )

    @Operation("delete", f"{PREFIX}/topics/{{topic}}", refusals=("404",))
    async def delete(self, request: Request) -> TopicView:
        """Delete a topic with all of its records, as DeleteTopics does."""
        topic = self._topic_image(request)
        metadata = self._cluster.metadata
        with input_event(self._cluster.environment, "delete-topic", topic=topic.name):
            metadata.publish(metadata.image.without_topic(topic.name))
        return topic_view(topic)

    def _topic_image(self, request: Request) -> TopicImage:
        return topic_of(self._cluster, str(request.path_params["topic"]))

    def _partition_offsets(
        self, topic_partition: TopicPartition, partition: PartitionImage
    ) -> PartitionOffsets:
        return PartitionOffsets(
            partition=topic_partition.partition,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=partition.isr,
            replicas=tuple(
                self._replica_view(
                    topic_partition, broker_id, is_in_sync=broker_id in partition.isr
                )
                for broker_id in partition.replicas
            ),
        )

    def _replica_view(
        self, topic_partition: TopicPartition, broker_id: BrokerId, *, is_in_sync: bool
    ) -> ReplicaView:
        log = replica_log(self._cluster, topic_partition, broker_id)
        if log is None:
            is_running = broker_id in self._cluster.brokers
            return ReplicaView(broker=broker_id, is_running=is_running, in_sync=is_in_sync)
        return ReplicaView(
            broker=broker_id,
            is_running=True,
            in_sync=is_in_sync,
            log_start_offset=log.log_start_offset,
            last_stable_offset=log.last_stable_offset,
            high_watermark=log.high_watermark,
            log_end_offset=log.log_end_offset,
            size_bytes=log.local.segments.size_bytes,
        )


def replica_log(
    cluster: SimCluster, topic_partition: TopicPartition, broker_id: BrokerId
) -> PartitionLog | None:
    """A replica's log; None if the broker is down or has not created the log yet."""
    broker = cluster.brokers.get(broker_id)
    if broker is None:
        return None
    log = broker.replicas.replica_log(topic_partition)
    return None if isinstance(log, Rejection) else log


def topic_of(cluster: SimCluster, topic_name: str) -> TopicImage:
    """A topic by its name.

    Raises:
        RefusedError: There is no such topic.
    """
    topic = cluster.metadata.image.topics.get(topic_name)
    if topic is None:
        raise RefusedError(404, f"there is no topic {topic_name!r}; GET {PREFIX}/topics lists them")
    return topic


def known_partition(cluster: SimCluster, topic_partition: TopicPartition) -> PartitionImage:
    """The controller's state of an existing partition."""
    partition_image = cluster.metadata.image.partition(topic_partition)
    assert partition_image is not None
    return partition_image


def topic_view(topic: TopicImage) -> TopicView:
    """A topic as the control port shows it."""
    return TopicView(
        name=topic.name,
        id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            partition_view(index, partition) for index, partition in enumerate(topic.partitions)
        ),
    )


def partition_view(index: int, partition: PartitionImage) -> PartitionView:
    """A partition as the control port shows it."""
    return PartitionView(
        partition=index,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        replicas=partition.replicas,
        isr=partition.isr,
        elr=partition.elr,
        last_known_elr=partition.last_known_elr,
    )
