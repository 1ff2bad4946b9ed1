from __future__ import annotations

import pytest

from tests.support.stories import call, small
from txnsim.controller.controller import NewTopic
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.types import BrokerId, TopicPartition
from txnsim_lab.scenario.stage import simulated_target
from txnsim_lab.target.cluster import TargetError


def test_it_is_the_cluster_that_the_run_asks_for() -> None:
    story = small([call("begin")], settings={"transaction.max.timeout.ms": 3_600_000})

    async def main(env: VirtualEnvironment) -> None:
        async with simulated_target(story, story.runs["V-"], env) as target:
            assert target.settings.transaction_max_timeout_ms == 3_600_000
            assert target.injector is target.cluster.injector
            assert target.bootstrap == target.cluster.bootstrap
            assert (target.prefix, target.is_hidden(TopicPartition("t", 0))) == ("", False)
            one, two = ((number, (BrokerId(number + 1),)) for number in range(2))
            await target.create_topic(NewTopic(name="t", assignments=(one, two)))
            assert target.topics["t"] == 2
            with pytest.raises(TargetError, match="topic t: TOPIC_ALREADY_EXISTS"):
                await target.create_topic(NewTopic(name="t", assignments=(one,)))
            before = env.clock.now_ms()
            await target.advance(1_000)
            await target.wait_out(60_000)
            assert env.clock.now_ms() - before >= 61_000
            assert target.late() == 0
            assert target.why_unfinished("app")[0] == "app is not known to any coordinator"

    run_virtual(main, seed=1)
