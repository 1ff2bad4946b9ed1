"""Halls of the exam: the simulated one does what situations ask of both."""

from __future__ import annotations

from typing import cast

import pytest

from txnsim.types import TopicPartition
from txnsim_lab.exam._driver import Driver
from txnsim_lab.exam._room import Room
from txnsim_lab.exam.hall import SimulatedHalls, home_of_group, home_of_id
from txnsim_lab.exam.results import NotAskedError


async def test_a_leader_moves_and_a_broker_dies() -> None:
    async with SimulatedHalls().open(2) as hall:
        admin, place = await hall.admin(), TopicPartition("t", 1)
        before = await admin.leader_of(place)
        await hall.move_leader(place)
        after = hall.simulator().leaders
        assert await after.of("t", 1) not in (before, 1)
        await hall.move_leader(place, to=1)
        assert await after.of("t", 1) == 1
        await hall.kill(before)
        assert (await hall.simulator().brokers.states())[before] == "down"


async def test_ids_and_groups_have_homes() -> None:
    async with SimulatedHalls().open(2) as hall:
        kafka = hall.simulator()
        assert await home_of_id(hall, "shop") == await kafka.topics.of_transactional_id("shop")
        assert await home_of_group(hall, "g") == await kafka.topics.of_group("g")


async def test_one_broker_coordinates_a_group_and_leads_but_not_the_transaction() -> None:
    async with SimulatedHalls().open(2) as hall:
        leaders, groups = hall.simulator().leaders, await home_of_group(hall, "g")
        coordinator = await leaders.coordinator_of("shop")
        await hall.move_leader(groups, to=coordinator)
        await Room(hall, cast(Driver, None)).with_leader("g", 0)
        assert await leaders.of("t", 0) == await leaders.of(groups.topic, groups.partition)
        assert await leaders.of("t", 0) != await leaders.coordinator_of("shop") == coordinator


async def test_a_situation_that_wants_another_release_is_not_asked() -> None:
    with pytest.raises(NotAskedError, match="begins as"):
        async with SimulatedHalls("4.0").open(2, begins_as="3.9"):
            pass
