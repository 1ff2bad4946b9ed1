"""Actions of fault rules on a whole cluster.

This module carries actions out in this cluster, and undoes them; the injector decides when
(``injection.injector``).

Meaning of the actions:

- **partition**: links between groups are cut in both directions, as black holes. The controller is
  a node like any other, with the id 3000: a group may name it. A node that no group names reaches
  all others. Clients reach all brokers.
- **clock**: the clock is set, no time passes (``runtime.clock``).
- **fill-disk**: the next write to the broker's log directory fails with KAFKA_STORAGE_ERROR and
  takes it offline; high watermarks are noted every five seconds, so that happens soon. When the
  action is undone, there is room again, and the broker is restarted in good order if its directory
  had failed: in Kafka, too, only a restart brings it back.
- **resign-leader**: there is no leader for a moment, then the same one under a later epoch.
"""

from __future__ import annotations

from itertools import combinations
from typing import Final, Protocol, assert_never

from txnsim.controller.elections import reelect_same_leader
from txnsim.errors import ConfigError, Rejection
from txnsim.faults.cluster_actions import (
    ClockJump,
    ClusterAction,
    Crash,
    FillDisk,
    LagReplica,
    MoveLeader,
    Partition,
    ResignLeader,
)
from txnsim.injection.armed_rule import Undo
from txnsim.loggers import Logger
from txnsim.metadata.image import PartitionImage
from txnsim.node.metadata_publisher import Metadata
from txnsim.node.peers import CONTROLLER_ID
from txnsim.runtime.environment import Environment
from txnsim.server.member import ClusterMember, MemberLifeState
from txnsim.types import BrokerId, TopicPartition

DEVIATIONS: Final = (
    "A broker whose log directory has failed goes on without its replicas, as one of Apache Kafka "
    "does that has another directory left; with its last directory that one ends itself. Replicas "
    "that are given to it meanwhile are offline, too, instead of in the other directory.",
)

_log: Final = Logger("txnsim.faults")


class ControlledCluster(Protocol):
    """The part of a cluster that faults act on (``server.cluster.SimCluster``)."""

    environment: Environment
    members: dict[BrokerId, ClusterMember]

    @property
    def metadata(self) -> Metadata:
        """The metadata of the cluster, which publishes new images to the brokers."""

    def member(self, broker_id: BrokerId) -> ClusterMember:
        """The member with that id.

        Raises:
            ConfigError: There is no such broker.
        """

    async def start_broker(self, broker_id: BrokerId) -> None:
        """Start a broker that is down."""

    async def kill_broker(self, broker_id: BrokerId, *, lose_unflushed: bool = False) -> None:
        """End a broker at once, without a controlled shutdown."""

    def move_leader(
        self, topic_partition: TopicPartition, leader: BrokerId | None = None
    ) -> BrokerId:
        """Make another in-sync replica the leader."""


class SimClusterControl:
    """Implements ``injection.injector.ClusterControl`` for one cluster."""

    __slots__ = ("_cluster", "_cut_count_by_link")

    def __init__(self, cluster: ControlledCluster) -> None:
        self._cluster = cluster
        self._cut_count_by_link: dict[tuple[BrokerId, BrokerId], int] = {}
        """Number of partition actions that cut each link; links that were cut before the first
        action are not counted.
        """

    async def carry_out(
        self, action: ClusterAction, *, struck_broker: BrokerId | None
    ) -> Undo | None:
        """Carry out an action; returns a function that ends it, if it lasts.

        Raises:
            ConfigError: There is no such broker or partition, or the action is not possible now.
        """
        match action:
            case Crash(broker=broker, lose_unflushed=lose_unflushed):
                return await self.crash(
                    _broker_of(broker, struck_broker), lose_unflushed=lose_unflushed
                )
            case MoveLeader(topic=topic, partition=index, to=to):
                leader = None if to is None else BrokerId(to)
                await self.move_leader(TopicPartition(topic, index), new_leader=leader)
                return None
            case ResignLeader(topic=topic, partition=index):
                await self.resign_leader(TopicPartition(topic, index))
                return None
            case Partition(groups=groups):
                return await self.partition(
                    tuple(tuple(map(BrokerId, node_group)) for node_group in groups)
                )
            case ClockJump(by_ms=by_ms, broker=broker):
                clock_broker = None if broker is None else BrokerId(broker)
                return await self.move_clock(by_ms, broker=clock_broker)
            case FillDisk(broker=broker):
                return await self.fill_disk(_broker_of(broker, struck_broker))
            case LagReplica(broker=broker, topic=topic, partition=index):
                return await self.lag_replica(BrokerId(broker), TopicPartition(topic, index))
        assert_never(action)

    # Brokers

    async def crash(self, broker: BrokerId, *, lose_unflushed: bool) -> Undo:
        """Kill a broker without a controlled shutdown; the undo starts it again.

        Raises:
            ConfigError: There is no such broker.
        """
        member = self._cluster.member(broker)
        if member.state is not MemberLifeState.DOWN:
            await self._cluster.kill_broker(broker, lose_unflushed=lose_unflushed)

        async def start_again() -> None:
            if self._is_current_member(member) and member.state is MemberLifeState.DOWN:
                await self._try_restart(member, "start it again")

        return start_again

    async def fill_disk(self, broker: BrokerId) -> Undo:
        """Leave no room on a broker's disk; the undo makes room, and restarts the broker if its log
        directory went offline.

        Raises:
            ConfigError: There is no such broker, or its disk is full already.
        """
        member = self._cluster.member(broker)
        if member.disk.is_full:
            raise ConfigError(f"the disk of broker {broker} is full already")
        member.disk.is_full = True

        async def free_disk() -> None:
            member.disk.is_full = False
            has_failed = member.disk.has_failed and member.state is MemberLifeState.RUNNING
            if has_failed and self._is_current_member(member):
                await self._try_restart(member, "restart it after its disk was full")

        return free_disk

    async def move_clock(self, by_ms: int, *, broker: BrokerId | None) -> Undo:
        """Set the clock of a broker, or of all brokers, ahead or back; the undo sets it right
        again.

        Raises:
            ConfigError: There is no such broker.
        """
        clock = (
            self._cluster.environment.clock
            if broker is None
            else self._cluster.member(broker).clock
        )
        clock.shift(by_ms)

        async def set_clock_right() -> None:
            clock.shift(-by_ms)

        return set_clock_right

    # Links

    async def partition(self, node_groups: tuple[tuple[BrokerId, ...], ...]) -> Undo:
        """Cut every link between brokers of different groups; the undo heals them.

        Raises:
            ConfigError: A group names a broker that does not exist.
        """
        for node in (node for node_group in node_groups for node in node_group):
            if node != CONTROLLER_ID:
                self._cluster.member(node)
        links = [
            link
            for node_group, other_group in combinations(node_groups, 2)
            for broker in node_group
            for other_broker in other_group
            for link in ((broker, other_broker), (other_broker, broker))
        ]
        for link in links:
            self._cut_link(link)

        async def heal_links() -> None:
            for link in links:
                self._heal(link)

        return heal_links

    def _cut_link(self, link: tuple[BrokerId, BrokerId]) -> None:
        network = self._cluster.environment.network
        if link in self._cut_count_by_link:
            self._cut_count_by_link[link] += 1
        elif network.reaches(*link):
            self._cut_count_by_link[link] = 1
            network.cut(*link)

    def _heal(self, link: tuple[BrokerId, BrokerId]) -> None:
        cut_count = self._cut_count_by_link.get(link, 0)
        if cut_count > 1:
            self._cut_count_by_link[link] = cut_count - 1
        elif cut_count == 1:
            del self._cut_count_by_link[link]
            self._cluster.environment.network.heal(*link)

    # Partitions of topics

    async def move_leader(self, partition: TopicPartition, *, new_leader: BrokerId | None) -> None:
        """Make ``new_leader`` the leader, or the first other replica in sync.

        When this returns, the brokers that the controller reaches have applied the change.

        Raises:
            ConfigError: There is no such partition or broker, or the broker can't lead, or leads
                already.
        """
        image = self._partition_image(partition)
        if new_leader is not None and self._cluster.member(new_leader).broker_id == image.leader:
            raise ConfigError(f"broker {new_leader} leads {partition} already")
        self._cluster.move_leader(partition, new_leader)

    async def resign_leader(self, partition: TopicPartition) -> None:
        """Let the leader step down and be elected again, under a later leader epoch.

        Raises:
            ConfigError: There is no such partition, or it has no live leader.
        """
        metadata = self._cluster.metadata
        resigned_images = reelect_same_leader(metadata.image, partition)
        if isinstance(resigned_images, Rejection):
            raise ConfigError(resigned_images.reason)
        for image in resigned_images:
            metadata.publish(image)

    async def lag_replica(self, broker: BrokerId, partition: TopicPartition) -> Undo:
        """Hold back a follower's Fetch requests for one partition; the undo lets it catch up.

        Raises:
            ConfigError: There is no such broker or partition, or the broker has no replica of it,
                leads it, or lags in it already.
        """
        member = self._cluster.member(broker)
        image = self._partition_image(partition)
        if broker not in image.replicas:
            replicas = ", ".join(map(str, image.replicas))
            raise ConfigError(f"broker {broker} has no replica of {partition}, only {replicas}")
        if broker == image.leader:
            raise ConfigError(f"broker {broker} leads {partition}: only a follower can lag")
        if partition in member.lagging:
            raise ConfigError(f"broker {broker} lags in {partition} already")
        member.lag(partition)

        async def catch_up() -> None:
            member.catch_up(partition)

        return catch_up

    # Parts

    def _partition_image(self, partition: TopicPartition) -> PartitionImage:
        image = self._cluster.metadata.image.partition(partition)
        if image is None:
            raise ConfigError(f"there is no partition {partition}")
        return image

    def _is_current_member(self, member: ClusterMember) -> bool:
        """Whether the member still belongs to the cluster; the cluster may have been reset
        meanwhile.
        """
        return self._cluster.members.get(member.broker_id) is member

    async def _try_restart(self, member: ClusterMember, action: str) -> None:
        """Start a broker, and stop it before if it runs; a start or kill by others meanwhile
        wins.
        """
        try:
            if member.state is MemberLifeState.RUNNING:
                await member.stop()
            await self._cluster.start_broker(member.broker_id)
        except ConfigError as error:
            _log.info("fault.not_undone", broker=member.broker_id, what=action, why=str(error))


def _broker_of(named_broker_id: int | None, struck_broker: BrokerId | None) -> BrokerId:
    broker = named_broker_id if named_broker_id is not None else struck_broker
    assert broker is not None  # a rule at the point `now` names its broker
    return BrokerId(broker)
