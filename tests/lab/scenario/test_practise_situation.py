from __future__ import annotations

from typing import TypeVar

from msgspec import structs

from tests.support.clusters import VirtualCluster, options, real_cluster, run_cluster
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.types import BrokerId, TopicPartition
from txnsim_lab.scenario.practise_situation import MARKER_RULE, TOPICS, make

ONE = BrokerId(1)
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


def test_what_takes_long_can_be_ended_as_its_readers_are_advised() -> None:
    """Also where one broker coordinates and leads all: a broker's markers wait for each other."""

    async def main(kafka: VirtualCluster) -> None:
        places = [TopicPartition("orders", 1), TopicPartition("payments", 0)]
        for place in (*places, kafka.home("report"), kafka.home("shop")):
            if kafka.leader(place) != ONE:
                kafka.sim.move_leader(place, ONE)
        await make(kafka.sim)
        await kafka.struck(MARKER_RULE)
        async with Cluster(kafka.sim.bootstrap) as client:
            await Admin(client).force_terminate_transaction("report")
            answer = (await Admin(client).describe_transactions(["report"]))["report"]
            assert str(_known(answer).state) == "Empty"

    wanted = options(topics=tuple(TOPICS.items()))
    run_cluster(main, cluster_options=structs.replace(wanted, ready_coordinators=True))


def _known(answer: Found | ClientError) -> Found:
    assert not isinstance(answer, ClientError)
    return answer
