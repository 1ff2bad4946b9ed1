"""Searching in batches; single outcomes are in test_by_key, words in test_txn_wording, commands in
test_txns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sim.client.cluster import Cluster
from sim.client.connection import ClientSettings
from sim.client.errors import ClientError, ErrorCode
from sim.client.txn_admin import BATCH_MAX, TransactionAdmin
from sim.client.versions import Api
from sim.types import ProducerIdAndEpoch
from tests.unit.client.fake_broker import Asked, FakeBroker, in_turn, initialized

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=500)


def nobody(asked: Asked) -> Any:
    return asked.answer(
        topics=tuple(
            asked.part(
                "TopicResponse",
                name=topic.name,
                partitions=tuple(
                    asked.part(
                        "PartitionResponse",
                        partition_index=index,
                        error_code=0,
                        error_message=None,
                        active_producers=(),
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in asked.message.topics
        )
    )


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    topics = {f"t{index}": 1 for index in range(BATCH_MAX + 1)}
    handlers = {Api.DESCRIBE_PRODUCERS: nobody, Api.INIT_PRODUCER_ID: initialized()}
    async with FakeBroker(handlers, topics=topics) as one:
        yield one


@pytest.fixture
async def admin(broker: FakeBroker) -> AsyncIterator[TransactionAdmin]:
    async with Cluster(broker.address, settings=SETTINGS) as cluster:
        yield TransactionAdmin(cluster)


async def test_a_search_asks_for_500_partitions_at_a_time(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    assert await admin.find_hanging(now_ms=0, broker_id=1) == ()
    sizes = [len(asked.message.topics) for asked in broker.of(Api.DESCRIBE_PRODUCERS)]
    assert sizes == [BATCH_MAX, 1]
    assert broker.of(Api.LIST_TRANSACTIONS) == []  # without candidates nobody is looked up


async def test_a_search_on_a_broker_without_replicas_asks_nobody(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    assert await admin.find_hanging(now_ms=0, broker_id=9) == ()
    assert broker.of(Api.DESCRIBE_PRODUCERS) == []


async def test_fencing_waits_for_the_abort_it_causes(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    broker.handlers[Api.INIT_PRODUCER_ID] = in_turn(
        initialized(51), initialized(14), initialized(16), initialized(epoch=4)
    )
    outcome = (await admin.fence_producers(("x",)))["x"]
    assert isinstance(outcome, ProducerIdAndEpoch)
    assert outcome.producer_epoch == 4
    assert len(broker.of(Api.FIND_COORDINATOR)) == 2
    broker.handlers[Api.INIT_PRODUCER_ID] = initialized(53)
    with pytest.raises(ClientError) as refused:
        await admin.force_terminate_transaction("x")
    assert refused.value.error == ErrorCode.transactional_id_authorization_failed
