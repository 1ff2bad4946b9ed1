"""A served cluster to which drawn things are done, through its control port and by clients: faults,
deletions, resets, kills, moves, DeleteRecords, recording off and on, share consumers. And a look at
it from outside, as any client could, which knows nothing of the judge.
"""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Self, TypeVar

import msgspec

from tests.support.hanging_transaction import make_hanging
from tests.support.txnsim_server import TxnsimServer
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.inspection.waiting_readers import explain
from txnsim.client.members.membership import MemberOptions
from txnsim.client.members.share import ShareMember
from txnsim.client.offsets import LATEST_TIMESTAMP
from txnsim.client.producer import Producer
from txnsim.runtime.rng import RandomStreams
from txnsim.types import IsolationLevel, TopicPartition

TOPICS: Final = ("orders", "pay")
IDS: Final = ("a", "b", "c")
GHOST: Final = "ghost"
ANSWER_S: Final = 3
_T = TypeVar("_T")


class OutsidePartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as clients see it."""

    leader_id: int
    stable_offset: int | None
    """None if its leader does not answer."""
    has_unlisted: bool | None
    """Whether a transaction is open there that no coordinator lists; None if one does not answer.
    """
    why: str | None
    """Where readers stand, by ``txns why``; None if it can't tell."""


class DrawnCluster:
    """Carries out drawn acts; an act that the cluster refuses is no failure."""

    def __init__(self, server: TxnsimServer, seed: int) -> None:
        self._server = server
        self._random = RandomStreams(seed).stream("drawn moments")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._producers: dict[str, Producer] = {}
        self._rule_count = 0
        self.has_gap = False
        """Whether a part of this cluster's life is not in the trace."""
        self.is_recording = True
        self.steps: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self._cluster = self._do(self._connect())
        self._admin = Admin(self._cluster)
        for topic in TOPICS:
            self.ask("POST", "topics", {"name": topic, "partitions": 2})
        return self

    def __exit__(self, *_raised: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _connect(self) -> Cluster:
        return Cluster(self._server.bootstrap, settings=ClientSettings(api_timeout_ms=2_000))

    async def _close(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._cluster.close()

    def _do(self, work_coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work_coroutine, self._loop).result(60)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Ask the control port; None if it refuses."""
        request = urllib.request.Request(
            f"{self._server.http}/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            error.close()
            return None
        return json.loads(text) if text else None

    # Steps

    def step(self) -> None:
        """Do one drawn act."""
        client_acts: tuple[tuple[int, Callable[[], Awaitable[object]]], ...] = (
            (6, self._send),
            (3, self._end),
            (1, self._hang),
            (1, self._delete_records),
            (1, self._share),
        )
        port_acts: tuple[tuple[int, Callable[[], object]], ...] = (
            (1, self._delete_topic),
            (1, self._make_topic),
            (1, self._kill),
            (3, self._start),
            (1, self._move),
            (1, self._arm),
            (2, self._disarm),
            (1, self._advance),
            (1, self._switch_recording),
            (1, self._reset),
        )
        choices = [*client_acts, *port_acts]
        (act,) = self._random.choices(
            [act for _, act in choices], [weight for weight, _ in choices]
        )
        self.steps.append(act.__name__.strip("_"))
        if act in [client_act for _, client_act in client_acts]:
            self._do(self._try(act))
        else:
            act()

    async def _try(self, act: Callable[[], Any]) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                await act()
        except (ClientError, TimeoutError, AssertionError):
            self._producers.clear()

    def _partition(self) -> TopicPartition:
        return TopicPartition(self._random.choice(TOPICS), self._random.randrange(2))

    async def _send(self) -> None:
        transactional_id = self._random.choice(IDS)
        producer = self._producers.get(transactional_id)
        if producer is None:
            producer = Producer(self._cluster, transactional_id=transactional_id)
            await producer.init_transactions()
            producer.begin()
            self._producers[transactional_id] = producer
        partition = self._partition()
        await producer.send(partition.topic, partition.partition, b"x")

    async def _end(self) -> None:
        if self._producers:
            transactional_id = self._random.choice(sorted(self._producers))
            producer = self._producers.pop(transactional_id)
            await (producer.commit() if self._random.random() < 0.5 else producer.abort())

    async def _hang(self) -> None:
        await make_hanging(self._admin, self._partition(), GHOST, age_ms=0)

    async def _delete_records(self) -> None:
        await self._admin.delete_records(self._partition(), -1)

    async def _share(self) -> None:
        partition = self._partition()
        await self._admin.set_group_config("shared", "share.isolation.level", "read_committed")
        member = ShareMember(self._cluster, MemberOptions(group_id="shared", member_id="m"))
        try:
            await member.subscribe([partition.topic])
            await member.poll(max_wait_ms=100, timeout_ms=1_000)
        finally:
            await member.close()

    def _delete_topic(self) -> None:
        self.ask("DELETE", f"topics/{self._random.choice(TOPICS)}")

    def _make_topic(self) -> None:
        factor = self._random.choice((1, 3))
        topic = {"name": self._random.choice(TOPICS), "partitions": 2, "replication_factor": factor}
        self.ask("POST", "topics", topic)

    def _brokers(self, state: str) -> list[int]:
        return [broker["id"] for broker in self.ask("GET", "brokers") if broker["state"] == state]

    def _kill(self) -> None:
        running_brokers = self._brokers("running")
        if len(running_brokers) > 1:
            self.ask("POST", f"brokers/{self._random.choice(running_brokers)}/kill")

    def _start(self) -> None:
        for broker_id in self._brokers("down")[:1]:
            self.ask("POST", f"brokers/{broker_id}/start")

    def _move(self) -> None:
        partition = self._partition()
        partition_fields = {"topic": partition.topic, "partition": partition.partition}
        self.ask("POST", "leaders", {**partition_fields, "leader": self._random.randrange(1, 4)})

    def _arm(self) -> None:
        self._rule_count += 1
        point_fields = {"point": self._random.choice(("peer.request", "peer.response"))}
        action = self._random.choice(
            ({"do": "hold"}, {"do": "drop"}, {"do": "delay", "delay_ms": 3_000})
        )
        rule = {"id": f"rule-{self._rule_count}", "api": "WriteTxnMarkers", "limit": 1}
        self.ask("POST", "faults", {**rule, **point_fields, "action": action})

    def _disarm(self) -> None:
        for fault in self.ask("GET", "faults"):
            self.ask("DELETE", f"faults/{fault['rule']['id']}")

    def _advance(self) -> None:
        self.ask("POST", "clock", {"advance_ms": self._random.choice((1_000, 20_000))})

    def _switch_recording(self) -> None:
        self.is_recording = not self.is_recording
        self.has_gap = True
        self.ask("POST", "trace", {"level": "brief" if self.is_recording else "off"})

    def _reset(self) -> None:
        self._producers.clear()
        self.has_gap = not self.is_recording
        self.ask("POST", "reset")

    # From outside

    def look(self) -> dict[str, OutsidePartition]:
        """The state of each partition that is not internal, as clients see it."""
        return self._do(self._look())

    async def _look(self) -> dict[str, OutsidePartition]:
        try:
            async with asyncio.timeout(ANSWER_S):
                topics = await self._admin.describe_topics(None)
        except (ClientError, TimeoutError):
            return {}
        listed_transactions = await self._listed()
        return {
            str(topic_partition): await self._look_at(
                topic_partition, partition.leader_id, listed_transactions
            )
            for topic in topics
            if topic.name in TOPICS
            for partition in topic.partitions
            for topic_partition in (TopicPartition(topic.name, partition.partition),)
        }

    async def _listed(self) -> set[tuple[int, TopicPartition]] | None:
        """Producer id and partition of each transaction at the coordinators; None without an
        answer.
        """
        listed_transactions = set()
        for transactional_id in (*IDS, GHOST):
            try:
                async with asyncio.timeout(ANSWER_S):
                    description = await self._admin.describe_transaction(transactional_id)
            except ClientError as error:
                if "TRANSACTIONAL_ID_NOT_FOUND" in str(error).upper().replace(" ", "_"):
                    continue
                return None
            except TimeoutError:
                return None
            listed_transactions |= {
                (description.producer_id, partition) for partition in description.partitions
            }
        return listed_transactions

    async def _look_at(
        self,
        partition: TopicPartition,
        leader_id: int,
        listed_transactions: set[tuple[int, TopicPartition]] | None,
    ) -> OutsidePartition:
        unanswered_partition = OutsidePartition(
            leader_id=leader_id, stable_offset=None, has_unlisted=None, why=None
        )
        if leader_id < 0:
            return unanswered_partition
        try:
            async with asyncio.timeout(ANSWER_S):
                producers = await self._admin.producers_of(partition)
                stable_offset = await self._admin.offset_of(
                    partition, LATEST_TIMESTAMP, IsolationLevel.READ_COMMITTED
                )
                now_ms = self._cluster.clock.now_ms()
                explanation = await explain(self._admin, partition, now_ms=now_ms)
        except (ClientError, TimeoutError):
            return unanswered_partition
        has_unlisted = None
        if listed_transactions is not None:
            has_unlisted = any(
                (producer.producer_id, partition) not in listed_transactions
                for producer in producers
                if producer.txn_start_offset is not None
            )
        return OutsidePartition(
            leader_id=leader_id,
            stable_offset=stable_offset,
            has_unlisted=has_unlisted,
            why=explanation.verdict.standing,
        )
