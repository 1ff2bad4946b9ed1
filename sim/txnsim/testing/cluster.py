"""A whole cluster for a test, asynchronous: ``async with AsyncSimulatedKafka() as kafka``.

It lives in the loop that starts it, real or virtual. ``blocking`` has its twin for clients that
block, which lives in a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from txnsim.runtime.env import Environment
from txnsim.server.cluster import SimCluster
from txnsim.testing import judging
from txnsim.testing.event_loop import Home, in_home
from txnsim.testing.faults import AsyncFaults
from txnsim.testing.histories import AsyncHistory
from txnsim.testing.life import AsyncBrokers, AsyncClock, AsyncLeaders
from txnsim.testing.options import Topics, Wanted, wanted
from txnsim.testing.reading import SETTLE_MS
from txnsim.testing.rebuilt_cluster import World
from txnsim.testing.recording import AsyncTrace
from txnsim.testing.topics import AsyncTopics, AsyncTransactions

DEFAULTS: Final = Wanted()


class AsyncSimulatedKafka:
    """A cluster of brokers in this process."""

    def __init__(
        self,
        *,
        brokers: int = DEFAULTS.brokers,
        topics: Topics = (),
        transaction_version: int | None = None,
        settings: Mapping[str, Any] | None = None,
        as_version: str | Sequence[str] = (),
        rules: Mapping[str, bool] | None = None,
        port: int = DEFAULTS.port,
        trace: str = DEFAULTS.trace,
        seed: int | None = None,
    ) -> None:
        """Nothing runs yet: use it as a context manager, or ``start`` it.

        Args:
            brokers: How many.
            topics: Name -> partitions, or names of topics with one partition; replicated to up to
                three brokers. Others are created when a client asks for them, as Kafka does.
            transaction_version: Level of the feature at start; the newest unless given.
            settings: By Kafka's names or ours (docs/settings.md).
            as_version: The release of Kafka to behave as; ``1=3.9`` for one broker.
            rules: Behaviours of before their fix, by name (docs/releases.md).
            port: First of consecutive ports; 0 picks free ones.
            trace: How much is recorded: ``off``, ``brief`` or ``full``.
            seed: Of what chance decides; a random one unless given.

        Raises:
            ConfigError: What is asked for can't be had.
        """
        asked = wanted(
            brokers=brokers,
            topics=topics,
            transaction_version=transaction_version,
            settings=settings or {},
            as_version=as_version,
            rules=rules or {},
            port=port,
            trace=trace,
            seed=seed,
        )
        self.wanted = asked
        """What was asked for."""
        self._given: tuple[Home | None, Environment | None] = (None, None)
        self._world: World | None = None

    @classmethod
    def of(
        cls, asked: Wanted, *, home: Home | None = None, environment: Environment | None = None
    ) -> Self:
        """A cluster as described.

        Args:
            asked: The description.
            home: The loop it is to live in; the running one at the start unless given.
            environment: The world it is to live in; a real one of its own unless given.
        """
        self = cls()
        self.wanted = asked
        self._given = (home, environment)
        return self

    # Life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start it; every broker serves clients when this returns.

        Raises:
            ConfigError: What is asked for can't be had.
            OSError: A port is busy.
            RuntimeError: It runs already.
        """
        if self._world is not None and self._world.is_running:
            raise RuntimeError("the cluster runs already")
        home, environment = self._given
        world = World(home or Home(asyncio.get_running_loop()), self.wanted, environment)
        await world.home.run(world.start())
        self._world = world
        self.faults = AsyncFaults(world)
        """Faults: arm, release, wait until one has struck."""
        self.clock = AsyncClock(world)
        """The cluster's clock."""
        self.brokers = AsyncBrokers(world)
        """Stop, start, kill, isolate brokers."""
        self.leaders = AsyncLeaders(world)
        """Who leads what."""
        self.topics = AsyncTopics(world)
        """Create topics, read them."""
        self.transactions = AsyncTransactions(world)
        """Transactions as an operator sees them."""
        self.trace = AsyncTrace(world)
        """What has happened."""
        self.history = AsyncHistory(world)
        """What was seen from outside, for the judges."""

    async def stop(self) -> None:
        """Stop it; harmless where it does not run."""
        if self._world is not None:
            await self._world.home.run(self._world.stop())

    @in_home
    async def reset(self) -> None:
        """Begin anew on the same addresses: no topics but the first ones, no records, no faults,
        no advanced clock. Clients lose their connections.

        Raises:
            ConfigError: It lives in virtual time.
        """
        self.faults.forget()
        await self.world.reset()

    # Looking

    @property
    def was_started(self) -> bool:
        """Whether it runs or has run."""
        return self._world is not None

    @property
    def world(self) -> World:
        """What is behind it.

        Raises:
            RuntimeError: It was never started.
        """
        if self._world is None:
            raise RuntimeError("the cluster does not run: start it, or use it as a context manager")
        return self._world

    @property
    def home(self) -> Home:
        """The cluster's loop."""
        return self.world.home

    @property
    def cluster(self) -> SimCluster:
        """The cluster itself, for what is not offered here; use it in its own loop only."""
        return self.world.sim

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, as clients take it (``bootstrap.servers``)."""
        return self.world.sim.bootstrap

    # Judging

    @in_home
    async def assert_no_hanging_transactions(self) -> None:
        """No transaction is open that nobody will end.

        Raises:
            AssertionError: There is one; the message names each, why it hangs, and its end.
        """
        judging.no_hanging_transactions(await self.transactions.hanging())

    @in_home
    async def assert_exactly_once(
        self,
        input: str | Iterable[Any],
        output: str | Iterable[Any],
        *,
        derive: Callable[[Any], Any] | None = None,
        settle_ms: int = SETTLE_MS,
    ) -> None:
        """Everything in the input is in the output once, and nothing else is.

        Args:
            input: A topic, whose committed records count; or what is owed, as values.
            output: A topic, of which a ``read_committed`` reader's view counts; or values that were
                read.
            derive: The output value of an input value, or several in a list; the same value
                unless given.
            settle_ms: How long to wait for open transactions to end.

        Raises:
            AssertionError: The message names what is missing, what is there more than once, and
                what is there though its input was aborted.
            ClientError: A topic can't be read.
        """
        admin = await self.world.admin()
        await judging.exactly_once(admin, input, output, derive=derive, settle_ms=settle_ms)

    @in_home
    async def assert_all_faults_struck(self) -> None:
        """Every fault that was armed has struck, but for those that may miss.

        Raises:
            AssertionError: One has not; the message names it.
        """
        judging.all_faults_struck(self.faults.states_now())
