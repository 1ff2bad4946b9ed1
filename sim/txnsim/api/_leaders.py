"""The current leader in an answer that says "not leader" (KIP-951)."""

from __future__ import annotations

from typing import Any

from txnsim.api.request import Request
from txnsim.types import TopicPartition


class CurrentLeaders:
    """Collects the leaders that an answer names; the address of each is listed once."""

    __slots__ = ("_endpoints", "_request")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._endpoints: dict[int, Any] = {}

    def leader_of(self, topic_name_or_id: Any, index: int) -> Any:
        """The ``LeaderIdAndEpoch`` of a partition in the metadata."""
        schema = self._request.schema
        image = self._request.broker.image
        topic_name = (
            topic_name_or_id
            if isinstance(topic_name_or_id, str)
            else image.topic_names.get(topic_name_or_id, "")
        )
        partition = image.partition(TopicPartition(topic_name, index))
        if partition is None:
            return schema.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
        broker = image.brokers.get(partition.leader)
        if broker is not None:
            self._endpoints[broker.broker_id] = schema.NodeEndpoint(
                node_id=broker.broker_id, rack=broker.rack, **self._request.address_of(broker)
            )
        return schema.LeaderIdAndEpoch(
            leader_id=partition.leader, leader_epoch=partition.leader_epoch
        )

    def endpoints(self) -> tuple[Any, ...]:
        """The ``NodeEndpoint`` of every leader that was named."""
        return tuple(self._endpoints.values())
