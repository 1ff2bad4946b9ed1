"""The operation that makes a transaction hang, for practice."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.requests import Request

from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.errors import ClientError
from txnsim.http.operation import PREFIX, ClusterNoun, Operation
from txnsim.http.replies import RefusedError
from txnsim.on_demand_imports import OnDemand
from txnsim.server.cluster import SimCluster

if TYPE_CHECKING:
    from txnsim_lab.scenario import hanging_example
else:
    hanging_example = OnDemand("txnsim_lab.scenario.hanging_example")

PRACTISE_TIMEOUT_MS: Final = 30_000


class Practised(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction made for practice."""

    hangs: str
    """The partition on which it hangs."""
    transactional_id: str
    """The transactional id of the application."""


class PractiseRoutes(ClusterNoun):
    """The route that makes a transaction hang."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster)
        self._hang_numbers = itertools.count(1)
        """Numbers the hanging transactions."""

    @Operation("post", f"{PREFIX}/practise", refusals=("409", "503"))
    async def practise(self, _request: Request) -> Practised:
        """Make a hanging transaction on orders-0 and explain it in the trace; repeatable."""
        if self._cluster.injector.get(hanging_example.HOLD_RULE_ID) is not None:
            raise RefusedError(409, "a hanging transaction is being made: wait until it hangs")
        hang_number = next(self._hang_numbers)
        transactional_id = "billing" if hang_number == 1 else f"billing-{hang_number}"
        try:
            async with asyncio.timeout(PRACTISE_TIMEOUT_MS / 1_000):
                await self._make_hang(transactional_id)
        except (ClientError, TimeoutError) as error:
            failure_reason = str(error) or f"no answer within {PRACTISE_TIMEOUT_MS // 1_000} s"
            raise RefusedError(
                503,
                f"no transaction could be made to hang: {failure_reason}; are brokers stopped, "
                "links cut or faults armed?",
            ) from error
        return Practised(
            hangs=str(hanging_example.HANGING_PARTITION), transactional_id=transactional_id
        )

    async def _make_hang(self, transactional_id: str) -> None:
        def connect_client(client_id: str) -> Cluster:
            client_settings = ClientSettings(client_id=client_id)
            return self.outside(client_settings, is_traced=True)

        async with connect_client(hanging_example.APPLICATION_CLIENT) as client:
            topic = hanging_example.HANGING_PARTITION.topic
            admin = Admin(client)
            if topic not in {topic_view.name for topic_view in await admin.describe_topics(None)}:
                await admin.create_topic(topic, partitions=1)
        await hanging_example.make(self._cluster, connect_client, transactional_id=transactional_id)
