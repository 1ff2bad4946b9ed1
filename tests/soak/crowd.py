"""Hundreds of members of one group that come and go while brokers are in trouble.

They are members of the consumer protocol (KIP-848) that read nothing. In the end all stay, and each
partition has to be with one of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final
from uuid import UUID

from tests.support.clusters import VirtualCluster
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.membership import CoordinatorClient
from txnsim.client.members.requests import consumer_group_heartbeat
from txnsim.errors import ErrorCode

GROUP: Final = "crowd"
BEAT_S: Final = (2.0, 5.0)
STAY_S: Final = (5.0, 60.0)
REBALANCE_MS: Final = 60_000
SETTLED_WITHIN_S: Final = 300
_LEAVES: Final = -1


class Crowd:
    """The members of a group that reads one topic."""

    def __init__(self, cluster: VirtualCluster, *, count: int, topic: str, partitions: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._members = [f"member-{member_number}" for member_number in range(count)]
        self._held: dict[str, dict[UUID, tuple[int, ...]]] = {}
        """Member -> its assigned partitions, once it has joined."""
        self.stays = False
        self.answer_counts: Counter[str] = Counter()

    async def run(self) -> None:
        async with self._cluster.client("crowd") as client, asyncio.TaskGroup() as group:
            for member_name in self._members:
                group.create_task(self._live(client, member_name))

    async def wait_until_settled(self) -> tuple[str, ...]:
        """Wait until the assignment is complete after all members have joined. Returns what is
        still wrong when the time is over.
        """
        self.stays = True
        for _ in range(SETTLED_WITHIN_S):
            if not self._wrong():
                break
            await asyncio.sleep(1.0)
        return self._wrong()

    def _wrong(self) -> tuple[str, ...]:
        complaints = [
            f"{member_name} is not in the group"
            for member_name in self._members
            if member_name not in self._held
        ]
        member_counts = Counter(
            index
            for rows_by_id in self._held.values()
            for of_topic in rows_by_id.values()
            for index in of_topic
        )
        complaints += [
            f"{self._topic}-{index} is with {member_counts[index]} members"
            for index in range(self._partitions)
            if member_counts[index] != 1
        ]
        return tuple(complaints)

    async def _live(self, client: Cluster, name: str) -> None:
        random = self._cluster.env.rng.stream(name)
        coordinator = CoordinatorClient(client, GROUP)
        while True:
            await asyncio.sleep(random.uniform(0, BEAT_S[1]))
            ends_s = asyncio.get_running_loop().time() + random.uniform(*STAY_S)
            epoch = await self._send_heartbeat(coordinator, name, 0)
            while epoch > 0 and (self.stays or asyncio.get_running_loop().time() < ends_s):
                await asyncio.sleep(random.uniform(*BEAT_S))
                epoch = await self._send_heartbeat(coordinator, name, epoch)
            self._held.pop(name, None)
            if epoch > 0:
                await self._send_heartbeat(coordinator, name, _LEAVES)
                self._held.pop(name, None)

    async def _send_heartbeat(
        self, coordinator: CoordinatorClient, member_id: str, epoch: int
    ) -> int:
        """Send a heartbeat. Returns the member's new epoch, 0 if it has to join again."""
        member = GroupMetadata(member_id=member_id, generation=epoch)
        joining_fields = ((self._topic,), REBALANCE_MS) if epoch == 0 else None
        owned_partition_by_id: dict[UUID, Any] | None = (
            {} if epoch == 0 else self._held.get(member_id)
        )
        request = consumer_group_heartbeat(
            GROUP,
            member,
            joining=joining_fields,
            owned_partitions=None if epoch == _LEAVES else owned_partition_by_id,
        )
        try:
            answer = await coordinator.ask(request)
        except ClientError as error:
            self.answer_counts[type(error).__name__] += 1
            return epoch
        error_code = ErrorCode(answer.error_code)
        self.answer_counts[error_code.name] += 1
        if error_code != ErrorCode.none:
            self._held.pop(member_id, None)
            return 0
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            self._held[member_id] = {row.topic_id: tuple(row.partitions) for row in rows}
        elif epoch == 0:
            self._held[member_id] = {}
        return int(answer.member_epoch)
