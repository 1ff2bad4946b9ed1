"""Groups through the handlers of a broker: short names for the requests of members and admins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from tests.support.broker_api import Api, handlers
from txnsim.errors import ErrorCode

GROUP: Final = "g"
SUBSCRIPTION: Final = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")
"""A consumer's subscription (v0) to ``orders``."""
ASSIGNMENT: Final = b"assigned"

_TURNS: Final = 100


class ClassicMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a classic group's generation."""

    id: str
    generation: int


class GroupApi:
    """Sends group requests to a broker that coordinates every group."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def later(self, request_coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Send a request as a task; the test awaits the answer later."""
        return self.api.broker.environment.tasks.spawn(request_coroutine, name="test")

    # Classic members

    async def join(self, member_id: str = "", *, version: int = 3, **more_fields: Any) -> Any:
        """JoinGroup; before v4 a new member needs no second request."""
        return await self.api.ask("JoinGroup", version, **join_values(member_id, **more_fields))

    async def sync(
        self,
        member: ClassicMember,
        assignments: dict[str, bytes] | None = None,
        *,
        version: int = 3,
        **more_fields: Any,
    ) -> Any:
        """Send a SyncGroup."""
        values = {
            "group_id": GROUP,
            "generation_id": member.generation,
            "member_id": member.id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [
                {"member_id": member_id, "assignment": assignment}
                for member_id, assignment in (assignments or {}).items()
            ],
        }
        return await self.api.ask("SyncGroup", version, **{**values, **more_fields})

    async def heartbeat(
        self, member: ClassicMember, *, version: int = 4, **more_fields: Any
    ) -> ErrorCode:
        """Send a Heartbeat; return the error."""
        values = {
            "group_id": GROUP,
            "generation_id": member.generation,
            "member_id": member.id,
            "group_instance_id": None,
        }
        answer = await self.api.ask("Heartbeat", version, **{**values, **more_fields})
        error: ErrorCode = answer.error_code
        return error

    async def stable(self, *, instance_id: str | None = None) -> ClassicMember:
        """Bring the group into the state Stable with one member; return the member."""
        version = 3 if instance_id is None else 5
        join_reply = await self.join(version=version, group_instance_id=instance_id)
        assert join_reply.error_code is ErrorCode.none, join_reply
        member = ClassicMember(id=join_reply.member_id, generation=join_reply.generation_id)
        sync_reply = await self.sync(member, {member.id: ASSIGNMENT}, group_instance_id=instance_id)
        assert sync_reply.error_code is ErrorCode.none, sync_reply
        return member

    async def stable_elsewhere(self) -> None:
        """Let a member join another group, ``busy``."""
        join_reply = await self.join(group_id="busy")
        assert join_reply.error_code is ErrorCode.none, join_reply

    # Members of the consumer protocol

    async def consume(
        self, member_id: str, epoch: int = 0, *, version: int = 1, **more_fields: Any
    ) -> Any:
        """ConsumerGroupHeartbeat; with epoch 0 it joins and subscribes to ``orders``."""
        joining_fields = {
            "rebalance_timeout": 60_000,
            "subscribed_topic_names": ("orders",),
            "topic_partitions": (),
        }
        values = {
            "group_id": GROUP,
            "member_id": member_id,
            "member_epoch": epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": None,
            **(joining_fields if epoch == 0 else {}),
            **more_fields,
        }
        return await self.api.ask("ConsumerGroupHeartbeat", version, **values)

    # Positions

    async def commit(self, offset: int, *, version: int = 8, **more_fields: Any) -> Any:
        """Commit one position."""
        return await self.api.ask(
            "OffsetCommit", version, **commit_values(self.api, offset, **more_fields)
        )

    async def committed_offset(
        self, *, version: int = 7, **more_fields: Any
    ) -> tuple[int, ErrorCode]:
        """Fetch one position; return the offset and the error."""
        values = {
            "group_id": GROUP,
            "topics": [{"name": "orders", "partition_indexes": [0]}],
            "require_stable": False,
        }
        answer = await self.api.ask("OffsetFetch", version, **{**values, **more_fields})
        partition = answer.topics[0].partitions[0]
        return partition.committed_offset, partition.error_code

    # Administration

    async def state(self, group_id: str = GROUP) -> str:
        """A group's state, as DescribeGroups tells it."""
        answer = await self.api.ask(
            "DescribeGroups", 5, groups=[group_id], include_authorized_operations=False
        )
        state: str = answer.groups[0].group_state
        return state

    async def wait_for_state(self, state: str) -> None:
        """Wait until the group is in this state."""
        for _ in range(_TURNS):
            if await self.state() == state:
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"the group stays {await self.state()}")


def join_values(member_id: str = "", **more_fields: Any) -> dict[str, Any]:
    """Values of a JoinGroup request."""
    values = {
        "group_id": GROUP,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    }
    return {**values, **more_fields}


def commit_values(
    api: Api,
    offset: int,
    *,
    name: str = "orders",
    partition: int = 0,
    metadata: str | None = "",
    **more_fields: Any,
) -> dict[str, Any]:
    """Values of an OffsetCommit or TxnOffsetCommit request for one position."""
    topic = api.broker.image.topics.get(name)
    position = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": metadata,
    }
    values: dict[str, Any] = {
        "group_id": GROUP,
        "generation_id_or_member_epoch": -1,
        **({"generation_id": -1} if "transactional_id" in more_fields else {"retention_time": -1}),
        "member_id": "",
        "group_instance_id": None,
        "topics": [
            {
                "name": name,
                "topic_id": None if topic is None else topic.topic_id,
                "partitions": [position],
            }
        ],
    }
    return {**values, **more_fields}


@asynccontextmanager
async def group_api(**config_changes: Any) -> AsyncIterator[GroupApi]:
    """A broker that coordinates groups and is ready for requests."""
    values = {
        "group_initial_rebalance_delay_ms": 0,
        "group_consumer_assignment_interval_ms": 0,
        "offsets_topic_num_partitions": 3,
        **config_changes,
    }
    async with handlers(**values) as api:
        await api.until(
            lambda answer: answer.error_code is ErrorCode.none,
            "FindCoordinator",
            1,
            key=GROUP,
            key_type=0,
        )
        await api.until(
            lambda answer: answer.error_code is ErrorCode.none, "ListGroups", 4, states_filter=[]
        )
        yield GroupApi(api)
