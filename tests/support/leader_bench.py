"""One partition leader on a bench: real logs, a clock that moves by hand, a coordinator that
answers when a test says so.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

import msgspec

from tests.support.coordinator import ManualClock
from tests.support.gates import Gates
from tests.support.images import cluster, partition, topic
from tests.support.logs import batch
from tests.support.peer_network import RecordingNetwork, SentRequest
from txnsim.broker.fetch import FetchPath
from txnsim.broker.produce import ProduceCommand, ProducePartition, ProducePath
from txnsim.broker.verification import TransactionOperation, VerificationQueues
from txnsim.errors import ErrorCode
from txnsim.interbroker.transactions import AddPartitionsToTxnReply
from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.image import ClusterImage
from txnsim.node.peers import Peers
from txnsim.node.purgatory import Purgatory
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.replica.replicas import Replicas
from txnsim.replication.append_events import AppendEvents
from txnsim.replication.leader_appends import Commits, LeaderAppends, Watermarks
from txnsim.runtime.environment import Network
from txnsim.runtime.tasks import LoopTasks
from txnsim.runtime.trace import Tracer
from txnsim.settings import Settings
from txnsim.types import BrokerId, TopicPartition, TransactionalId
from txnsim.wire.batch import read_batch_header

P0: Final = TopicPartition("orders", 0)
P1: Final = TopicPartition("orders", 1)
NOT_LED: Final = TopicPartition("orders", 2)
UNKNOWN: Final = TopicPartition("orders", 3)
OLD = TransactionOperation.DEFAULT_ERROR
NEW = TransactionOperation.GENERIC_ERROR_SUPPORTED
ADD = TransactionOperation.ADD_PARTITION


def orders(**changes: Any) -> ClusterImage:
    """A topic of three partitions without followers; another broker leads the last one."""
    single_replica_image = partition(1, replicas=(1,))
    return cluster().with_topic(
        topic(
            "orders",
            single_replica_image,
            single_replica_image,
            partition(2, replicas=(2, 1)),
            **changes,
        )
    )


class LeaderBench:
    """Broker 1, as far as Produce and Fetch are concerned."""

    def __init__(
        self, image: ClusterImage | None = None, *, rules: Rules = LATEST_RULES, **settings: Any
    ) -> None:
        self.clock = ManualClock()
        self.settings = Settings(**settings)
        self.network = RecordingNetwork()
        self.tracer = Tracer(self.clock.monotonic_us, is_strict=True)
        tasks = LoopTasks(asyncio.get_running_loop())
        logs = BrokerLogs(self.settings, LATEST_RULES)
        logs.rules = rules
        self.replicas = Replicas(
            broker_id=BrokerId(1),
            logs=logs,
            image=cluster(),
            settings=self.settings,
            dynamic_settings=self.settings,
        )
        self.image = image or orders()
        self.apply(self.image)
        self.purgatory: Purgatory[TopicPartition] = Purgatory(self.clock, tasks)
        self.watermarks = Watermarks(
            clock=self.clock,
            replicas=self.replicas,
            purgatory=self.purgatory,
            log_events=AppendEvents(self.tracer, "broker/1"),
        )
        self.commits = Commits(replicas=self.replicas, purgatory=self.purgatory)
        self.verification = VerificationQueues(
            peers=Peers(
                network=cast(Network, self.network), broker_id=BrokerId(1), request_timeout_ms=9
            ),
            coordinator_of=lambda _: BrokerId(2),
            clock=self.clock,
            tasks=tasks,
            tracer=self.tracer,
            node="broker/1",
            rules=rules,
        )
        self.gates = Gates(tasks, broker_logs=logs)
        self.producing = ProducePath(
            clock=self.clock,
            tasks=tasks,
            replicas=self.replicas,
            appends=LeaderAppends(
                clock=self.clock,
                replicas=self.replicas,
                watermarks=self.watermarks,
                gate=self.gates.log,
                log_events=AppendEvents(self.tracer, "broker/1"),
            ),
            commits=self.commits,
            verification=self.verification,
            log_events=AppendEvents(self.tracer, "broker/1"),
            rules=rules,
        )
        self.fetching = FetchPath(
            settings=lambda: self.settings,
            replicas=self.replicas,
            purgatory=self.purgatory,
            fault_points=self.gates.fault_points,
            tracer=self.tracer,
            node="broker/1",
        )

    def apply(self, image: ClusterImage) -> None:
        """Publish new metadata to the bench's broker."""
        self.image = image
        self.replicas.apply(image, now_ms=self.clock.monotonic_ms())

    def set(self, **changes: Any) -> None:
        """Change settings, as a dynamic config would."""
        self.settings = self.replicas.dynamic_settings = msgspec.structs.replace(
            self.settings, **changes
        )

    def log(self, topic_partition: TopicPartition = P0) -> PartitionLog:
        """The log of a partition that the broker leads."""
        return self.replicas.led[topic_partition]

    @property
    def requests(self) -> list[SentRequest]:
        return self.network.sent

    def answer(self, *errors: ErrorCode, request_index: int = -1) -> None:
        """Answer a verification with one error per partition; partitions without one get NONE."""
        request = self.requests[request_index]
        remaining_errors = iter(errors)
        request.answer.resolve(
            AddPartitionsToTxnReply(
                results=tuple(
                    (
                        transaction.transactional_id,
                        tuple(
                            (part, next(remaining_errors, ErrorCode.none))
                            for part in transaction.partitions
                        ),
                    )
                    for transaction in request.command.transactions
                )
            )
        )


def part(
    topic_partition: TopicPartition = P0,
    sequence: int = -1,
    *,
    batch_data: bytes | None = None,
    **more_fields: Any,
) -> ProducePartition:
    """A partition of a Produce request; ``more`` are arguments of ``logs.batch``."""
    if batch_data is None:
        if sequence < 0:
            more_fields.setdefault("producer_id", -1)
        batch_data = batch(sequence, **more_fields)
    return ProducePartition(
        topic_partition=topic_partition, batch=batch_data, header=read_batch_header(batch_data)
    )


def produce(
    *partitions: ProducePartition,
    acks: int = -1,
    operation: TransactionOperation = OLD,
    timeout_ms: int = 1_000,
    may_write_internal_topics: bool = False,
) -> ProduceCommand:
    """A Produce request."""
    return ProduceCommand(
        transactional_id=TransactionalId("tx"),
        acks=acks,
        timeout_ms=timeout_ms,
        operation=operation,
        partitions=partitions,
        may_write_internal_topics=may_write_internal_topics,
    )


async def settle() -> None:
    """Let everything run that needs no time."""
    for _ in range(10):
        await asyncio.sleep(0)
