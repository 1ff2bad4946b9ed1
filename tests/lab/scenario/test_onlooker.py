"""What an onlooker notes, and in which order."""

from __future__ import annotations

import pytest

from tests.support.testing_plays import aborted, client, committed
from tests.support.within import within
from txnsim.client.errors import ClientError
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.types import TopicPartition
from txnsim_lab.check.observations import Described, Isolation, Listed, Producers, Read
from txnsim_lab.scenario.onlooker import ONLOOKER, look
from txnsim_lab.scenario.recorder import Recorder


@within(run_virtual, topics=["orders"])
async def test_open_transactions_coordinators_open_transactions_again_then_readers(
    kafka: AsyncSimulatedKafka,
) -> None:
    await committed(kafka, "orders", "a", "b")
    await aborted(kafka, "orders", "c")
    recorder = Recorder(kafka.rebuilt.environment.clock)
    async with client(kafka) as outside:
        await look(outside, TopicPartition("orders", 0), recorder, offset=1)
    kinds = [type(one) for one in recorder.history]
    assert kinds[:4] == [Producers, Listed, Described, Producers]
    assert set(kinds[4:]) == {Read}
    assert {one.who for one in recorder.history} == {ONLOOKER}
    seen = {
        isolation: [
            record.value
            for one in recorder.history
            if isinstance(one, Read) and one.isolation is isolation
            for record in one.records
        ]
        for isolation in Isolation
    }
    assert seen == {
        Isolation.READ_COMMITTED: ["b"],
        Isolation.READ_UNCOMMITTED: ["b", "c"],
    }


@within(run_virtual, settings={"auto.create.topics.enable": False})
async def test_who_does_not_answer_ends_the_look(kafka: AsyncSimulatedKafka) -> None:
    async with client(kafka, api_timeout_ms=500) as outside:
        with pytest.raises(ClientError):
            await look(
                outside,
                TopicPartition("nowhere", 0),
                Recorder(kafka.rebuilt.environment.clock),
            )
