"""Halls of the exam: the simulated one does what situations ask of both."""

from __future__ import annotations

import pytest

from txnsim.testing.exam.hall import SimulatedHalls, home_of_group, home_of_id
from txnsim.testing.exam.results import NotAskedError
from txnsim.types import TopicPartition


async def test_a_leader_moves_and_a_broker_dies() -> None:
    async with SimulatedHalls().open(2) as hall:
        admin, place = await hall.admin(), TopicPartition("t", 1)
        before = await admin.leader_of(place)
        await hall.move_leader(place)
        after = hall.simulator().leaders
        assert await after.of("t", 1) != before
        await hall.kill(before)
        assert (await hall.simulator().brokers.states())[before] == "down"


async def test_ids_and_groups_have_homes() -> None:
    async with SimulatedHalls().open(2) as hall:
        kafka = hall.simulator()
        assert await home_of_id(hall, "shop") == await kafka.topics.of_transactional_id("shop")
        assert await home_of_group(hall, "g") == await kafka.topics.of_group("g")


async def test_a_situation_that_wants_another_release_is_not_asked() -> None:
    with pytest.raises(NotAskedError, match="begins as"):
        async with SimulatedHalls("4.0").open(2, begins_as="3.9"):
            pass
