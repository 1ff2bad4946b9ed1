"""Consumers in groups, from Python: as members of stories are, without a client library."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Self

from txnsim.client.cluster import Cluster
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.isolation import ConsumedRecord
from txnsim.client.members.member import GroupMember
from txnsim.client.members.membership import GroupProtocol, MemberOptions
from txnsim.testing.event_loop import ClusterLoop, in_cluster_loop
from txnsim.testing.rebuilt_cluster import ClusterPart, RebuiltCluster
from txnsim.types import TopicPartition


class MemberProgress:
    """The assignment and the positions of a group member."""

    def __init__(self, member: GroupMember) -> None:
        self.member = member

    @property
    def metadata(self) -> GroupMetadata:
        """Generation or member epoch, member id and instance id, as it would commit."""
        return self.member.metadata

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return self.member.assigned

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Next offset by partition."""
        return dict(self.member.positions)


class AsyncMember(MemberProgress):
    """A member of a group; ``join`` makes it."""

    def __init__(self, rebuilt: RebuiltCluster, cluster: Cluster, member: GroupMember) -> None:
        super().__init__(member)
        self._rebuilt = rebuilt
        self._cluster = cluster

    @property
    def cluster_loop(self) -> ClusterLoop:
        """The cluster's loop."""
        return self._rebuilt.cluster_loop

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.die()

    @in_cluster_loop
    async def poll(
        self, *, until: Collection[TopicPartition] | None = None, stable: bool = True
    ) -> tuple[ConsumedRecord, ...]:
        """Follow a rebalance, and read everything that there is now.

        Args:
            until: Go on until exactly these partitions are assigned.
            stable: Wait for positions that an open transaction may change.

        Raises:
            ClientError: Refused, or not assigned in time; ``error`` says why.
        """
        assignment = None if until is None else frozenset(until)
        polled = await self.member.poll(until=assignment, stable=stable)
        return tuple(record for _, result in polled.fetched for record in result.records)

    @in_cluster_loop
    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on there at the next poll.

        Raises:
            IllegalUseError: The partition is not assigned to it.
        """
        self.member.seek(partition, offset)

    @in_cluster_loop
    async def commit(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        *,
        metadata: GroupMetadata | None = None,
    ) -> None:
        """Write positions outside of a transaction.

        Args:
            offsets: Which; where it reads on unless given.
            metadata: Of the member that commits; by default of this one, as it is now.

        Raises:
            ClientError: Refused: ILLEGAL_GENERATION, FENCED_INSTANCE_ID, STALE_MEMBER_EPOCH …
        """
        await self.member.commit(offsets, metadata=metadata)

    @in_cluster_loop
    async def stand_still(self) -> None:
        """Send no heartbeats until the next poll."""
        self.member.stand_still()

    @in_cluster_loop
    async def leave(self) -> None:
        """End, as a consumer that is closed: its coordinator is told. A static one may come back.

        Raises:
            ClientError: Refused, or not answered.
        """
        await self.member.leave()
        await self._cluster.close()

    @in_cluster_loop
    async def die(self) -> None:
        """Close without leaving the group; no effect after leaving."""
        await self.member.close()
        await self._cluster.close()


class AsyncMembers(ClusterPart):
    """Members of groups of one cluster."""

    @in_cluster_loop
    async def join(
        self,
        group: str,
        topics: Collection[str],
        *,
        until: Collection[TopicPartition] | None = None,
        protocol: GroupProtocol = "classic",
        instance_id: str | None = None,
        session_timeout_ms: int = 45_000,
        name: str = "member",
    ) -> AsyncMember:
        """Join a group. A second member gets its share when the first one polls.

        Args:
            group: Id of the group.
            topics: What to read.
            until: Wait until exactly these partitions are assigned.
            protocol: ``classic`` or ``consumer`` (KIP-848).
            instance_id: Of a static member.
            session_timeout_ms: Of a classic member.
            name: Its client id.

        Raises:
            ClientError: The coordinator refuses it, or the partitions were not assigned in time.
        """
        cluster = await self._rebuilt.client(name)
        chance = self._rebuilt.environment.rng.stream("members")
        member = GroupMember(
            cluster,
            MemberOptions(
                group_id=group,
                protocol=protocol,
                member_id=f"{name}-{chance.getrandbits(64):016x}",
                instance_id=instance_id,
                session_timeout_ms=session_timeout_ms,
            ),
        )
        joined = AsyncMember(self._rebuilt, cluster, member)
        self._rebuilt.guests.append(joined.die)
        await member.subscribe(topics, until=None if until is None else frozenset(until))
        return joined
