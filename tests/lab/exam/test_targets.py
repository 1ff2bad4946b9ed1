"""Targets of the exam: the simulated one does what situations ask of both."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest

from txnsim.types import TopicPartition
from txnsim_lab.exam._application import Application
from txnsim_lab.exam._driver import Driver
from txnsim_lab.exam.results import NotAskedError
from txnsim_lab.exam.targets import SimulatedTargets


async def test_a_leader_moves_and_a_broker_dies() -> None:
    async with SimulatedTargets().open(2) as opened:
        app = Application(opened, cast(Driver, None))
        admin, place = await opened.target.admin(), TopicPartition("t", 1)
        before = await admin.leader_of(place)
        await app.move_leader_of(place)
        after = opened.kafka.leaders
        assert await after.of("t", 1) not in (before, 1)
        await app.move_leader_of(place, to=1)
        assert await after.of("t", 1) == 1
        await app.kill(before)
        assert (await opened.kafka.brokers.states())[before] == "down"


async def test_ids_and_groups_have_homes() -> None:
    async with SimulatedTargets().open(2) as opened:
        topics, app = opened.kafka.topics, Application(opened, cast(Driver, None))
        home = await opened.target.home_of_id("shop")
        assert home == await topics.of_transactional_id("shop")
        assert await app.home_of_group("g") == await topics.of_group("g")


async def test_one_broker_coordinates_a_group_and_leads_but_not_the_transaction() -> None:
    async with SimulatedTargets().open(2) as opened:
        app = Application(opened, cast(Driver, None))
        leaders, groups = opened.kafka.leaders, await app.home_of_group("g")
        coordinator = await leaders.coordinator_of("shop")
        await app.move_leader_of(groups, to=coordinator)
        await app.with_leader("g", 0)
        assert await leaders.of("t", 0) == await leaders.of(groups.topic, groups.partition)
        assert await leaders.of("t", 0) != await leaders.coordinator_of("shop") == coordinator


async def test_what_only_a_simulator_can_do_is_not_asked_of_others() -> None:
    async with SimulatedTargets().open(2) as opened:
        real = msgspec.structs.replace(opened, simulator=None)
        with pytest.raises(NotAskedError, match="only a simulated cluster"):
            _ = Application(real, cast(Driver, None)).kafka
        assert await real.recording() == b""
        assert await opened.recording()


async def test_a_situation_that_wants_another_release_is_not_asked() -> None:
    with pytest.raises(NotAskedError, match="begins as"):
        async with SimulatedTargets("4.0").open(2, begins_as="3.9"):
            pass
