"""A transaction that hangs, made on a running cluster, with its story told into the trace.

The page's button makes it, and nothing beside it. It is made as it happens in production: a Produce
is late, its producer gives up and aborts, and the Produce arrives behind the ABORT marker.
Verification is off meanwhile, as before Apache Kafka 3.6; with it the leader refuses (KIP-890).
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.client import requests
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ErrorCode
from txnsim.client.producer import Producer
from txnsim.client.session import TxnProtocol
from txnsim.faults.actions import Hold
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.runtime.trace import Tracer
from txnsim.scenario.practise_situation import HOUR_MS, VERIFICATION
from txnsim.server.cluster import SimCluster
from txnsim.trace.story import NARRATOR
from txnsim.types import ProducerIdAndEpoch, TopicPartition
from txnsim.wire.batch import Record, build_batch

CLIENT: Final = "app"
"""The client id of the application."""
RULE: Final = "late-produce"
"""Id of the rule that holds the Produce; it is gone when the story has ended."""
TARGET: Final = TopicPartition("orders", 0)
_OLD_FLOW: Final = TxnProtocol.V1


async def make(cluster: SimCluster, client: Cluster, *, transactional_id: str) -> None:
    """Tell the story once, on a cluster that has the topic.

    Args:
        cluster: Where.
        client: The application's connections; its client id is ``CLIENT``.
        transactional_id: Of the application. A new one each time, or the transaction that hangs
            already would only go on.

    Raises:
        ClientError: A request was refused or not answered.
    """
    admin = Admin(client)
    await admin.set_broker_default(VERIFICATION, "false")
    try:
        await _Story(cluster, client, transactional_id).play()
    finally:
        if cluster.injector.get(RULE) is not None:
            cluster.injector.disarm(RULE)
        await admin.set_broker_default(VERIFICATION, None)


class _Story:
    """One telling."""

    def __init__(self, cluster: SimCluster, client: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._client = client
        self._id = transactional_id
        self._tracer: Tracer = cluster.environment.tracer

    async def play(self) -> None:
        self._tell(f"An application begins a transaction: T1 of {self._id}.")
        identity = await self._identity()
        await self._begin(identity)
        self._tell("It sends a record. The Produce is slow: here a fault rule holds it on its way.")
        rule = FaultRule(
            id=RULE,
            point=FaultPoint.CLIENT_REQUEST,
            api="Produce",
            client_id=CLIENT,
            action=Hold(),
        )
        self._cluster.injector.arm(rule)
        late = self._client.tasks.spawn(self._produce(identity), name="late Produce")
        try:
            timeout_ms = self._client.settings.request_timeout_ms
            await self._cluster.injector.wait_until_struck(RULE, timeout_ms=timeout_ms)
            self._tell(
                "No answer comes. The application gives up and aborts. The ABORT marker is written:"
                " for the coordinator T1 is over."
            )
            await self._abort(identity)
            await self._identity()  # it is given once the ABORT marker is written
            self._tell(
                "Now the Produce arrives. The leader takes it, as verification is off:"
                " T1 is open again there, and nobody will end it. With verification the leader asks"
                " the coordinator first, for whom T1 is over, and refuses the Produce (KIP-890)."
            )
            self._cluster.injector.release(RULE)
            await late
        finally:
            late.cancel()
        self._tell(f"read_committed consumers of {TARGET} wait for a marker that never comes.")

    def _tell(self, text: str) -> None:
        if self._tracer.on:
            self._tracer.emit("note", NARRATOR, data={"text": text})

    async def _identity(self) -> ProducerIdAndEpoch:
        """As a producer that starts gets it, with an epoch of its own."""
        return await Producer(self._client, transactional_id=self._id).init_transactions()

    async def _begin(self, identity: ProducerIdAndEpoch) -> None:
        with self._client.trace.call("begin", id=self._id):
            add = requests.add_partitions_to_txn(
                self._id, **msgspec.structs.asdict(identity), partitions=(TARGET,)
            )
            await self._client.ask(await self._client.coordinator(self._id), add)

    async def _produce(self, identity: ProducerIdAndEpoch) -> None:
        batch = build_batch(
            [Record(value=b"late")],
            # Tools that look at ages find it at once.
            timestamp_ms=self._client.clock.now_ms() - HOUR_MS,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        produce = requests.produce(
            {TARGET: batch},
            topic_ids={},
            transactional_id=self._id,
            within=_OLD_FLOW.produce_versions,
        )
        with self._client.trace.call("send", tp=str(TARGET), records=["late"]):
            leader = await self._client.leader(TARGET)
            # A lane of its own: while it is held, its connection's line stands.
            await self._client.ask(leader.leader_id, produce, lane="late")

    async def _abort(self, identity: ProducerIdAndEpoch) -> None:
        end = requests.end_txn(
            self._id,
            **msgspec.structs.asdict(identity),
            committed=False,
            within=_OLD_FLOW.end_versions,
        )
        with self._client.trace.call("abort", id=self._id):
            answer = await self._client.ask(await self._client.coordinator(self._id), end)
        assert answer.error_code == ErrorCode.none, answer
