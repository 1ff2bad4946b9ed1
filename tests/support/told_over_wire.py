"""Stories told over the wire, on a simulated cluster behind a proxy that stands for a real one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.support.proxied import ProxiedCluster, SimDisks, run_proxied
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.faults.plan import FaultRule
from txnsim.types import BrokerId, TopicPartition
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.on_real._adapting import adapted
from txnsim_lab.scenario.on_real.comparison import target_of
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.runner import RunResult, ScenarioRun, casts_of, run_on
from txnsim_lab.target.cleaning import Left
from txnsim_lab.target.real import real_target

PREFIX: Final = "mine-"


class Brokers(SimDisks):
    """The processes of the brokers of the cluster."""

    async def kill(self, number: int) -> None:
        await self.sim.kill_broker(BrokerId(number))

    async def shut_down(self, number: int) -> None:
        await self.sim.stop_broker(BrokerId(number))

    async def start_again(self, number: int) -> None:
        await self.sim.start_broker(BrokerId(number))


class Told:
    """What came of a story, and what it left."""

    def __init__(self) -> None:
        self.result: RunResult | None = None
        self.left: list[Left] | None = None
        self.topics: list[str] = []
        self.states: dict[str, str] = {}
        self.open: set[str] = set()
        """Topics that have a transaction open."""


def told(
    scenario: Scenario,
    *,
    run: str = "V-",
    take: str = "armed",
    prefix: str = PREFIX,
    looks: bool = True,
    faults: Sequence[FaultRule] = (),
    **cluster: Any,
) -> Told:
    """Tell a story on a cluster behind a proxy.

    Args:
        scenario: The story.
        run: Its mode.
        take: Armed or not.
        prefix: Of names.
        looks: Whether somebody looks at the cluster afterwards.
        faults: Of the cluster, for all of it.
        cluster: Settings.
    """
    told = Told()

    async def main(there: ProxiedCluster) -> None:
        for rule in faults:
            there.sim.injector.arm(rule)
        own = adapted(scenario, prefix)
        scenario_run = ScenarioRun(scenario=own, run=run, take=take)
        target = target_of(own, there.env, there.proxy, prefix=prefix, processes=Brokers(there.sim))

        def left(lines: list[Left]) -> None:
            told.left = lines

        casts = casts_of(scenario_run, Casting(player="own"))
        told.result = await run_on(scenario_run, there.env, casts, real_target(target, left=left))
        if not looks:
            return
        env = there.env
        async with Cluster(there.sim.bootstrap, clock=env.clock, tasks=env.tasks,
                           dial=env.network.connect) as client:  # fmt: skip
            admin = Admin(client)
            topics = await admin.describe_topics(None)
            told.topics = [one.name for one in topics]
            places = [TopicPartition(t.name, n) for t in topics for n in range(len(t.partitions))]
            for place, found in (await admin.describe_producers(places)).items():
                assert not isinstance(found, ClientError)
                if any(one.txn_start_offset is not None for one in found):
                    told.open.add(place.topic)
            for listed in (await admin.list_transactions()).values():
                assert isinstance(listed, tuple)
                told.states |= {one.transactional_id: one.state for one in listed}

    run_proxied(main, brokers=3, **cluster)
    return told
