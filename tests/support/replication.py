"""Replicas of one partition on a bench: real logs, leaders and followers, a controller that judges
AlterPartition, a clock that moves by hand, links that can be cut. Nothing runs until ``settle``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

import msgspec

from tests.support.coordinator import ManualClock
from tests.support.gates import Gates
from tests.support.images import B1, B2, B3, cluster, partition, topic
from txnsim.controller.isr_requests import decide_alter_partition
from txnsim.errors import PeerDisconnectedError
from txnsim.interbroker.replication import (
    AlterPartitionCommand,
    ReplicaFetchCommand,
    ReplicaOffsetCommand,
)
from txnsim.log.answers import Appended
from txnsim.log.leader_append import append_client
from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.image import ClusterImage, PartitionImage
from txnsim.node.peers import CONTROLLER_ID, Peers
from txnsim.node.purgatory import Purgatory
from txnsim.releases.rules import LATEST_RULES
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.replica.replicas import Replicas
from txnsim.replication.append_events import AppendEvents
from txnsim.replication.isr_changes import IsrChanges
from txnsim.replication.leader_appends import Batch, LeaderAppends, Watermarks
from txnsim.replication.replica_fetcher import ReplicaFetchers
from txnsim.replication.replica_sessions import ReplicaSessions
from txnsim.runtime.environment import Network, Tasks
from txnsim.runtime.loop_turns import Turns
from txnsim.runtime.tasks import Done, Pending
from txnsim.runtime.trace import Tracer
from txnsim.settings import Settings
from txnsim.types import BrokerId, LeaderEpoch, TopicPartition

TP: Final = TopicPartition("orders", 0)
ALL: Final = (B1, B2, B3)
TURNS_MAX: Final = 10_000


class ManualTasks:
    """The callbacks of ``env.Tasks``, which run on ``drain``."""

    stepping = False

    def __init__(self) -> None:
        self._due: deque[Callable[[], object]] = deque()
        self.turns = Turns(cast(asyncio.AbstractEventLoop, None))  # nobody waits for one

    def run_soon(self, callback: Callable[[], object]) -> None:
        self._due.append(callback)

    def drive(self, coroutine: Coroutine[Any, Any, Any], on_done: Done, *, name: str) -> None:
        try:
            coroutine.send(None)
        except StopIteration as stop:
            on_done(stop.value, None)
        else:
            raise AssertionError(f"{name} waits, and no fault is armed")

    def drain(self) -> None:
        for _ in range(TURNS_MAX):
            if not self._due:
                return
            self._due.popleft()()
        raise AssertionError("the exchange never ends")


class Node:
    """The parts of a broker that replicate logs."""

    def __init__(self, bench: ReplicaBench, broker_id: BrokerId, logs: BrokerLogs) -> None:
        clock, tasks = bench.clock, cast(Tasks, bench.tasks)
        self.logs = logs
        self.replicas = Replicas(
            broker_id=broker_id,
            logs=logs,
            image=ClusterImage(cluster_id="cluster"),
            settings=bench.settings,
            dynamic_settings=bench.settings,
        )
        self.purgatory: Purgatory[TopicPartition] = Purgatory(clock, tasks)
        peers = Peers(network=cast(Network, bench), broker_id=broker_id, request_timeout_ms=30_000)
        self.watermarks = Watermarks(
            clock=clock,
            replicas=self.replicas,
            purgatory=self.purgatory,
            log_events=AppendEvents(bench.tracer, f"broker/{broker_id}"),
        )
        self.isr_changes = IsrChanges(
            broker_id=broker_id,
            clock=clock,
            settings=lambda: bench.settings,
            image=lambda: self.replicas.image,
            peers=peers,
            replicas=self.replicas,
            watermarks=self.watermarks,
        )
        self.sessions = ReplicaSessions(
            clock=clock,
            tasks=tasks,
            replicas=self.replicas,
            watermarks=self.watermarks,
            isr_changes=self.isr_changes,
        )
        self.gates = Gates(tasks)
        self.appends = LeaderAppends(
            clock=clock,
            replicas=self.replicas,
            watermarks=self.watermarks,
            gate=self.gates.log,
            log_events=AppendEvents(bench.tracer, f"broker/{broker_id}"),
        )
        self.fetchers = ReplicaFetchers(
            gate=self.gates.log,
            broker_id=broker_id,
            clock=clock,
            tasks=tasks,
            replicas=self.replicas,
            peers=peers,
            purgatory=self.purgatory,
            log_events=AppendEvents(bench.tracer, f"broker/{broker_id}"),
        )
        self.isr_changes.start()

    def apply(self, image: ClusterImage, now_ms: int) -> None:
        changes = self.replicas.apply(image, now_ms=now_ms)
        for led_partition in changes.regrouped_partitions:
            self.watermarks.advance(led_partition)
        self.fetchers.apply(changes.followed_replicas, changes.unfollowed_partitions)

    def note_append(self, log: PartitionLog) -> None:
        """Do what follows an append at the leader, for a batch that is already in the log."""
        appended = Appended(
            base_offset=log.log_end_offset - 1,
            last_offset=log.log_end_offset - 1,
            log_append_time_ms=-1,
            log_start_offset=log.log_start_offset,
        )
        self.appends.append_admitted(log, Batch(lambda _log_state, now_ms: appended))

    def stop(self) -> None:
        self.isr_changes.stop()
        self.fetchers.stop()
        self.sessions.stop()

    @property
    def log(self) -> PartitionLog:
        return self.replicas.hosted[TP]


class ReplicaBench:
    """Three brokers that replicate ``TP``; the bench is also their ``env.Network``."""

    def __init__(
        self,
        *,
        replicas: tuple[BrokerId, ...] = ALL,
        isr: tuple[BrokerId, ...] | None = None,
        min_isr: int = 1,
        **settings: Any,
    ) -> None:
        self.clock = ManualClock()
        self.tasks = ManualTasks()
        self.settings = Settings(**settings)
        self.tracer = Tracer(self.clock.monotonic_us, is_strict=True)
        self.cut: set[BrokerId] = set()
        self.sent: list[tuple[BrokerId, BrokerId, Any]] = []
        self.nodes = {
            broker_id: Node(self, broker_id, BrokerLogs(self.settings, LATEST_RULES))
            for broker_id in ALL
        }
        self.image = cluster().with_topic(
            topic(
                "orders",
                partition(1, replicas=replicas, isr=isr),
                configs={"min.insync.replicas": str(min_isr)},
            )
        )
        self.publish(self.image)

    # The controller

    @property
    def partition(self) -> PartitionImage:
        partition = self.image.partition(TP)
        assert partition is not None
        return partition

    @property
    def leader(self) -> Node:
        return self.nodes[self.partition.leader]

    def publish(self, image: ClusterImage) -> None:
        self.image = image
        for broker_id, node in self.nodes.items():
            if broker_id not in self.cut:
                node.apply(image, self.clock.monotonic_ms())

    def lead(self, broker_id: BrokerId, *, isr: tuple[BrokerId, ...] | None = None) -> None:
        """Make a broker the leader of a new epoch, optionally with another ISR."""
        image_before = self.partition
        self.publish(
            self.image.with_partition(
                TP,
                msgspec.structs.replace(
                    image_before,
                    leader=broker_id,
                    leader_epoch=LeaderEpoch(image_before.leader_epoch + 1),
                    partition_epoch=image_before.partition_epoch + 1,
                    isr=image_before.isr if isr is None else isr,
                ),
            )
        )

    # Links

    def isolate(self, broker_id: BrokerId) -> None:
        self.cut.add(broker_id)

    def heal(self, broker_id: BrokerId) -> None:
        self.cut.discard(broker_id)
        self.nodes[broker_id].apply(self.image, self.clock.monotonic_ms())

    def restart(self, broker_id: BrokerId) -> Node:
        """Replace a broker by a new process on the same disk, as after a kill."""
        old_node = self.nodes[broker_id]
        old_node.stop()
        old_node.logs.reopen(self.image, broker_id, now_ms=self.clock.now_ms())
        node = self.nodes[broker_id] = Node(self, broker_id, old_node.logs)
        node.apply(self.image, self.clock.monotonic_ms())
        return node

    def ask(
        self,
        source: BrokerId,
        target: BrokerId,
        _api_key: int,
        _api_version: int,
        command: Any,
        *,
        timeout_ms: int,
    ) -> Pending[Any]:
        answer_future: Pending[Any] = Pending(self.tasks)
        self.sent.append((source, target, command))

        def fail() -> None:
            answer_future.fail(PeerDisconnectedError("cut"))

        def give(reply: Any) -> None:
            self.tasks.run_soon(
                fail if self.cut & {source, target} else lambda: answer_future.resolve(reply)
            )

        def arrive() -> None:
            if self.cut & {source, target}:
                fail()
                return
            match command:
                case ReplicaFetchCommand():
                    reply_future = self.nodes[target].sessions.fetch(command)
                    reply_future.on_done(lambda fetched: give(fetched.result()))
                case ReplicaOffsetCommand():
                    give(self.nodes[target].sessions.list_offset(command))
                case AlterPartitionCommand():
                    assert target == CONTROLLER_ID
                    outcome = decide_alter_partition(self.image, command, self.settings)
                    give(outcome.reply)
                    if outcome.image is not self.image:
                        self.publish(outcome.image)
                case _:
                    raise AssertionError(command)

        self.tasks.run_soon(arrive)
        return answer_future

    def settle(self, *, seconds: int = 0) -> None:
        """Run all pending work, then let ``seconds`` pass."""
        self.tasks.drain()
        for _ in range(seconds * 10):
            self.clock.pass_ms(100)
            self.tasks.drain()

    # Writing

    def append(self, batch: bytes, *, node: Node | None = None) -> int | None:
        """Append a producer's batch at the leader, or at ``node`` that believes to lead; returns
        its offset.
        """
        node = node or self.leader
        log = node.replicas.led[TP]
        result = append_client(log, batch, guard=0, now_ms=self.clock.now_ms())
        base_offset = getattr(result, "base_offset", None)
        if base_offset is not None:
            node.note_append(log)
        return base_offset
