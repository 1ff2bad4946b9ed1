"""Immutable cluster metadata: brokers, topics, leaders, epochs, features, dynamic configs.

Every change makes a new ``ClusterImage``; brokers compare the old with the new to find out what
they lead now. Decisions are made in ``controller.controller``. Kafka's counterpart: MetadataImage
and KRaftMetadataCache.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from txnsim.security.acls import NO_ACLS, Acls
from txnsim.security.scram import Credentials
from txnsim.types import BrokerId, LeaderEpoch, TopicPartition

NO_LEADER: Final = BrokerId(-1)
TRANSACTION_VERSION: Final = "transaction.version"
METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
"""The feature that is stored in a control record of its own; absent at level 0."""
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
CLIENT_LISTENER: Final = "PLAINTEXT"
"""Name of the listener that every broker has; its address is ``host`` and ``port``."""


class BrokerImage(msgspec.Struct, frozen=True, kw_only=True):
    """A registered broker as clients see it."""

    broker_id: BrokerId
    epoch: int
    host: str
    port: int
    rack: str | None = None
    alive: bool = True
    """Whether it is unfenced."""
    in_controlled_shutdown: bool = False
    """Whether it is in controlled shutdown, when it leads no partition and is in no ISR."""
    has_failed_directory: bool = False
    """Whether its log directory is offline: the broker is alive, but none of its replicas can be
    served.
    """
    incarnation_id: uuid.UUID | None = None
    """Id of the process; None for brokers that a cluster is formatted with."""
    addresses: Mapping[str, tuple[str, int]] = {}
    """Listener name -> host and port, for listeners other than the first."""

    def address(self, listener: str) -> tuple[str, int]:
        """Host and port of the listener of that name (BrokerRegistration.node)."""
        return (self.host, self.port) if listener == CLIENT_LISTENER else self.addresses[listener]


class PartitionImage(msgspec.Struct, frozen=True, kw_only=True):
    """The leader of a partition, its leader epoch, and the replicas."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...] = ()
    """Eligible leader replicas: not in the ISR, but known to have every committed record, because
    the ISR was below its minimum when they left (KIP-966).
    """
    last_known_elr: tuple[BrokerId, ...] = ()
    """The last leader of a leaderless partition, elected as a last resort (KIP-966)."""
    is_recovering: bool = False
    """Whether an unclean election took place whose leader has not reported its recovery yet
    (KIP-704).
    """
    removing: tuple[BrokerId, ...] = ()
    """Replicas that a reassignment removes when it completes (KIP-455)."""
    adding: tuple[BrokerId, ...] = ()
    """Replicas that a reassignment has added: it completes when they are in sync."""

    @property
    def is_reassigning(self) -> bool:
        """Whether a reassignment is in progress (PartitionReassignmentReplicas)."""
        return bool(self.removing or self.adding)


class TopicImage(msgspec.Struct, frozen=True, kw_only=True):
    """A topic: its id, its partitions by index, and its own configs."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = {}
    is_internal: bool = False


class Topics(dict[str, TopicImage]):
    """The topics of an image by name. They know the difference from the topics that they were made
    from, so that a change of one topic does not require a look at all others (Kafka's TopicsDelta).
    """

    __slots__ = ("_before", "_changed_names", "_mark")

    def __init__(
        self,
        topics: Mapping[str, TopicImage],
        *,
        old_topics: Mapping[str, TopicImage] | None = None,
        changed_names: tuple[str, ...] = (),
    ) -> None:
        """Copy the topics, and note the old ones and the changed names."""
        super().__init__(topics)
        self._mark = object()
        self._before = old_topics._mark if isinstance(old_topics, Topics) else None
        self._changed_names = changed_names

    def changed_since(self, old_topics: Mapping[str, TopicImage]) -> tuple[str, ...]:
        """Names of deleted topics, then of new or changed topics in order."""
        if isinstance(old_topics, Topics) and old_topics._mark is self._before:
            return self._changed_names
        return (
            *(topic_name for topic_name in old_topics if topic_name not in self),
            *(
                topic_name
                for topic_name, topic in self.items()
                if old_topics.get(topic_name) is not topic
            ),
        )


class ClusterImage(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata at one point of the metadata log. The mappings are never changed in place."""

    cluster_id: str
    offset: int = 0
    """Position in the metadata log, which grows with every change; FinalizedFeaturesEpoch is
    derived from it.
    """
    brokers: Mapping[BrokerId, BrokerImage] = {}
    topics: Mapping[str, TopicImage] = {}
    topic_names: Mapping[uuid.UUID, str] = {}
    features: Mapping[str, int] = {}
    """Finalized feature levels, including level 0."""
    features_epoch: int = 0
    broker_configs: Mapping[str, Mapping[str, str]] = {}
    """Dynamic configs by broker name; ``""`` has the cluster-wide defaults."""
    group_configs: Mapping[str, Mapping[str, str]] = {}
    """Configs by group, for groups that have some."""
    client_metrics: Mapping[str, Mapping[str, str]] = {}
    """Subscriptions to client metrics by name (KIP-714)."""
    client_quotas: Mapping[tuple[tuple[str, str | None], ...], Mapping[str, float]] = {}
    """Quotas by their entity (``metadata.quotas``)."""
    acls: Acls = NO_ACLS
    """All ACLs (AclsImage)."""
    scram: Credentials = {}
    """SCRAM credentials by user and mechanism (ScramImage)."""

    # Queries

    def partition(self, topic_partition: TopicPartition) -> PartitionImage | None:
        """The partition's image; None if topic or index does not exist."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]

    def existing_topics(self, topic_names: AbstractSet[str] | Mapping[str, object]) -> list[str]:
        """The names that existing topics have; iterates over the smaller side."""
        image_topics = self.topics
        if len(topic_names) > len(image_topics):
            return [topic_name for topic_name in image_topics if topic_name in topic_names]
        return [topic_name for topic_name in topic_names if topic_name in image_topics]

    def topic_by_id(self, topic_id: uuid.UUID) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def alive_brokers(self) -> tuple[BrokerImage, ...]:
        """Unfenced brokers, sorted by id."""
        return tuple(
            broker
            for _, broker in sorted(self.brokers.items())
            if broker.alive and broker.port >= 0
        )

    def fenced_brokers(self) -> tuple[BrokerImage, ...]:
        """Registered but fenced brokers, sorted by id."""
        return tuple(broker for _, broker in sorted(self.brokers.items()) if not broker.alive)

    def is_alive(self, broker_id: BrokerId) -> bool:
        """Whether that broker is registered and unfenced."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.alive

    def is_active(self, broker_id: BrokerId) -> bool:
        """Whether that broker may lead and be in an ISR (ClusterControlManager.isActive), and its
        directory is online (ReplicationControlManager.LeaderAcceptor).
        """
        broker = self.brokers.get(broker_id)
        return (
            broker is not None
            and broker.alive
            and not broker.in_controlled_shutdown
            and not broker.has_failed_directory
        )

    def is_offline(self, replica_id: BrokerId) -> bool:
        """Whether replicas on that broker can't be served (KRaftMetadataCache.isReplicaOffline)."""
        broker = self.brokers.get(replica_id)
        return broker is None or not broker.alive or broker.has_failed_directory

    def changed_topics(self, old_image: ClusterImage) -> tuple[str, ...]:
        """Names of deleted topics, then of new or changed topics."""
        topics = self.topics
        if topics is old_image.topics:
            return ()
        if not isinstance(topics, Topics):
            topics = Topics(topics)
        return topics.changed_since(old_image.topics)

    def deleted_topics(self, old_image: ClusterImage) -> tuple[TopicImage, ...]:
        """Topics of an older image that were deleted; a new topic may have the same name."""
        deleted_topics = []
        for topic_name in self.changed_topics(old_image):
            old_topic, new_topic = old_image.topics.get(topic_name), self.topics.get(topic_name)
            if old_topic is not None and (
                new_topic is None or new_topic.topic_id != old_topic.topic_id
            ):
                deleted_topics.append(old_topic)
        return tuple(deleted_topics)

    # Changes

    def with_topic(self, topic: TopicImage) -> ClusterImage:
        """The image with that topic added or replaced."""
        return self.with_topics((topic,))

    def with_topics(self, topics: Sequence[TopicImage]) -> ClusterImage:
        """The image with those topics added or replaced; itself if there are none."""
        if not topics:
            return self
        return msgspec.structs.replace(
            self,
            offset=self.offset + len(topics),
            topics=self._topics_with({topic.name: topic for topic in topics}),
            topic_names={**self.topic_names, **{topic.topic_id: topic.name for topic in topics}},
        )

    def without_topic(self, topic_name: str) -> ClusterImage:
        topics = Topics(self.topics, old_topics=self.topics, changed_names=(topic_name,))
        name_by_topic_id = dict(self.topic_names)
        del name_by_topic_id[topics.pop(topic_name).topic_id]
        return self._next_image(
            topics=topics,
            topic_names=name_by_topic_id,
        )

    def with_partition(
        self, topic_partition: TopicPartition, partition: PartitionImage
    ) -> ClusterImage:
        """The image with one partition replaced."""
        return self.with_partitions({topic_partition: partition})

    def with_partitions(
        self, changed_partitions: Mapping[TopicPartition, PartitionImage]
    ) -> ClusterImage:
        """The image with several partitions replaced, in one step."""
        if not changed_partitions:
            return self
        partitions_by_topic: dict[str, list[PartitionImage]] = {}
        for topic_partition, partition in changed_partitions.items():
            partitions = partitions_by_topic.setdefault(
                topic_partition.topic, list(self.topics[topic_partition.topic].partitions)
            )
            partitions[topic_partition.partition] = partition
        topics = {
            topic_name: msgspec.structs.replace(
                self.topics[topic_name], partitions=tuple(partitions)
            )
            for topic_name, partitions in partitions_by_topic.items()
        }
        return self._next_image(topics=self._topics_with(topics))

    def with_topic_configs(self, topic_name: str, topic_configs: Mapping[str, str]) -> ClusterImage:
        """The image with a topic's own configs replaced."""
        return self.with_topic(
            msgspec.structs.replace(self.topics[topic_name], configs=dict(topic_configs))
        )

    def with_broker(self, broker: BrokerImage) -> ClusterImage:
        """The image with that broker added or replaced."""
        return self._next_image(brokers={**self.brokers, broker.broker_id: broker})

    def with_feature(self, feature_name: str, level: int) -> ClusterImage:
        """The image with a finalized feature level, and a higher features' epoch."""
        return self._next_image(
            features={**self.features, feature_name: level},
            features_epoch=self.offset + 1,
        )

    def with_broker_configs(self, scope: str, configs: Mapping[str, str]) -> ClusterImage:
        """The image with the dynamic configs of one broker (``""`` for cluster-wide ones)
        replaced.
        """
        return self._next_image(broker_configs={**self.broker_configs, scope: dict(configs)})

    def with_group_configs(
        self, group_id: str, configs: Mapping[str, str], *, keeps_empty: bool = False
    ) -> ClusterImage:
        """The image with a group's configs replaced; a group without configs is removed unless
        ``keeps_empty``.
        """
        changed_configs = _with_configs(self.group_configs, group_id, configs)
        if keeps_empty and group_id in self.group_configs:
            changed_configs.setdefault(group_id, {})
        return self._next_image(group_configs=changed_configs)

    def with_client_metrics(
        self, subscription_name: str, configs: Mapping[str, str]
    ) -> ClusterImage:
        """The image with one subscription replaced; without configs it is removed."""
        return self._next_image(
            client_metrics=_with_configs(self.client_metrics, subscription_name, configs)
        )

    def with_client_quotas(
        self, changed_quotas: Mapping[tuple[tuple[str, str | None], ...], Mapping[str, float]]
    ) -> ClusterImage:
        """The image with the quotas of these entities replaced; an entity without quotas is
        removed.
        """
        limits_by_entity = dict(self.client_quotas)
        for entity in changed_quotas:
            limits_by_entity.pop(entity, None)
        limits_by_entity.update(
            {
                entity: dict(entity_quotas)
                for entity, entity_quotas in changed_quotas.items()
                if entity_quotas
            }
        )
        return msgspec.structs.replace(
            self, offset=self.offset + len(changed_quotas), client_quotas=limits_by_entity
        )

    def with_acls(self, acls: Acls) -> ClusterImage:
        """The image with these ACLs; the same object if nothing changes."""
        if acls is self.acls:
            return self
        return self._next_image(acls=acls)

    def with_scram(self, scram: Credentials) -> ClusterImage:
        return self._next_image(scram=scram)

    def _topics_with(self, topics: Mapping[str, TopicImage]) -> Topics:
        """All topics, with these added or replaced."""
        # Of several that are replaced the order is that of all.
        is_in_order = len(topics) == 1 or not topics.keys() & self.topics.keys()
        all_topics = Topics(
            self.topics,
            old_topics=self.topics if is_in_order else None,
            changed_names=tuple(topics) if is_in_order else (),
        )
        all_topics.update(topics)
        return all_topics

    def _next_image(self, **changes: Any) -> ClusterImage:
        """The image at the next offset of the metadata log."""
        return msgspec.structs.replace(self, offset=self.offset + 1, **changes)


def _with_configs(
    all_configs: Mapping[str, Mapping[str, str]], owner_name: str, configs: Mapping[str, str]
) -> dict[str, Mapping[str, str]]:
    changed_configs = dict(all_configs)  # there may be tens of thousands: no loop of ours
    changed_configs.pop(owner_name, None)
    if configs:
        changed_configs[owner_name] = dict(configs)
    return changed_configs
