"""A coordinator whose broker has lost its partition and has not unloaded it (KAFKA-21181,
KAFKA-21481): what it answers as released brokers do, and as the two proposed fixes would have it.
What is decided: ``tests/broker/coordinators/txn/test_release_rules.py``.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.clusters import (
    VirtualCluster,
    begin_transaction,
    run_cluster,
    until_state,
    values,
)
from txnsim.client.errors import ClientError
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.types import TopicPartition

E = ErrorCode
HELD_MS: Final = 45_000
"""How long the former coordinator's broker is held: longer than it stays in sync with leaders that
it does not know (30 s), shorter than a transaction may take.
"""


async def commit_at_the_former_coordinator(
    cluster: VirtualCluster, held_point: FaultPoint, *, is_completed: bool
) -> tuple[list[bytes | None], ErrorCode]:
    """A coordinator moves while its former broker is held at a point; the producer's next commit
    still goes there.

    Args:
        cluster: Three brokers.
        held_point: Where the former coordinator's broker is held.
        is_completed: Whether the first transaction is complete before the move; otherwise it is
            prepared, and the next coordinator completes it.

    Returns:
        What readers get in the end, and the error of the second commit.
    """
    async with cluster.client() as client:
        producer = await begin_transaction(client, "tx")
        home_partition = cluster.home("tx")
        former_broker_id = cluster.leader(home_partition)
        partition = next(
            index
            for index in range(3)
            if cluster.leader(TopicPartition("orders", index)) != former_broker_id
        )
        producer.send("orders", partition, b"one")
        await producer.commit()
        if is_completed:
            await until_state(client, "tx", "CompleteCommit")
        cluster.arm(Hold(), held_point, rule_id="held", broker=former_broker_id)
        cluster.move(home_partition)
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
    ("held_point", "is_completed", "rules", "error"),
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
    held_point: FaultPoint, *, is_completed: bool, rules: dict[str, bool], error: ErrorCode
) -> None:
    async def story(cluster: VirtualCluster) -> tuple[list[bytes | None], ErrorCode]:
        return await commit_at_the_former_coordinator(
            cluster, held_point, is_completed=is_completed
        )

    committed, commit_error = run_cluster(story, rules=rules)
    assert commit_error is error
    assert committed == ([b"one"] if error else [b"one", b"two"])
