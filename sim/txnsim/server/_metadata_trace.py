"""Traces what changes in the cluster's metadata and no broker tells: a topic is deleted, or a
partition has another leader or none.

A leader traces its own beginning (``node.role``). No broker traces the end of a topic or of a
leadership. Without these events a reader of the trace would show the last state for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from txnsim.metadata.image import ClusterImage, PartitionImage, TopicImage
from txnsim.node.metadata_publisher import Metadata
from txnsim.runtime.trace import Tracer
from txnsim.types import INTERNAL_TOPICS, BrokerId, TopicPartition

CONTROLLER_NODE: Final = "controller"


class MetadataTrace:
    """Compares each image with the one before."""

    def __init__(
        self, tracer: Tracer, image: ClusterImage, is_running: Callable[[BrokerId], bool]
    ) -> None:
        self._tracer = tracer
        self._image = image
        self._runs = is_running

    @classmethod
    def follow(
        cls, tracer: Tracer, metadata: Metadata, is_running: Callable[[BrokerId], bool]
    ) -> Callable[[], None]:
        """Follow the metadata from now on; returns a function that ends it.

        Args:
            tracer: Gets the events.
            metadata: The metadata of the cluster.
            is_running: Whether a broker runs: then it tells itself that it leads a new partition.
        """
        return metadata.subscribe(cls(tracer, metadata.image, is_running).trace_changes)

    def trace_changes(self, image: ClusterImage) -> None:
        """Trace what a new image changes."""
        old_image, self._image = self._image, image
        if not self._tracer.on:
            return
        for topic_name in image.changed_topics(old_image):
            if topic_name in INTERNAL_TOPICS:
                continue
            old_topic, new_topic = old_image.topics.get(topic_name), image.topics.get(topic_name)
            if old_topic is not None and (
                new_topic is None or new_topic.topic_id != old_topic.topic_id
            ):
                event_data = {"topic": topic_name, "partitions": len(old_topic.partitions)}
                self._tracer.emit("topic.deleted", CONTROLLER_NODE, data=event_data)
                old_topic = None
            if new_topic is not None:
                self._trace_leaders(() if old_topic is None else old_topic.partitions, new_topic)

    def _trace_leaders(self, old_partitions: Sequence[PartitionImage], topic: TopicImage) -> None:
        for index, partition in enumerate(topic.partitions):
            if index >= len(old_partitions):
                is_told = not self._runs(partition.leader)
            else:
                old_partition = old_partitions[index]
                is_told = (partition.leader, partition.leader_epoch) != (
                    old_partition.leader,
                    old_partition.leader_epoch,
                )
            if is_told:
                event_data = {
                    "tp": str(TopicPartition(topic.name, index)),
                    "leader": partition.leader,
                    "epoch": partition.leader_epoch,
                    "isr": list(partition.isr),
                    "replicas": list(partition.replicas),
                }
                self._tracer.emit("leader.changed", CONTROLLER_NODE, data=event_data)
