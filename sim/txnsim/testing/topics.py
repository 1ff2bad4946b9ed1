"""Topics and transactions of a cluster, from Python: made, and looked at from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.client.errors import ClientError
from txnsim.client.inspection.judgement import Finding
from txnsim.client.inspection.repair import Repair, repair
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.client.inspection.txn_views import (
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from txnsim.client.offsets import EARLIEST, LATEST
from txnsim.controller.controller import NewTopic
from txnsim.errors import ConfigError
from txnsim.metadata.image import TopicImage
from txnsim.testing.event_loop import in_home
from txnsim.testing.reading import SETTLE_MS, Fate, ReadRecord, read_topic
from txnsim.testing.rebuilt_cluster import Inhabitant
from txnsim.types import IsolationLevel, TopicPartition

REPLICAS_MAX: Final = 3
WAIT_MS: Final = 30_000


class Offsets(msgspec.Struct, frozen=True, kw_only=True):
    """How far a partition is."""

    log_start: int
    last_stable: int
    """Where ``read_committed`` readers stop."""
    high_watermark: int


class AsyncTopics(Inhabitant):
    """The topics of one cluster."""

    @in_home
    async def create(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; it is there for every client when this returns.

        Args:
            name: Its name.
            partitions: How many.
            replication_factor: Three, or as many as there are brokers, unless given.
            configs: ``{"cleanup.policy": "compact"}``, by Kafka's names.

        Raises:
            ConfigError: It can't be created; the message says why.
        """
        sim = self._world.sim
        factor = min(REPLICAS_MAX, len(sim.members))
        created = sim.metadata.create_topic(
            NewTopic(
                name=name,
                partitions=partitions,
                replication_factor=factor if replication_factor is None else replication_factor,
                configs=dict(configs or {}),
            )
        )
        if not isinstance(created, TopicImage):
            raise ConfigError(f"topic {name}: {created.reason}")

    @in_home
    async def names(self) -> tuple[str, ...]:
        """Every topic that is not Kafka's own."""
        topics = self._world.sim.metadata.image.topics
        return tuple(sorted(name for name, topic in topics.items() if not topic.is_internal))

    @in_home
    async def read(self, name: str, *, settle_ms: int = SETTLE_MS) -> tuple[ReadRecord, ...]:
        """Everything in a topic, with the fate of each record.

        Args:
            name: Of the topic.
            settle_ms: How long to wait for open transactions to end.

        Raises:
            ClientError: It can't be read.
        """
        return await read_topic(await self._world.admin(), name, settle_ms=settle_ms)

    @in_home
    async def committed(self, name: str, *, settle_ms: int = SETTLE_MS) -> list[bytes | None]:
        """The values that a ``read_committed`` reader is given, by partition and offset.

        Args:
            name: Of the topic.
            settle_ms: How long to wait for open transactions to end.

        Raises:
            ClientError: It can't be read.
        """
        records = await read_topic(await self._world.admin(), name, settle_ms=settle_ms)
        return [record.value for record in records if record.fate is Fate.COMMITTED]

    @in_home
    async def offsets(self, name: str, partition: int = 0) -> Offsets:
        """How far a partition is, as its leader tells a reader.

        Raises:
            ClientError: It was not told.
        """
        admin = await self._world.admin()
        where = TopicPartition(name, partition)
        return Offsets(
            log_start=await admin.offset_of(where, EARLIEST),
            last_stable=await admin.offset_of(where, LATEST, IsolationLevel.READ_COMMITTED),
            high_watermark=await admin.offset_of(where, LATEST),
        )


class AsyncTransactions(Inhabitant):
    """The transactions of one cluster, as an operator sees them."""

    @in_home
    async def list(self) -> tuple[TransactionListing, ...]:
        """Every transactional id that a coordinator knows, by name.

        Raises:
            ClientError: A coordinator did not answer.
        """
        rows: list[TransactionListing] = []
        for answer in (await (await self._world.admin()).list_transactions()).values():
            if isinstance(answer, ClientError):
                raise answer
            rows += answer
        return tuple(sorted(rows, key=lambda row: row.transactional_id))

    @in_home
    async def describe(self, transactional_id: str) -> TransactionDescription | None:
        """What the coordinator says of a transactional id; None where it does not know it."""
        return await self._described(transactional_id)

    @in_home
    async def producers(self, topic: str, partition: int = 0) -> tuple[ProducerState, ...]:
        """What a partition's leader knows of producers.

        Raises:
            ClientError: It did not say.
        """
        where = TopicPartition(topic, partition)
        found = (await (await self._world.admin()).describe_producers([where]))[where]
        if isinstance(found, ClientError):
            raise found
        return found

    @in_home
    async def wait_for_state(
        self, transactional_id: str, *states: str, timeout_ms: int = WAIT_MS
    ) -> TransactionDescription:
        """Wait until the coordinator describes a transaction so.

        Args:
            transactional_id: Whose.
            states: One of these: ``Ongoing``, ``CompleteAbort`` …
            timeout_ms: How long at most.

        Raises:
            TimeoutError: It is in none of them by then; the message says in which it is.
        """
        outside = await self._world.outside()
        deadline, backoff = outside.deadline(timeout_ms), outside.backoff()
        while True:
            found = await self._described(transactional_id)
            if found is not None and found.state in states:
                return found
            if deadline.passed:
                state = "not known" if found is None else found.state
                wished = " or ".join(states)
                raise TimeoutError(
                    f"{transactional_id} is {state} after {timeout_ms} ms, not {wished}"
                )
            await backoff.wait(deadline, at_most_ms=50)

    @in_home
    async def hanging(self) -> tuple[Finding, ...]:
        """The open transactions that nobody will end, however young, each with the reason.

        Raises:
            ClientError: A coordinator did not answer.
        """
        return await self._hanging()

    @in_home
    async def repair(self) -> tuple[Repair, ...]:
        """End what hangs as an operator does: judged again, aborted, looked at afterwards.

        Raises:
            ClientError: Somebody did not answer.
        """
        admin = await self._world.admin()
        now_ms = self._world.environment.clock.now_ms()
        return tuple([await repair(admin, one, now_ms=now_ms) for one in await self._hanging()])

    async def _hanging(self) -> tuple[Finding, ...]:
        now_ms = self._world.environment.clock.now_ms()
        admin = await self._world.admin()
        return (await survey(admin, now_ms=now_ms, older_than_ms=ANY_AGE)).hanging

    async def _described(self, transactional_id: str) -> TransactionDescription | None:
        admin = await self._world.admin()
        answer = (await admin.describe_transactions([transactional_id]))[transactional_id]
        return None if isinstance(answer, ClientError) else answer
