"""Which replica a consumer is to read from (KIP-392). Pure.

Kafka's counterparts: ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector and
LeaderSelector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from txnsim.metadata.image import BrokerImage
from txnsim.replica.partition import Follower, LeaderPartition
from txnsim.types import BrokerId

LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
REPLICA_SELECTORS: Final = (LEADER_SELECTOR, RACK_SELECTOR)
"""Values of ``replica.selector.class``; LeaderSelector does what is done without it."""


def preferred_replica(
    leader_partition: LeaderPartition,
    *,
    leader_id: BrokerId,
    brokers: Mapping[BrokerId, BrokerImage],
    client_rack: str,
    fetch_offset: int,
) -> BrokerId | None:
    """The follower that a consumer is led to by its rack.

    A follower outside of the ISR may stay behind, and one without the offset can't answer: they are
    not chosen. Of several in the rack the one with most records wins, then the one that was up to
    date last, then the one with the highest id.

    Args:
        leader_partition: The partition, which this broker leads.
        leader_id: This broker.
        brokers: The registered brokers; those that are fenced are in no rack.
        client_rack: The rack that the consumer is in.
        fetch_offset: Where it wants to read.

    Returns:
        A follower in the consumer's rack; None if it is to read from the leader: no such follower
        can serve the offset, or the leader is in the rack itself.
    """
    if _rack_of(leader_id, brokers) == client_rack:
        return None
    candidates = [
        follower
        for follower in leader_partition.followers.values()
        if follower.broker_id in leader_partition.isr
        and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        and _rack_of(follower.broker_id, brokers) == client_rack
    ]
    if not candidates:
        return None

    def rank(follower: Follower) -> tuple[int, int, int]:
        return follower.log_end_offset, follower.caught_up_ms, follower.broker_id

    return max(candidates, key=rank).broker_id


def _rack_of(broker_id: BrokerId, brokers: Mapping[BrokerId, BrokerImage]) -> str | None:
    broker = brokers.get(broker_id)
    return None if broker is None or not broker.alive else broker.rack
