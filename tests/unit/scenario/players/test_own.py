from __future__ import annotations

import pytest

from sim.errors import ClientError
from sim.scenario.players.own import OwnPlayer
from tests.support.stories import staged


async def test_our_client_plays_a_whole_transaction_and_logs_nothing() -> None:
    async with staged() as built:
        player = built.player
        assert isinstance(player, OwnPlayer)
        await player.begin()
        await player.send("x")
        await player.await_ack()
        with pytest.raises(ClientError, match="acknowledged though its request is held"):
            await player.give_up()
        await player.abort()
        assert player.remarks() == ()
        await player.close()  # the stage does so once more
