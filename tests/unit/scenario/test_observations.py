from __future__ import annotations

import pytest

from sim.scenario.observations import (
    described,
    partition_facts,
    position_after_all,
    producer_on_partition,
)
from sim.scenario.stage import Stage
from sim.scenario.steps import act
from tests.support.stories import staged, step


async def play(built: Stage, *calls: str) -> None:
    for call in calls:
        do, _, value = call.partition(" ")
        who = "bystander" if do == "append" else "producer"
        given = {"value": value} if do == "send" else {"values": [value]} if value else {}
        await act(built, step(call={"who": who, "do": do, **given}))


async def test_an_open_transaction_is_seen_by_operator_and_readers() -> None:
    async with staged() as built:
        assert await described(built) is None
        assert await producer_on_partition(built) is None
        assert await position_after_all(built) == 0
        await play(built, "append before")
        built.facts.reader_offset = await position_after_all(built)
        await play(built, "begin")
        assert await producer_on_partition(built) is None  # known to the coordinator only
        await play(built, "send open", "await-ack", "append behind")
        seen = await partition_facts(built)
        assert (seen.open_transaction_offset, seen.producer_epoch) == (1, 0)
        assert seen.uncommitted == ("before", "open", "behind")
        assert seen.committed == ("before",)
        assert seen.reader.asked == (1, "read_committed", 0, 1_000_000)
        assert seen.reader.starved
        assert (seen.reader.last_stable_offset, seen.reader.high_watermark) == (1, 3)

        await play(built, "abort")
        await act(built, step(wait_until={"marker": "written"}))
        healed = await partition_facts(built)
        assert healed.reader.asked == seen.reader.asked
        assert healed.reader.values == ("behind",)
        assert not healed.reader.starved
        assert healed.open_transaction_offset is None
        assert await position_after_all(built) == 4  # behind the marker too


async def test_a_reader_without_a_position_is_a_bug_of_ours() -> None:
    async with staged() as built:
        with pytest.raises(AssertionError, match="the reader has a position"):
            await partition_facts(built)
