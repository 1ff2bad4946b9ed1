"""Our own client at either door: what it can say there, and what it is told."""

from __future__ import annotations

import pytest

from tests.support.doors import SHIPPED, TEXT, Door, doors
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition

P0 = TopicPartition("orders", 0)


async def test_an_abort_by_start_offset_ends_that_transaction_only() -> None:
    async with doors() as cluster:
        door = Door(cluster, TEXT)
        producer_id, epoch = await door.open_transaction("t")
        start = (await door.active_producer(producer_id)).current_txn_start_offset
        assert cluster.kip_text_bootstrap is not None
        async with Cluster(cluster.kip_text_bootstrap) as client:
            admin = Admin(client)
            for wrong_epoch, wrong_start, error in (
                (epoch, start + 1, ErrorCode.invalid_txn_state),
                (epoch + 1, start, ErrorCode.invalid_producer_epoch),
            ):
                with pytest.raises(ClientError) as refused:
                    await admin.abort_named_transaction(
                        P0,
                        producer_id=producer_id,
                        producer_epoch=wrong_epoch,
                        start_offset=wrong_start,
                    )
                assert refused.value.error is error
            await admin.abort_named_transaction(
                P0, producer_id=producer_id, producer_epoch=epoch, start_offset=start
            )
        assert (await door.active_producer(producer_id)).current_txn_start_offset == -1


async def test_the_time_of_the_last_update_is_told_at_one_door() -> None:
    async with doors() as cluster:
        assert cluster.kip_text_bootstrap is not None
        await Door(cluster, SHIPPED).ended("t")
        told = {}
        for bootstrap in (cluster.bootstrap, cluster.kip_text_bootstrap):
            async with Cluster(bootstrap) as client:
                found = (await Admin(client).describe_transactions(("t",)))["t"]
                assert not isinstance(found, ClientError)
                told[bootstrap] = (found.start_time_ms, found.last_update_time_ms)
        start_ms, nothing = told[cluster.bootstrap]
        assert (nothing, start_ms is not None) == (None, True)
        text_start_ms, update_ms = told[cluster.kip_text_bootstrap]
        assert text_start_ms == start_ms
        assert start_ms is not None
        assert update_ms is not None
        assert update_ms >= start_ms
