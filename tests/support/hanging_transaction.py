"""Makes a transaction hang, as any client can on a cluster without partition verification."""

from __future__ import annotations

from typing import Final

from txnsim.client import requests
from txnsim.client.admin import Admin
from txnsim.client.backoff import Deadline, pause
from txnsim.client.producer import Producer
from txnsim.client.versions import VersionRange
from txnsim.errors import ErrorCode
from txnsim.types import ProducerIdAndEpoch, TopicPartition
from txnsim.wire.batch import Record, build_batch

VERIFICATION = "transaction.partition.verification.enable"
PATIENCE_MS = 20_000
"""How long a broker may take to apply a config."""
_LEADS_NOT_YET: Final = (ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition)
"""Errors of a real broker that has published a new topic and does not lead its partitions yet."""
_VERIFIES_STILL: Final = (ErrorCode.transaction_abortable, ErrorCode.invalid_txn_state)


async def produce_without_adding(
    admin: Admin, partition: TopicPartition, transactional_id: str, *, age_ms: int, version: int
) -> tuple[ErrorCode, ProducerIdAndEpoch]:
    """Send a transactional record to a partition that the coordinator was never told of.

    Returns:
        The partition's error once it has a leader that knows of it, and who sent it.
    """
    cluster = admin.cluster
    async with Producer(cluster, transactional_id=transactional_id) as producer:
        producer_identity = await producer.init_transactions()
    batch = build_batch(
        [Record(value=b"ghost")],
        timestamp_ms=cluster.clock.now_ms() - age_ms,
        producer_id=producer_identity.producer_id,
        producer_epoch=producer_identity.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    request = requests.produce(
        {partition: batch},
        id_by_topic={},
        transactional_id=transactional_id,
        accepted_versions=VersionRange(version, version),
    )
    deadline = Deadline(cluster.clock, PATIENCE_MS)
    while True:
        leader = await cluster.leader(partition)
        answer = await cluster.ask(leader.leader_id, request)
        error = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if error not in _LEADS_NOT_YET or deadline.has_passed:
            return error, producer_identity
        await pause(cluster.clock, 20)


async def make_hanging(
    admin: Admin, partition: TopicPartition, transactional_id: str, *, age_ms: int = 3_600_000
) -> ProducerIdAndEpoch:
    """Open a transaction on a partition without the coordinator's knowledge."""
    await admin.set_broker_default(VERIFICATION, "false")
    deadline = Deadline(admin.cluster.clock, PATIENCE_MS)
    try:
        while True:
            error, producer_identity = await produce_without_adding(
                admin, partition, transactional_id, age_ms=age_ms, version=11
            )
            # A broker hears of its new config some time after the answer; until then it verifies.
            # Its log may hear of it last, and takes nothing that was not verified (UnifiedLog).
            if error not in _VERIFIES_STILL or deadline.has_passed:
                break
            await pause(admin.cluster.clock, 20)
    finally:
        await admin.set_broker_default(VERIFICATION, None)
    assert error == ErrorCode.none, error.name
    return producer_identity
