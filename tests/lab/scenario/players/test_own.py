from __future__ import annotations

import pytest

from tests.support.clusters import real_cluster
from txnsim.errors import ClientError
from txnsim.types import TopicPartition
from txnsim_lab.scenario.players._base import Part
from txnsim_lab.scenario.players._own import OwnPlayer

P0 = TopicPartition("orders", 0)


async def test_our_client_plays_whole_transactions_and_logs_nothing() -> None:
    async with real_cluster() as cluster:
        player = OwnPlayer(
            Part(
                bootstrap=cluster.bootstrap,
                transactional_id="app",
                client_id="shop",
                topic="orders",
                partition=0,
                now_ms=0,
            )
        )
        await player.begin()
        await player.send("x", P0)
        assert await player.await_ack() == 0
        with pytest.raises(ClientError, match="acknowledged though its request is held"):
            await player.give_up()
        await player.abort()
        await player.begin()
        await player.send("y", P0)
        assert await player.await_ack() == 2
        await player.commit()
        assert player.remarks() == ()
        await player.close()
