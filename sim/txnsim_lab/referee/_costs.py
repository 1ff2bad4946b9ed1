"""What a transaction takes under a design: requests and appends counted at the fault points, on a
quiet network, where a client's request takes ``HOP_US`` and its answer as much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from typing import Final

from txnsim.client.backoff import pause
from txnsim.faults.interception import Crossing, FaultEffect, Interceptor
from txnsim.faults.points import FaultPoint
from txnsim.runtime.trace_kinds import PEER_POLLS
from txnsim.runtime.virtual.run import VirtualEnvironment
from txnsim.wire.apis import api_name
from txnsim_lab.exploration.model import CLIENT_APIS
from txnsim_lab.referee.pairs import Designs
from txnsim_lab.referee.verdict import CostLine, Side
from txnsim_lab.scenario.stage import RunningStory
from txnsim_lab.simulation.plan import Act, Plan, Track, World
from txnsim_lab.simulation.play import play
from txnsim_lab.target.simulated import SimulatedTarget

TRANSACTIONS: Final = 5
"""So many of them are made, one after the other, and the sums divided by it."""
HOP_US: Final = 1_000
PAUSE_MS: Final = 2_000
"""Between two transactions: the markers of one are written before the next begins."""
MODES: Final = {"V+": "protocol v1", "TV2": "newest protocol"}
REQUESTS: Final = "requests of the client"
PEER_REQUESTS: Final = "requests between brokers"
APPENDS: Final = "batches that leaders append"
WAITED: Final = "time that the client waits, in round trips of 2 ms"
"""A wait of a broker before it tries again counts as so many round trips as it is long."""
_CALLS: Final = (
    {"do": "begin"},
    {"do": "send", "partition": "t-0", "value": "a"},
    {"do": "send", "partition": "t-1", "value": "b"},
    {"do": "commit"},
)


def count_costs(designs: Designs) -> tuple[CostLine, ...]:
    """Count what a transaction on two partitions takes, in each protocol that both designs have."""
    lines = []
    for mode, mode_text in MODES.items():
        counts_by_side = {side: _count(designs, side, mode) for side in Side}
        for count_name in (REQUESTS, PEER_REQUESTS, APPENDS, WAITED):
            a, b = (counts_by_side[side].get(count_name) for side in Side)
            lines.append(CostLine(what=count_name, mode=mode_text, a=a, b=b))
    return tuple(lines)


def _count(designs: Designs, side: Side, mode: str) -> dict[str, float]:
    """The average of each count; empty where a transaction fails even on a quiet network."""
    design = designs.side(side)
    counting = _Counting()
    with design.in_place():
        played_run = play(design.plan(_cost_plan(mode)), director=counting)
    counted_acts = played_run.acts[len(_CALLS) :]
    if len(counted_acts) < TRANSACTIONS * len(_CALLS) or any(
        act.error != "NONE" for act in counted_acts
    ):
        return {}
    waited_us = sum(act.took_us for act in counted_acts)
    counts = {
        count_name: counting.counts[count_name] / TRANSACTIONS
        for count_name in (REQUESTS, PEER_REQUESTS)
    }
    counts[APPENDS] = counting.counts[APPENDS] / TRANSACTIONS
    counts[WAITED] = waited_us / (2 * HOP_US) / TRANSACTIONS
    return {count_name: round(count, 2) for count_name, count in counts.items()}


def _cost_plan(mode: str) -> Plan:
    """An application that makes transactions on two partitions; the first one, which finds the
    leaders, is not counted.
    """
    planned_acts = tuple(
        Act(
            {"call": {"who": "app", **call}},
            after_ms=PAUSE_MS if call["do"] == "begin" else 0,
            unit=number,
        )
        for number in range(TRANSACTIONS + 1)
        for call in _CALLS
    )
    topic = {"partitions": 2, "replication-factor": 3, "leaders": [1, 2]}
    actor = {"plays": "application", "transactional-id": "app"}
    return Plan(
        seed=0,
        world=World(mode=mode, topics={"t": topic}, latency_us=(HOP_US, HOP_US)),
        tracks=(Track(name="app", acts=planned_acts, actor=actor),),
    )


class _Counting:
    """The director of such a run (``simulation.play.Director``), and its interceptor."""

    is_armed = True

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._is_counting = False
        self._inner_injector: Interceptor | None = None
        self._environment: VirtualEnvironment | None = None

    async def take_over(self, running_story: RunningStory, target: SimulatedTarget) -> None:  # noqa: ARG002 - the Director's
        """Become the interceptor of the run's messages."""
        assert isinstance(target.environment, VirtualEnvironment), "a run in virtual time"
        self._environment, self._inner_injector = target.environment, target.cluster.injector
        target.environment.network.interceptor = self

    async def before_act(self, track: Track, act: Act) -> None:  # noqa: ARG002 - the Director's
        """Count messages from the second transaction on."""
        self._is_counting = act.unit > 0

    async def until_all_arrived(self) -> None:
        """Wait until the last transaction's markers have arrived."""
        assert self._environment is not None
        await pause(self._environment.clock, PAUSE_MS)
        self._is_counting = False

    def cross(self, crossing: Crossing) -> FaultEffect | Awaitable[FaultEffect] | None:
        """Count a message (``Interceptor``)."""
        if self._is_counting:
            self._count(crossing)
        assert self._inner_injector is not None
        return self._inner_injector.cross(crossing) if self._inner_injector.is_armed else None

    def _count(self, crossing: Crossing) -> None:
        match crossing.point:
            case FaultPoint.CLIENT_REQUEST if api_name(crossing.api_key) in CLIENT_APIS:
                self.counts[REQUESTS] += 1
            case FaultPoint.PEER_REQUEST if crossing.api_key not in PEER_POLLS:
                self.counts[PEER_REQUESTS] += 1
            case FaultPoint.LOG_APPEND if crossing.role == "leader":
                self.counts[APPENDS] += 1
