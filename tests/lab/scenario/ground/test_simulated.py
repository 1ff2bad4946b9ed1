from __future__ import annotations

import pytest

from tests.support.stories import call, small
from txnsim.errors import ConfigError
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.types import TopicPartition
from txnsim_lab.scenario.ground.simulated import simulated_ground
from txnsim_lab.scenario.model import Topic


def test_it_is_the_cluster_that_the_run_asks_for() -> None:
    story = small([call("begin")], settings={"transaction.max.timeout.ms": 3_600_000})

    async def main(env: VirtualEnvironment) -> None:
        async with simulated_ground(story, story.runs["V-"], env) as ground:
            assert ground.settings.transaction_max_timeout_ms == 3_600_000
            assert ground.injector is ground.cluster.injector
            assert ground.bootstrap == ground.cluster.bootstrap
            assert (ground.prefix, ground.is_hidden(TopicPartition("t", 0))) == ("", False)
            await ground.create_topic("t", Topic(partitions=2))
            assert ground.topics["t"] == 2
            with pytest.raises(ConfigError, match="small: topic t: "):
                await ground.create_topic("t", Topic())
            before = env.clock.now_ms()
            await ground.advance(1_000)
            await ground.wait_out(60_000)
            assert env.clock.now_ms() - before >= 61_000
            assert ground.late() == 0
            assert ground.why_unfinished("app")[0] == "app is not known to any coordinator"

    run_virtual(main, seed=1)
