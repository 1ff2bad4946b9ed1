"""Makes the situation of ``txnsim practise``: one transaction that hangs, and two that look like
it.

It is made by requests over the wire, as in a real cluster. Verification is off for one late
Produce, which KIP-890 part 1 refuses otherwise. The timestamps of the records are an hour old, so
that tools which search by age find the transaction at once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from txnsim.client import requests
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.producer import Producer
from txnsim.client.versions import VersionRange
from txnsim.errors import ConfigError
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.faults.rule import FaultRule
from txnsim.server.cluster import SimCluster
from txnsim.types import TopicPartition
from txnsim.wire.batch import Record, build_batch

TOPICS: Final = {"orders": 3, "payments": 1}
"""Number of partitions of each topic."""
MARKER_RULE: Final = "slow-marker"
"""Id of the rule that holds the marker of payments-0."""

_HELD_PARTITION: Final = TopicPartition("payments", 0)
_ADVISED_PARTITION: Final = TopicPartition("orders", 1)
VERIFICATION: Final = "transaction.partition.verification.enable"
HOUR_MS: Final = 3_600_000
_QUARTER_HOUR_MS: Final = 900_000
_OLD_PRODUCE_VERSIONS: Final = VersionRange(11, 11)
"""Versions of Produce before 12, since from 12 on a Produce adds its partition to the transaction
itself (transactions v2).
"""


async def make(cluster: SimCluster) -> None:
    """Open the three transactions on a running cluster that has ``TOPICS``.

    - orders-0: ``billing`` is over, and a late Produce has opened it again. It hangs.
    - orders-1: ``report`` is Ongoing. It takes a long time.
    - payments-0: ``shop`` is decided; its marker is held by the rule ``slow-marker``.

    If possible, another broker leads orders-1. A coordinator's markers for one broker wait for each
    other, so with the same leader ``report`` could not be ended, which is what the readers are
    advised to do.
    """
    marker_rule = FaultRule(
        id=MARKER_RULE,
        point=FaultPoint.PEER_REQUEST,
        api="WriteTxnMarkers",
        topic=_HELD_PARTITION.topic,
        partition=_HELD_PARTITION.partition,
        action=Hold(),
    )
    cluster.injector.arm(marker_rule)
    async with Cluster(cluster.bootstrap) as client:
        metadata_of_partitions = [
            await client.leader(partition) for partition in (_HELD_PARTITION, _ADVISED_PARTITION)
        ]
        if metadata_of_partitions[0].leader_id == metadata_of_partitions[1].leader_id:
            with suppress(ConfigError):  # there is one broker
                cluster.move_leader(_HELD_PARTITION)
        hour_ago_ms = client.clock.now_ms() - HOUR_MS
        await _late_produce(client, TopicPartition("orders", 0), timestamp_ms=hour_ago_ms)
        for transactional_id, partition in (
            ("report", _ADVISED_PARTITION),
            ("shop", _HELD_PARTITION),
        ):
            producer = Producer(
                client, transactional_id=transactional_id, transaction_timeout_ms=_QUARTER_HOUR_MS
            )
            await producer.init_transactions()
            producer.begin()
            await producer.send(
                partition.topic, partition.partition, b"x", timestamp_ms=hour_ago_ms
            )
            if transactional_id == "shop":
                await producer.commit()


async def _late_produce(client: Cluster, partition: TopicPartition, *, timestamp_ms: int) -> None:
    """Send a Produce for an ended transaction, as if it was delayed by the network."""
    admin = Admin(client)
    await admin.set_broker_default(VERIFICATION, "false")
    late_producer = Producer(client, transactional_id="billing")
    identity = await late_producer.init_transactions()
    batch = build_batch(
        [Record(value=b"late")],
        timestamp_ms=timestamp_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    produce_request = requests.produce(
        {partition: batch},
        id_by_topic={},
        transactional_id="billing",
        accepted_versions=_OLD_PRODUCE_VERSIONS,
    )
    partition_metadata = await client.leader(partition)
    await client.ask(partition_metadata.leader_id, produce_request)
    await admin.set_broker_default(VERIFICATION, None)
