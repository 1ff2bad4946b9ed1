"""The metadata log as one object: who publishes images, and who is told.

The shell around ``cluster.controller``: it holds the current image, draws topic ids, publishes
every change to all brokers before the one who asked is answered, and hands out producer-id blocks.
Kafka's counterparts: QuorumController and MetadataLoader.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Final

from sim.cluster import controller
from sim.cluster.controller import NewTopic
from sim.cluster.image import ClusterImage, TopicImage
from sim.cluster.isr_requests import decide_alter_partition
from sim.cluster.peers import ALLOCATE_PRODUCER_IDS, ALTER_PARTITION
from sim.errors import InvariantViolation, Rejection
from sim.releases import Fleet
from sim.settings import Settings
from sim.txn.producer_ids import ProducerIdAllocator
from sim.types import (
    INTERNAL_TOPICS,
    AllocateProducerIdsCommand,
    AlterPartitionCommand,
    BrokerId,
)

DEVIATIONS: Final = (
    "The controller is one object without a quorum: a change is visible on every broker before it "
    "is answered.",
)


class Metadata:
    """The cluster's metadata: one image, many subscribers."""

    __slots__ = ("_producer_ids", "_random_bits", "_subscribers", "fleet", "image", "settings")

    def __init__(
        self,
        *,
        image: ClusterImage,
        settings: Settings,
        random_bits: Callable[[int], int],
        fleet: Fleet | None = None,
    ) -> None:
        self.fleet = fleet or Fleet()
        """Which broker runs which release."""
        self.image = image
        self.settings = settings
        self._random_bits = random_bits
        self._producer_ids = ProducerIdAllocator()
        self._subscribers: list[Callable[[ClusterImage], None]] = []

    def subscribe(self, subscriber: Callable[[ClusterImage], None]) -> None:
        """Tell ``subscriber`` of every image from now on."""
        self._subscribers.append(subscriber)

    def publish(self, image: ClusterImage) -> None:
        """Make ``image`` the current one and tell everybody, in order of subscription."""
        if image is self.image:
            return
        self.image = image
        for subscriber in self._subscribers:
            subscriber(image)

    # Topics

    def new_topic_id(self) -> uuid.UUID:
        """A random (version 4) topic id from the cluster's own stream of chance."""
        return uuid.UUID(int=self._random_bits(128), version=4)

    def create_topic(self, wanted: NewTopic) -> TopicImage | Rejection:
        """Create one topic and publish it."""
        topic = controller.create_topic(
            self.image, wanted, settings=self.settings, new_topic_id=self.new_topic_id
        )
        if isinstance(topic, TopicImage):
            self.publish(self.image.with_topic(topic))
        return topic

    def auto_create(self, name: str) -> TopicImage | Rejection:
        """Create a topic that somebody asked for by name, with its own settings where it is
        internal.
        """
        wanted = (
            controller.internal_topic(name, image=self.image, settings=self.settings)
            if name in INTERNAL_TOPICS
            else NewTopic(name=name)
        )
        return self.create_topic(wanted)

    # Peers

    async def handle_peer(
        self, api_key: int, api_version: int, command: object, _source: BrokerId
    ) -> object:
        """What brokers ask of the controller: blocks of producer ids, changes of an ISR."""
        if isinstance(command, AlterPartitionCommand) and api_key == ALTER_PARTITION:
            outcome = decide_alter_partition(self.image, command, self.settings)
            self.publish(outcome.image)
            return outcome.reply
        if api_key != ALLOCATE_PRODUCER_IDS or not isinstance(command, AllocateProducerIdsCommand):
            raise InvariantViolation(f"the controller has no API {api_key} v{api_version}")
        broker = self.image.brokers.get(command.broker_id)
        self._producer_ids, reply = self._producer_ids.allocate(
            command, broker_epoch=None if broker is None else broker.epoch
        )
        return reply
