"""Consumers in racks, and followers that answer them, as real brokers were recorded to do it
(``follower_reads.jsonl``).
"""

from __future__ import annotations

import functools

import msgspec
import pytest

from tests.real import follower_reads
from tests.real.follower_reads import BROKERS, PARTITION, read_partition, wait_for_followers
from tests.support.apache_kafka import KAFKA_VERSION
from tests.support.clusters import VirtualCluster, options, run_cluster
from txnsim.client.admin import Admin
from txnsim.client.backoff import pause
from txnsim.client.producer import Producer
from txnsim.client.requests import NewTopic
from txnsim.config import settings_of
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.server.options import ClusterOptions
from txnsim.types import BrokerId

RECORDED = follower_reads.recorded_answers()
LEADER, FOLLOWER = BROKERS[:2]


@functools.cache
def simulated_answers(release: str) -> follower_reads.Answers:
    async def main(cluster: VirtualCluster) -> follower_reads.Answers:
        async def kill(broker: BrokerId) -> None:
            await cluster.sim.kill_broker(broker)

        async with cluster.client() as client:
            return await follower_reads.story(client, kill=kill)

    return run_cluster(main, cluster_options=racked_options(release.rpartition(".")[0]))


def racked_options(*as_version: str) -> ClusterOptions:
    """Three brokers with racks and Kafka's selector."""
    settings, _ = settings_of(follower_reads.PROPERTIES, source_name="the story")
    plain_options = options(brokers=3, topics=(), as_version=as_version)
    return msgspec.structs.replace(plain_options, racks=follower_reads.RACKS, settings=settings)


@pytest.mark.parametrize(
    ("release", "question"),
    [(release, question) for release, answers in RECORDED.items() for question in answers],
)
def test_the_simulator_answers_as_the_real_brokers(release: str, question: str) -> None:
    assert simulated_answers(release)[question] == RECORDED[release][question]


def test_every_question_was_asked_of_the_newest_release() -> None:
    assert simulated_answers(KAFKA_VERSION).keys() == RECORDED[KAFKA_VERSION].keys()


def test_a_follower_that_is_behind_answers_with_what_it_knows() -> None:
    """A follower answers with its own last stable offset and list of aborted transactions."""

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

    run_cluster(main, cluster_options=racked_options())
