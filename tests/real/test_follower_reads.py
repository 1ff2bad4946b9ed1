"""Consumers in racks, and followers that answer them, as real brokers were recorded to do it
(``follower_reads.jsonl``).
"""

from __future__ import annotations

import functools

import msgspec
import pytest

from tests.real import follower_reads
from tests.support.apache_kafka import KAFKA_VERSION
from tests.support.clusters import VirtualCluster, options, run_cluster
from txnsim.config import settings_of
from txnsim.types import BrokerId

RECORDED = follower_reads.recorded_answers()


@functools.cache
def simulated_answers(release: str) -> follower_reads.Answers:
    async def main(cluster: VirtualCluster) -> follower_reads.Answers:
        async def kill(broker: BrokerId) -> None:
            await cluster.sim.kill_broker(broker)

        async with cluster.client() as client:
            return await follower_reads.story(client, kill=kill)

    settings, _ = settings_of(follower_reads.PROPERTIES, source_name="the story")
    line = release.rpartition(".")[0]
    plain = options(brokers=3, topics=(), as_version=(line,))
    racked = msgspec.structs.replace(plain, racks=follower_reads.RACKS, settings=settings)
    return run_cluster(main, cluster_options=racked)


@pytest.mark.parametrize(
    ("release", "question"),
    [(release, question) for release, answers in RECORDED.items() for question in answers],
)
def test_the_simulator_answers_as_the_real_brokers(release: str, question: str) -> None:
    assert simulated_answers(release)[question] == RECORDED[release][question]


def test_every_question_was_asked_of_the_newest_release() -> None:
    assert simulated_answers(KAFKA_VERSION).keys() == RECORDED[KAFKA_VERSION].keys()
