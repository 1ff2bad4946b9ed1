"""Makes a hanging transaction on a running cluster, and explains it in the trace. A button of the
page starts it. It is made as it happens in production: a Produce is late, its producer gives up and
aborts, and the Produce arrives after the ABORT marker. Verification is off meanwhile, as before
Apache Kafka 3.6; with verification the leader refuses the Produce (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from txnsim.client import requests
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.fetching import fetch
from txnsim.client.producer import Producer
from txnsim.client.session import TxnProtocol
from txnsim.client.txn_requests import TxnRequests
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.faults.rule import FaultRule
from txnsim.runtime.trace import Tracer
from txnsim.server.cluster import SimCluster
from txnsim.trace.story import NARRATOR
from txnsim.types import ProducerIdAndEpoch, TopicPartition
from txnsim.wire.batch import Record, build_batch
from txnsim_lab.scenario.practise_situation import HOUR_MS, VERIFICATION

APPLICATION_CLIENT: Final = "app"
"""The client id of the application."""
OTHER_CLIENT: Final = "other"
"""The client id of a producer without transactions."""
READER_CLIENT: Final = "reader"
"""The client id of the consumer that is blocked."""
HOLD_RULE_ID: Final = "late-produce"
"""Id of the rule that holds the Produce; it is removed at the end."""
HANGING_PARTITION: Final = TopicPartition("orders", 0)
_OLD_PROTOCOL: Final = TxnProtocol.V1


async def make(
    cluster: SimCluster, outside_client: Callable[[str], Cluster], *, transactional_id: str
) -> None:
    """Make the hanging transaction once, on a cluster that has the topic.

    Args:
        cluster: The cluster.
        outside_client: Client id -> a client with that id, not yet connected.
        transactional_id: The application's id. Use a new one each time; with an old one the
            existing transaction would go on.

    Raises:
        ClientError: A broker refused a request or did not answer.
    """
    async with outside_client(APPLICATION_CLIENT) as client:
        admin = Admin(client)
        await admin.set_broker_default(VERIFICATION, "false")
        try:
            await _HangingStory(cluster, client, outside_client, transactional_id).play()
        finally:
            if cluster.injector.get(HOLD_RULE_ID) is not None:
                cluster.injector.disarm(HOLD_RULE_ID)
            await admin.set_broker_default(VERIFICATION, None)


class _HangingStory:
    """The steps that make the transaction hang."""

    def __init__(
        self,
        cluster: SimCluster,
        client: Cluster,
        outside_client: Callable[[str], Cluster],
        transactional_id: str,
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._outside = outside_client
        self._transactional_id = transactional_id
        self._name = f"{transactional_id}/1"  # its first one, as the page calls it
        self._tracer: Tracer = cluster.environment.tracer

    async def play(self) -> None:
        self._note_sentence(
            f"An application begins the transaction {self._name}. Its coordinator notes that it is"
            f" open on {HANGING_PARTITION}."
        )
        identity = await self._raise_epoch()
        await self._begin_transaction(identity)
        self._note_sentence(
            "It sends “late”. The Produce request is slow: here a fault rule holds it on its way."
        )
        hold_rule = FaultRule(
            id=HOLD_RULE_ID,
            point=FaultPoint.CLIENT_REQUEST,
            api="Produce",
            client_id=APPLICATION_CLIENT,
            action=Hold(),
        )
        self._cluster.injector.arm(hold_rule)
        late_produce_task = self._client.tasks.spawn(self._produce(identity), name="late Produce")
        try:
            timeout_ms = self._client.settings.request_timeout_ms
            await self._cluster.injector.wait_until_struck(HOLD_RULE_ID, timeout_ms=timeout_ms)
            self._note_sentence(
                "It gets no answer, and aborts. The ABORT marker is written: a record that tells"
                f" readers how {self._name} has ended. For the coordinator it is over."
            )
            await self._abort(identity)
            await self._raise_epoch()  # it is given once the ABORT marker is written
            self._note_sentence(
                "Now “late” arrives, behind the marker. Verification is off: the leader takes it"
                f" without asking the coordinator. So {self._name} is open again on"
                f" {HANGING_PARTITION}, and the coordinator does not learn of it."
            )
            self._cluster.injector.release(HOLD_RULE_ID)
            await late_produce_task
        finally:
            late_produce_task.cancel()
        self._note_sentence("Another producer writes “paid”, in no transaction.")
        async with self._outside(OTHER_CLIENT) as other_client:
            await self._append(other_client)
        self._note_sentence(
            "A read_committed consumer comes, and stops at “late”: only a marker could tell how"
            f" {self._name} has ended, and none will come. It leaves without “paid”, too."
        )
        async with self._outside(READER_CLIENT) as reading_client:
            await self._read_partition(reading_client)

    def _note_sentence(self, sentence: str) -> None:
        if self._tracer.on:
            self._tracer.emit("note", NARRATOR, data={"text": sentence})

    async def _raise_epoch(self) -> ProducerIdAndEpoch:
        """Raise the epoch with InitProducerId, as a starting producer does."""
        return await Producer(
            self._client, transactional_id=self._transactional_id
        ).init_transactions()

    async def _begin_transaction(self, identity: ProducerIdAndEpoch) -> None:
        with self._client.trace.trace_call("begin", id=self._transactional_id):
            add_request = TxnRequests(
                self._transactional_id, **msgspec.structs.asdict(identity)
            ).add_partitions(partitions=(HANGING_PARTITION,))
            await self._client.ask(
                await self._client.coordinator(self._transactional_id), add_request
            )

    async def _produce(self, identity: ProducerIdAndEpoch) -> None:
        batch = build_batch(
            [Record(value=b"late")],
            # An old timestamp, so that tools which search by age find it at once.
            timestamp_ms=self._client.clock.now_ms() - HOUR_MS,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        produce_request = requests.produce(
            {HANGING_PARTITION: batch},
            id_by_topic={},
            transactional_id=self._transactional_id,
            accepted_versions=_OLD_PROTOCOL.produce_versions,
        )
        with self._client.trace.trace_call("send", tp=str(HANGING_PARTITION), records=["late"]):
            partition_metadata = await self._client.leader(HANGING_PARTITION)
            # On its own connection: while it is held, the connection is blocked.
            await self._client.ask(partition_metadata.leader_id, produce_request, lane="late")

    async def _append(self, other_client: Cluster) -> None:
        now_ms = other_client.clock.now_ms()
        batch = build_batch([Record(value=b"paid")], timestamp_ms=now_ms)
        with other_client.trace.trace_call("send", tp=str(HANGING_PARTITION), records=["paid"]):
            partition_metadata = await other_client.leader(HANGING_PARTITION)
            await other_client.ask(
                partition_metadata.leader_id,
                requests.produce({HANGING_PARTITION: batch}, id_by_topic={}),
            )

    async def _read_partition(self, reading_client: Cluster) -> None:
        with reading_client.trace.trace_call(
            "read", tp=str(HANGING_PARTITION), isolation="read_committed"
        ):
            await fetch(
                reading_client,
                HANGING_PARTITION.topic,
                HANGING_PARTITION.partition,
                0,
                max_wait_ms=0,
            )

    async def _abort(self, identity: ProducerIdAndEpoch) -> None:
        end_request = TxnRequests(self._transactional_id, **msgspec.structs.asdict(identity)).end(
            committed=False, accepted_versions=_OLD_PROTOCOL.end_versions
        )
        with self._client.trace.trace_call("abort", id=self._transactional_id):
            answer = await self._client.ask(
                await self._client.coordinator(self._transactional_id), end_request
            )
        assert answer.error_code == ErrorCode.none, answer
