"""What one more topic costs does not depend on how many there are."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.call_counts import counter, counts
from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.controller.controller import NewTopic
from txnsim.metadata.image import TopicImage


@pytest.mark.parametrize("name", ["one-more", "one.more", "one_more.with_marks"])
def test_a_topic_costs_the_same_beside_few_and_beside_many(name: str) -> None:
    async def main(cluster: VirtualCluster) -> tuple[int, int]:
        def create(names: list[str]) -> None:
            wanted = [NewTopic(name=one, partitions=1, replication_factor=3) for one in names]
            made = cluster.sim.metadata.create_topics(wanted)
            assert all(isinstance(one, TopicImage) for one in made)

        found = []
        for count in (10, 300):
            create([f"t{count}.{number}" for number in range(count)])
            profile = counter()
            profile.enable()
            for number in range(16):  # faster than followers get their first answer
                create([f"{name}-{count}-{number}"])
                await asyncio.sleep(0.001)
            profile.disable()
            found.append(sum(counts(profile).values()))
        return found[0], found[1]

    few, many = run_cluster(main, topics=())
    assert many < few * 1.5
