"""What a consumer gets from a follower that is behind (KIP-392): all that this follower knows, with
its own last stable offset and its own aborted transactions.
"""

from __future__ import annotations

import msgspec

from tests.real import follower_reads
from tests.real.follower_reads import BROKERS, PARTITION, read_partition, wait_for_followers
from tests.support.clusters import VirtualCluster, options, run_cluster
from txnsim.client.admin import Admin
from txnsim.client.backoff import pause
from txnsim.client.producer import Producer
from txnsim.client.requests import NewTopic
from txnsim.config import settings_of
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint

LEADER, FOLLOWER = BROKERS[:2]


def test_a_follower_that_is_behind_answers_with_what_it_knows() -> None:
    async def main(cluster: VirtualCluster) -> None:
        async with cluster.client() as client:
            admin = Admin(client)
            await admin.create_topics([NewTopic(name=PARTITION.topic, assignments=((1, 2),))])
            topic_id = (await admin.wait_for_topic(PARTITION.topic)).topic_id
            producer = Producer(client, transactional_id="app")
            await producer.init_transactions()
            producer.begin()
            await producer.send(PARTITION.topic, PARTITION.partition, b"value")
            await wait_for_followers(client, topic_id, 1)
            cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="Fetch", source="broker/2")
            await producer.abort()
            while len((await admin.describe_partition(PARTITION)).isr) > 1:
                await pause(client.clock, 50)
            at_leader = await read_partition(client, LEADER, topic_id)
            at_follower = await read_partition(client, FOLLOWER, topic_id)
        assert (at_leader["last stable offset"], at_leader["aborted"]) == (2, [0])
        assert (at_follower["last stable offset"], at_follower["aborted"]) == (0, [])
        assert (at_leader["has records"], at_follower["has records"]) == (True, False)

    settings, _ = settings_of(follower_reads.PROPERTIES, source_name="the test")
    plain = options(brokers=3, topics=())
    run_cluster(
        main,
        cluster_options=msgspec.structs.replace(
            plain, racks=follower_reads.RACKS, settings=settings
        ),
    )
