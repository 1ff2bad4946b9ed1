"""Who looks after the cluster: searches, aborts, deletes, fences, describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from txnsim.check.observations import Finding
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.inspection.txn_views import AbortSpec, ProducerState
from txnsim.client.partition_requests import delete_records
from txnsim.errors import InvariantViolation
from txnsim.scenario.actors.base import Surroundings
from txnsim.scenario.answers import Answer, StoryFailedError, failure, read_answer
from txnsim.scenario.steps_model import Call
from txnsim.types import TopicPartition

TIMEOUT_MS: Final = 30_000


class OperatorActor:
    """Kafka's admin client in somebody's hands."""

    def __init__(self, name: str, around: Surroundings) -> None:
        self.name = name
        self._around = around
        self._cluster: Cluster | None = None
        self._found: tuple[tuple[TopicPartition, ProducerState], ...] = ()
        """What find-hanging named last."""

    async def call(self, call: Call, *, wanted: str, sent: Callable[[], object]) -> Answer:
        """See ``base.Actor``."""
        del wanted  # what an admin client asks again is its own affair
        sent()
        try:
            return await self._call(call)
        except ClientError as error:
            return failure(error)

    async def _call(self, call: Call) -> Answer:
        match call.do:
            case "find-hanging":
                return await self.find_hanging(call.names)
            case "abort-found":
                for place, producer in self._found:
                    await self._abort(place, producer)
                return Answer()
            case "abort":
                return await self._abort_at(call)
            case "delete-records":
                return await self._delete_records(call)
            case "fence":
                return await self._fence(call.transactional_id or "")
            case "describe":
                return await self._describe(call.transactional_id or "", call.state)
            case "producers":
                assert call.partition is not None, "the file was accepted"
                await self.producers(call.partition)
                return Answer()
        raise InvariantViolation(f"{self.name} can't {call.do!r}, and the file was accepted")

    async def admin(self) -> Admin:
        """The admin client, connected when it is needed first."""
        if self._cluster is None:
            self._cluster = self._around.client(self.name)
            await self._cluster.connect()
        return Admin(self._cluster)

    # Search and repair

    async def find_hanging(self, names: tuple[TopicPartition, ...] | None = None) -> Answer:
        """Search the whole cluster; ``names`` are the partitions that must be named."""
        found = await (await self.admin()).find_hanging(
            now_ms=self._around.environment.clock.now_ms()
        )
        self._found = tuple((one.partition, one.producer) for one in found)
        self._around.recorder.searched(self.name, [_finding(*one) for one in self._found])
        for place, producer in self._found:
            self._around.tell(
                self.name,
                f"find-hanging names {place}: producer {producer.producer_id}, epoch "
                f"{producer.producer_epoch}, open since offset {producer.txn_start_offset}",
            )
        if not found:
            self._around.tell(self.name, "find-hanging names nothing: there is nothing to abort")
        seen = tuple(place for place, _ in self._found)
        if names is not None and sorted(names, key=str) != sorted(seen, key=str):
            raise StoryFailedError(
                f"find-hanging names {[*map(str, seen)]}, expected {[*map(str, names)]}"
            )
        return Answer()

    async def _abort(self, place: TopicPartition, producer: ProducerState) -> Answer:
        try:
            await (await self.admin()).abort_transaction(AbortSpec.of(place, producer))
        except ClientError as error:
            answer = failure(error)
        else:
            answer = Answer()
        start = producer.txn_start_offset
        self._around.recorder.aborted(
            self.name,
            place,
            answer,
            producer_id=producer.producer_id,
            start=-1 if start is None else start,
        )
        return answer

    async def _abort_at(self, call: Call) -> Answer:
        place = call.partition
        assert place is not None, "the file was accepted"
        for producer in await self.producers(place):
            if producer.txn_start_offset == call.start_offset:
                return await self._abort(place, producer)
        raise StoryFailedError(f"no transaction is open on {place} since {call.start_offset}")

    async def _delete_records(self, call: Call) -> Answer:
        place = call.partition
        assert place is not None, "the file was accepted"
        assert call.before is not None, "the file was accepted"
        admin = await self.admin()
        leader = await admin.cluster.leader(place)
        message = await admin.cluster.ask(
            leader.leader_id, delete_records({place: call.before}, timeout_ms=TIMEOUT_MS)
        )
        return read_answer(message)

    async def _fence(self, transactional_id: str) -> Answer:
        outcome = (await (await self.admin()).fence_producers([transactional_id]))[transactional_id]
        if isinstance(outcome, ClientError):
            return failure(outcome)
        answer = Answer()
        self._around.recorder.initialised(self.name, transactional_id, outcome, answer)
        return answer

    # Looks

    async def _describe(self, transactional_id: str, state: str | None) -> Answer:
        outcome = (await (await self.admin()).describe_transactions([transactional_id]))[
            transactional_id
        ]
        if isinstance(outcome, ClientError):
            return failure(outcome)
        self._around.recorder.described(self.name, outcome)
        where = ", ".join(map(str, outcome.partitions)) or "no partition"
        self._around.tell(
            self.name,
            f"DescribeTransactions says that {transactional_id} is {outcome.state} with {where}",
        )
        if state is not None and state != outcome.state:
            raise StoryFailedError(f"{transactional_id} is {outcome.state}, expected {state}")
        return Answer()

    async def describe_all(self) -> None:
        """Look at every transaction of the cluster."""
        admin = await self.admin()
        listed = await admin.list_transactions()
        told = [found for found in listed.values() if not isinstance(found, ClientError)]
        rows = [one for found in told for one in found]
        if len(told) == len(listed):
            self._around.recorder.listed(self.name, rows)
        ids = sorted({one.transactional_id for one in rows})
        for found in (await admin.describe_transactions(ids)).values():
            if not isinstance(found, ClientError):
                self._around.recorder.described(self.name, found)

    async def producers(self, place: TopicPartition) -> tuple[ProducerState, ...]:
        """Look at who has written to a partition.

        Raises:
            ClientError: Its leader did not say.
        """
        found = (await (await self.admin()).describe_producers([place]))[place]
        if isinstance(found, ClientError):
            raise found
        self._around.recorder.producers(self.name, place, found)
        return found

    async def give_up(self, call: Call) -> None:
        """Never asked for: nothing of an operator is in the background."""

    async def close(self) -> None:
        """Leave."""
        if self._cluster is not None:
            await self._cluster.close()


def _finding(place: TopicPartition, producer: ProducerState) -> Finding:
    start = producer.txn_start_offset
    return Finding(
        topic=place.topic,
        partition=place.partition,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        start_offset=-1 if start is None else start,
    )
