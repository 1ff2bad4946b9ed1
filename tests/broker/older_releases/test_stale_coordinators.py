"""A coordinator whose broker has lost its partition and has not unloaded it (KAFKA-21181,
KAFKA-21481): what it answers as released brokers do, and as the two proposed fixes would have it.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.clusters import (
    VirtualCluster,
    begin_transaction,
    run_cluster,
    until_state,
    values,
)
from tests.support.coordinator import FOO_0, HOME, TID, CoordinatorBench, error_of
from txnsim.client.errors import ClientError
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.releases import LATEST, Rules
from txnsim.txn.commands import VerifyPartitions
from txnsim.txn.list_filter import ListTransactions
from txnsim.txn.state import TransactionState
from txnsim.types import (
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionVersion,
)

E = ErrorCode
CHECKED: Final = Rules(coordinator_checks_leadership=True)
ENDED: Final = Rules(empty_commits_are_ended=True)


HELD_MS: Final = 45_000
"""How long the former coordinator's broker is held: longer than it stays in sync with leaders that
it does not know (30 s), shorter than a transaction may take.
"""


async def bench_with_commit(rules: Rules) -> tuple[CoordinatorBench, ProducerIdAndEpoch]:
    """A transaction was committed; returns the identity for the next one."""
    bench = CoordinatorBench(rules=rules)
    first_identity = await bench.ready()
    await bench.add(first_identity, FOO_0)
    next_identity = await bench.end(first_identity)
    await bench.settle()
    assert isinstance(next_identity, ProducerIdAndEpoch)
    return bench, next_identity


# What is decided


@pytest.mark.parametrize(("rules", "checks"), [(LATEST, False), (CHECKED, True)])
async def test_a_coordinator_that_lost_its_partition_answers_from_memory_or_not_at_all(
    rules: Rules, checks: bool
) -> None:
    bench, own = await bench_with_commit(rules)
    bench.lost.add((HOME, CoordinatorEpoch(0)))
    verify = VerifyPartitions(
        transactional_id=TID,
        producer_id=own.producer_id,
        producer_epoch=own.producer_epoch,
        partitions=(FOO_0,),
    )
    answered = {
        "commit": error_of(await bench.end(own)),
        "verify": error_of(bench.service.verify(verify)),
        "describe": error_of(bench.service.describe(TID)),
    }
    if checks:
        assert set(answered.values()) == {E.not_coordinator}
        assert error_of(await bench.init()) is E.not_coordinator
        assert error_of(await bench.add(own, FOO_0)) is E.not_coordinator
    else:
        assert answered == {"commit": E.invalid_txn_state, "verify": E.none, "describe": E.none}


async def test_leading_again_under_another_epoch_is_not_enough() -> None:
    bench, own = await bench_with_commit(CHECKED)
    bench.lost.add((HOME, CoordinatorEpoch(7)))
    assert error_of(await bench.end(own)) is E.invalid_txn_state, "it leads under epoch 0"


@pytest.mark.parametrize("rules", [LATEST, Rules(lost_partitions_are_not_listed=True)])
async def test_ids_of_a_lost_partition_are_listed_or_not(rules: Rules) -> None:
    bench, _ = await bench_with_commit(rules)

    def listed() -> list[str]:
        listing = bench.service.list_transactions(ListTransactions())
        assert not isinstance(listing, ErrorCode)
        return [row.transactional_id for row in _rows(listing)]

    assert listed() == [TID]
    bench.lost.add((HOME, CoordinatorEpoch(0)))
    assert listed() == ([] if rules.lost_partitions_are_not_listed else [TID])


def _rows(listing: Any) -> list[Any]:
    return [txn for txn in listing.txns if listing.has(txn)]


@pytest.mark.parametrize("times", [1, 2])
async def test_a_commit_of_nothing_is_ended_with_the_next_epoch(times: int) -> None:
    bench, own = await bench_with_commit(ENDED)
    records = len(bench.log[HOME])
    for _ in range(times):
        ended = await bench.end(own)
        await bench.settle()
        assert ended == ProducerIdAndEpoch(
            producer_id=own.producer_id, producer_epoch=ProducerEpoch(own.producer_epoch + 1)
        ), "repeated with the old epoch, it is the same end"
    assert len(bench.log[HOME]) - records == 2, "prepared and completed"
    entry = bench.entry()
    assert (entry.state, entry.pending_state) == (TransactionState.COMPLETE_COMMIT, None)
    assert not bench.sent[1:], "there is no marker to send"


async def test_a_new_producer_may_commit_nothing() -> None:
    bench = CoordinatorBench(rules=ENDED)
    own = await bench.ready()
    assert isinstance(await bench.end(own), ProducerIdAndEpoch)
    v1_bench = CoordinatorBench(rules=ENDED)
    own = await v1_bench.ready()
    answer = await v1_bench.end(own, version=TransactionVersion.TV_0)
    assert error_of(answer) is E.invalid_txn_state, "the old protocol is left as it is"


async def test_a_stale_coordinator_can_not_end_nothing() -> None:
    bench, own = await bench_with_commit(ENDED)
    bench.append_errors.append(E.not_leader_or_follower)
    assert error_of(await bench.end(own)) is E.not_coordinator


# What a producer sees


async def commit_at_the_former_coordinator(
    cluster: VirtualCluster, held_point: FaultPoint, *, completed: bool
) -> tuple[list[bytes | None], ErrorCode]:
    """A coordinator moves while its former broker is held at a point; the producer's next commit
    still goes there.

    Args:
        cluster: Three brokers.
        held_point: Where the former coordinator's broker is held.
        completed: Whether the first transaction is complete before the move; otherwise it is
            prepared, and the next coordinator completes it.

    Returns:
        What readers get in the end, and the error of the second commit.
    """
    async with cluster.client() as client:
        producer = await begin_transaction(client, "tx")
        home = cluster.home("tx")
        former = cluster.leader(home)
        partition = next(
            index for index in range(3) if cluster.leader(TopicPartition("orders", index)) != former
        )
        producer.send("orders", partition, b"one")
        await producer.commit()
        if completed:
            await until_state(client, "tx", "CompleteCommit")
        cluster.arm(Hold(), held_point, rule_id="held", broker=former)
        cluster.move(home)
        await cluster.wait_until_struck("held")
        cluster.env.clock.call_later(HELD_MS, lambda: cluster.sim.injector.disarm("held"))
        producer.begin()
        producer.send("orders", partition, b"two")
        await producer.flush()
        try:
            await producer.commit()
            error = E.none
        except ClientError as client_error:
            error = client_error.error or E.unknown_server_error
        async with cluster.client("reader") as reader:
            return await values(reader, "orders"), error


CHECKS: Final = {"coordinator_checks_leadership": True}
ENDS: Final = {"empty_commits_are_ended": True}


@pytest.mark.parametrize(
    ("held_point", "completed", "rules", "error"),
    [
        (FaultPoint.COORDINATOR_UNLOAD, True, {}, E.invalid_txn_state),
        (FaultPoint.COORDINATOR_UNLOAD, True, CHECKS, E.none),
        (FaultPoint.COORDINATOR_UNLOAD, True, ENDS, E.none),
        (FaultPoint.COORDINATOR_UNLOAD, False, {}, E.producer_fenced),
        (FaultPoint.COORDINATOR_UNLOAD, False, CHECKS, E.none),
        # Its first transaction is prepared for ever there: that is no commit of nothing.
        (FaultPoint.COORDINATOR_UNLOAD, False, ENDS, E.producer_fenced),
        (FaultPoint.METADATA_APPLY, True, {}, E.invalid_txn_state),
        # A broker that does not know yet that it has lost the partition passes its own check.
        (FaultPoint.METADATA_APPLY, True, CHECKS, E.invalid_txn_state),
        (FaultPoint.METADATA_APPLY, True, ENDS, E.none),
    ],
)
def test_a_commit_that_reaches_the_former_coordinator(
    held_point: FaultPoint, *, completed: bool, rules: dict[str, bool], error: ErrorCode
) -> None:
    async def story(cluster: VirtualCluster) -> tuple[list[bytes | None], ErrorCode]:
        return await commit_at_the_former_coordinator(cluster, held_point, completed=completed)

    committed, commit_error = run_cluster(story, rules=rules)
    assert commit_error is error
    assert committed == ([b"one"] if error else [b"one", b"two"])
