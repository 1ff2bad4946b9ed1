from __future__ import annotations

from typing import TypeVar

from tests.support.clusters import real_cluster
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.scenario.practise_situation import MARKER_RULE, TOPICS, make
from txnsim.types import TopicPartition

Found = TypeVar("Found")


async def test_one_hangs_and_two_look_like_it() -> None:
    async with real_cluster(topics=tuple(TOPICS.items())) as sim:
        await make(sim)
        await sim.injector.wait_until_struck(MARKER_RULE, count=1, timeout_ms=30_000)
        async with Cluster(sim.bootstrap) as client:
            admin = Admin(client)
            answers = await admin.list_transactions()
            listed = [one for found in answers.values() for one in _known(found)]
            states = {one.transactional_id: str(one.state) for one in listed}
            assert states == {"billing": "Empty", "report": "Ongoing", "shop": "PrepareCommit"}
            orders = TopicPartition("orders", 0)
            producers = (await admin.describe_producers([orders]))[orders]
            (late,) = _known(producers)
            assert late.txn_start_offset == 0


def _known(answer: Found | ClientError) -> Found:
    assert not isinstance(answer, ClientError)
    return answer
