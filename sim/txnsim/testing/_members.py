"""Consumers in groups, for Python tests: the same members as in stories, without a client
library.
"""

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
        """Generation or member epoch, member id and instance id, as the member would commit
        them.
        """
        return self.member.metadata

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return self.member.assigned

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Partition -> next offset."""
        return dict(self.member.positions)


class AsyncMember(MemberProgress):
    """A member of a group, from ``AsyncMembers.join``."""

    def __init__(
        self, rebuilt_cluster: RebuiltCluster, client: Cluster, member: GroupMember
    ) -> None:
        super().__init__(member)
        self._rebuilt = rebuilt_cluster
        self._client = client

    @property
    def cluster_loop(self) -> ClusterLoop:
        """The event loop of the cluster."""
        return self._rebuilt.cluster_loop

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.die()

    @in_cluster_loop
    async def poll(
        self, *, until: Collection[TopicPartition] | None = None, stable: bool = True
    ) -> tuple[ConsumedRecord, ...]:
        """Takes part in a rebalance, and reads everything that there is now.

        Args:
            until: Go on until exactly these partitions are assigned.
            stable: Wait for offsets that an open transaction may change.

        Raises:
            ClientError: The group refuses, or the partitions are not assigned in time; ``error``
                says why.
        """
        assignment = None if until is None else frozenset(until)
        poll_result = await self.member.poll(until=assignment, stable=stable)
        return tuple(
            record for _, fetch_result in poll_result.fetched for record in fetch_result.records
        )

    @in_cluster_loop
    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset at which the next poll reads.

        Raises:
            IllegalUseError: The partition is not assigned to the member.
        """
        self.member.seek(partition, offset)

    @in_cluster_loop
    async def commit(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        *,
        metadata: GroupMetadata | None = None,
    ) -> None:
        """Commit offsets outside of a transaction.

        Args:
            offsets: Partition -> offset; the present positions unless given.
            metadata: Generation and ids to commit with; the member's own unless given.

        Raises:
            ClientError: The group refuses: ILLEGAL_GENERATION, FENCED_INSTANCE_ID,
                STALE_MEMBER_EPOCH …
        """
        await self.member.commit(offsets, metadata=metadata)

    @in_cluster_loop
    async def stand_still(self) -> None:
        """Send no heartbeats until the next poll."""
        self.member.stand_still()

    @in_cluster_loop
    async def leave(self) -> None:
        """Leave the group, as a consumer that is closed does. A static member may come back.

        Raises:
            ClientError: The group refuses, or does not answer.
        """
        await self.member.leave()
        await self._client.close()

    @in_cluster_loop
    async def die(self) -> None:
        """Close the connections without leaving the group; do nothing after ``leave``."""
        await self.member.close()
        await self._client.close()


class AsyncMembers(ClusterPart):
    """Joins groups of one cluster."""

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
            topics: Topics to read.
            until: Wait until exactly these partitions are assigned.
            protocol: ``classic`` or ``consumer`` (KIP-848).
            instance_id: Instance id of a static member.
            session_timeout_ms: Session timeout of a classic member.
            name: Client id of the member.

        Raises:
            ClientError: The coordinator refuses the member, or the partitions were not assigned in
                time.
        """
        client = await self._rebuilt.client(name)
        random_stream = self._rebuilt.environment.rng.stream("members")
        member = GroupMember(
            client,
            MemberOptions(
                group_id=group,
                protocol=protocol,
                member_id=f"{name}-{random_stream.getrandbits(64):016x}",
                instance_id=instance_id,
                session_timeout_ms=session_timeout_ms,
            ),
        )
        joined_member = AsyncMember(self._rebuilt, client, member)
        self._rebuilt.guests.append(joined_member.die)
        await member.subscribe(topics, until=None if until is None else frozenset(until))
        return joined_member
