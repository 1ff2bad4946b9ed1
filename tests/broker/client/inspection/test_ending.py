"""The end of a transaction by its exact identity, as a checkpoint has it."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster, values
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.inspection.ending import EndOutcome, TransactionEnd, TxnIdentity, end, look_at
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.txn.past_decision import PastDecision
from txnsim.types import TopicPartition

COMMIT, ABORT = PastDecision.COMMITTED, PastDecision.ABORTED
LEVELS = (0, 1, 2)


async def left_open(cluster: Cluster) -> tuple[Producer, TxnIdentity]:
    """Leave a transaction open; return its producer and its identity."""
    producer = await begin_transaction(cluster, "sink")
    await producer.send("orders", 0, b"prepared")
    producer_identity = producer.session.identity
    return producer, TxnIdentity(
        transactional_id="sink",
        producer_id=producer_identity.producer_id,
        producer_epoch=producer_identity.producer_epoch,
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("wanted_decision", [COMMIT, ABORT])
def test_exactly_this_transaction_is_ended_so(level: int, wanted_decision: PastDecision) -> None:
    async def story(virtual_cluster: VirtualCluster) -> None:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            _, identity = await left_open(cluster)
            prospective_end = await look_at(admin, identity, wanted_decision)
            assert (prospective_end.outcome, prospective_end.state) == (
                EndOutcome.WOULD_END,
                "Ongoing",
            )
            (part,) = prospective_end.parts
            assert (part.partition, part.start_offset) == (TopicPartition("orders", 0), 0)
            assert part.offsets == 1
            assert (await admin.describe_transaction("sink")).state == "Ongoing"
            transaction_end = await end(admin, prospective_end, wanted_decision)
            assert transaction_end.outcome is EndOutcome.ENDED
            assert await values(cluster, "orders") == (
                [b"prepared"] if wanted_decision is COMMIT else []
            )
            second_end = await look_at(admin, identity, wanted_decision)
            assert second_end.outcome is EndOutcome.WAS_ENDED
            other_end = await look_at(
                admin, identity, ABORT if wanted_decision is COMMIT else COMMIT
            )
            assert (other_end.outcome, other_end.reason.rpartition(": ")[2]) == (
                EndOutcome.REFUSED,
                "it was decided otherwise",
            )

    run_cluster(story, level=level)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"producer_id": 77}, "this is another producer"),
        ({"producer_epoch": 9}, "this is another epoch"),
        ({"transactional_id": "other"}, "it was never used, or is forgotten"),
    ],
)
def test_another_identity_is_refused_and_nothing_ends(
    change: dict[str, object], reason: str
) -> None:
    async def story(virtual_cluster: VirtualCluster) -> TransactionEnd:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            _, identity = await left_open(cluster)
            attempted_end = await look_at(
                admin, msgspec.structs.replace(identity, **change), COMMIT
            )
            assert (await admin.describe_transaction("sink")).state == "Ongoing"
            return attempted_end

    attempted_end = run_cluster(story)
    assert (attempted_end.outcome, attempted_end.parts) == (EndOutcome.REFUSED, ())
    assert attempted_end.reason.endswith(reason)


def test_an_id_without_an_open_transaction_is_refused() -> None:
    async def story(virtual_cluster: VirtualCluster) -> TransactionEnd:
        async with (
            virtual_cluster.client() as cluster,
            Producer(cluster, transactional_id="sink") as producer,
        ):
            producer_identity = await producer.init_transactions()
            return await look_at(
                Admin(cluster),
                TxnIdentity(
                    transactional_id="sink",
                    producer_id=producer_identity.producer_id,
                    producer_epoch=producer_identity.producer_epoch,
                ),
                COMMIT,
            )

    attempted_end = run_cluster(story)
    assert attempted_end.outcome is EndOutcome.REFUSED
    assert attempted_end.reason.endswith("Empty: no transaction is open")


@pytest.mark.parametrize("level", [0, 2])
def test_the_end_of_an_earlier_transaction_is_not_taken_for_this_ones(level: int) -> None:
    """Under transactions v2 a completed entry with this epoch belongs to the epoch before."""

    async def story(virtual_cluster: VirtualCluster) -> tuple[TransactionEnd, TransactionEnd]:
        async with virtual_cluster.client() as cluster:
            producer, identity = await left_open(cluster)
            await producer.commit()
            newest_end = msgspec.structs.replace(
                identity, producer_epoch=producer.session.identity.producer_epoch
            )
            admin = Admin(cluster)
            return await look_at(admin, identity, COMMIT), await look_at(admin, newest_end, COMMIT)

    transaction_end, newest_end = run_cluster(story, level=level)
    assert transaction_end.outcome is EndOutcome.WAS_ENDED
    assert newest_end.outcome is (EndOutcome.REFUSED if level == 2 else EndOutcome.WAS_ENDED)


def test_the_coordinator_refuses_what_has_changed_since_the_look() -> None:
    async def story(virtual_cluster: VirtualCluster) -> TransactionEnd:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            _, identity = await left_open(cluster)
            prospective_end = await look_at(admin, identity, COMMIT)
            await admin.force_terminate_transaction("sink")  # its job has come back
            return await end(admin, prospective_end, COMMIT)

    attempted_end = run_cluster(story)
    assert attempted_end.outcome is EndOutcome.REFUSED
    assert attempted_end.reason.startswith("EndTxn of sink: ")


def test_a_decision_whose_marker_is_late_is_told_from_an_end() -> None:
    async def story(virtual_cluster: VirtualCluster) -> TransactionEnd:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            _, identity = await left_open(cluster)
            prospective_end = await look_at(admin, identity, COMMIT)
            virtual_cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers")
            return await end(admin, prospective_end, COMMIT)

    attempted_end = run_cluster(story)
    assert attempted_end.outcome is EndOutcome.DECIDED
    assert "PrepareCommit" in attempted_end.reason


def test_an_answer_that_fails_is_raised() -> None:
    class HidingAdmin(Admin):
        async def describe_transactions(self, *_: object, **__: object) -> object:  # type: ignore[override]
            return {
                "sink": ClientError("hidden", error=ErrorCode.transactional_id_authorization_failed)
            }

    async def story(virtual_cluster: VirtualCluster) -> None:
        async with virtual_cluster.client() as cluster:
            identity = TxnIdentity(transactional_id="sink", producer_id=0, producer_epoch=0)
            with pytest.raises(ClientError, match="hidden"):
                await look_at(HidingAdmin(cluster), identity, COMMIT)

    run_cluster(story)
