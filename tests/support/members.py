"""Members of a group in a cluster in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.clusters import VirtualCluster
from txnsim.client.members.member import GroupMember
from txnsim.client.members.membership import GroupProtocol, MemberOptions
from txnsim.types import TopicPartition

P0, P1, P2 = (TopicPartition("orders", index) for index in range(3))
ALL = frozenset({P0, P1, P2})
PROTOCOLS: tuple[GroupProtocol, ...] = ("classic", "consumer")
both = pytest.mark.parametrize("protocol", PROTOCOLS)


@asynccontextmanager
async def member(
    cluster: VirtualCluster, name: str, protocol: GroupProtocol, **more: Any
) -> AsyncIterator[GroupMember]:
    """A member of the group ``g`` that has not subscribed yet."""
    async with cluster.client(name) as client:
        options = MemberOptions(group_id="g", member_id=f"id-{name}", protocol=protocol, **more)
        made = GroupMember(client, options)
        yield made
        await made.close()
