"""``--kip 939``: brokers of 4.5 as apache/kafka#21735 would have them. What is decided is in
``tests/broker/txn/test_two_phase.py``; here are its stories, with a prepared transaction that
outlives its coordinator, its client and its time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from tests.support.kip_text_listeners import SHIPPED, NamedListenerClient, kip_text_cluster
from txnsim.errors import ConfigError, ErrorCode
from txnsim.releases import PROPOSALS, RELEASES, fleet_from
from txnsim.server.options import ClusterOptions, with_proposal
from txnsim.settings import Settings
from txnsim.types import BrokerId

E = ErrorCode
DAY_MS: Final = 86_400_000
NEVER_MS: Final = 2_147_483_647
KEPT: Final = {"prepared_transactions_are_kept": True, "prepared_ends_are_concurrent": True}
Identity = tuple[int, int]


@asynccontextmanager
async def client_of_kept(
    *as_version: str, brokers: int = 3, **settings: Any
) -> AsyncIterator[NamedListenerClient]:
    """A client of a cluster that emulates KIP-939, with two-phase commit enabled."""
    async with kip_text_cluster(
        follows_kip_text=False,
        brokers=brokers,
        as_version=as_version or ("4.5",),
        rules=KEPT,
        **dict.fromkeys(PROPOSALS[939].settings, True),
        **settings,
    ) as cluster:
        yield NamedListenerClient(cluster, SHIPPED)


async def init(
    client: NamedListenerClient,
    *,
    keeps_prepared: bool = False,
    enables_two_phase_commit: bool = True,
    timeout_ms: int = 60_000,
) -> Any:
    return await client.until(
        "InitProducerId",
        6,
        broker=await client.coordinator("t"),
        transactional_id="t",
        transaction_timeout=timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
        enable2_pc=enables_two_phase_commit,
        keep_prepared_txn=keeps_prepared,
    )


async def written(client: NamedListenerClient, **options: Any) -> Identity:
    """Begin a transaction and write a record; return the identity of the producer."""
    answer = await init(client, **options)
    assert answer.error_code is E.none
    identity = answer.producer_id, answer.producer_epoch
    assert await client.produce(12, "t", identity) is E.none
    return identity


async def kept(client: NamedListenerClient, **options: Any) -> Identity:
    """InitProducerId that keeps the prepared transaction; return the identity that may end it."""
    answer = await init(client, keeps_prepared=True, **options)
    assert answer.error_code is E.none
    return answer.producer_id, answer.producer_epoch


async def end_error(
    client: NamedListenerClient, identity: Identity, *, version: int = 5, committed: bool = True
) -> ErrorCode:
    answer = await client.end(version, "t", identity, committed=committed)
    return ErrorCode(answer.error_code)


async def until_moved(client: NamedListenerClient) -> None:
    """Move the coordinator, and wait until the next one has loaded."""
    client.move_coordinator("t")
    for _ in range(500):
        description = await client.describe("t")
        if description.error_code is E.none:
            return
    raise AssertionError(f"t stays {description}")


# Identities


async def test_the_transaction_outlives_its_client_and_its_coordinator() -> None:
    async with client_of_kept() as client:
        first_identity = await written(client)
        await until_moved(client)
        kept_identity = await kept(client)
        assert kept_identity == (first_identity[0], first_identity[1] + 1)
        await until_moved(client)
        assert await end_error(client, first_identity) is E.producer_fenced, (
            "who wrote it is a zombie"
        )
        assert await end_error(client, kept_identity, version=4) is E.producer_fenced, (
            "no v2, a zombie"
        )
        description = await client.describe("t")
        assert (description.transaction_state, description.producer_epoch) == (
            "Ongoing",
            first_identity[1],
        )
        assert description.transaction_timeout.total_seconds() * 1_000 == NEVER_MS
        answer = await client.end(5, "t", kept_identity, committed=True)
        following_identity = (first_identity[0], first_identity[1] + 2)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (
            E.none,
            *following_identity,
        )
        await client.wait_for_state("t", "CompleteCommit")
        # The marker has the identity of the records, one epoch above.
        assert (await client.active_producer(first_identity[0])).producer_epoch == first_identity[
            1
        ] + 1
        # The answer was lost: the same request says the same.
        second_end = await client.end(5, "t", kept_identity, committed=True)
        assert (second_end.error_code, second_end.producer_id, second_end.producer_epoch) == (
            E.none,
            *following_identity,
        )
        assert await client.produce(12, "t", following_identity) is E.none, "the next transaction"


async def test_a_kept_transaction_takes_nothing_more() -> None:
    async with client_of_kept(brokers=1) as client:
        first_identity = await written(client)
        kept_identity = await kept(client)
        for identity in (first_identity, kept_identity):
            answer = await client.ask(
                "AddPartitionsToTxn",
                3,
                v3_and_below_transactional_id="t",
                v3_and_below_producer_id=identity[0],
                v3_and_below_producer_epoch=identity[1],
                v3_and_below_topics=[{"name": "orders", "partitions": [0]}],
            )
            (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            assert result.partition_error_code is E.invalid_txn_state
        # A leader with the transaction open asks nobody: a zombie's record is still part of it.
        assert await client.produce(12, "t", first_identity, sequence=1) is E.none
        assert await end_error(client, kept_identity, committed=False) is E.none


async def test_who_does_not_keep_it_aborts_it() -> None:
    async with client_of_kept(brokers=1) as client:
        first_identity = await written(client)
        kept_identity = await kept(client)
        third_init = await init(client)
        assert (third_init.error_code, third_init.producer_id, third_init.producer_epoch) == (
            E.none,
            first_identity[0],
            first_identity[1] + 3,
        )
        assert await end_error(client, kept_identity) is E.producer_fenced


async def test_nothing_is_refused_for_want_of_a_transaction() -> None:
    """The answer to a commit was lost with its client: the next one finds nothing to keep."""
    async with client_of_kept(brokers=1) as client:
        await written(client)
        assert await end_error(client, await kept(client)) is E.none
        await client.wait_for_state("t", "CompleteCommit")
        answer = await init(client, keeps_prepared=True)
        assert answer.error_code is E.none
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)


# Time


async def test_a_kept_transaction_does_not_expire_with_its_id() -> None:
    async with client_of_kept(brokers=1) as client:
        await written(client)
        kept_identity = await kept(client)
        client.cluster.environment.clock.advance(30 * DAY_MS)
        assert (await client.describe("t")).transaction_state == "Ongoing"
        assert await end_error(client, kept_identity) is E.none
        await client.wait_for_state("t", "CompleteCommit")
        client.cluster.environment.clock.advance(30 * DAY_MS)
        assert (await client.describe("t")).error_code is E.transactional_id_not_found


async def test_without_two_phase_commit_its_time_runs_out_as_any_other_s() -> None:
    """Without two-phase commit a kept transaction is aborted at its timeout."""
    async with client_of_kept(brokers=1) as client:
        first_identity = await written(client, enables_two_phase_commit=False)
        kept_identity = await kept(client, enables_two_phase_commit=False)
        client.cluster.environment.clock.advance(120_000)
        over = await client.wait_for_state("t", "CompleteAbort")
        assert (over.producer_id, over.producer_epoch) == (first_identity[0], first_identity[1] + 2)
        assert await end_error(client, first_identity) is E.producer_fenced
        # KAFKA-20785, which is in 4.5: a late commit is fenced and not INVALID_TXN_STATE.
        assert await end_error(client, kept_identity) is E.producer_fenced
        assert await end_error(client, kept_identity, committed=False) is E.none, "it is aborted"


# Beside brokers without it


async def test_a_broker_without_it_forgets_who_may_end_it() -> None:
    """A cluster in the middle of an upgrade. The next identity stays in the log, and a coordinator
    of 4.4 goes by the old one: of two clients the zombie is the one that can commit.
    """
    async with client_of_kept("4.5", "2=4.4", brokers=2) as client:
        first_identity = await written(client)
        while await client.coordinator("t") != 1:
            await until_moved(client)
        kept_identity = await kept(client)
        await until_moved(client)
        assert await client.coordinator("t") == 2
        assert (await init(client, keeps_prepared=True)).error_code is E.unsupported_version
        assert await end_error(client, kept_identity) is E.producer_fenced
        await until_moved(client)
        assert await end_error(client, first_identity) is E.producer_fenced, (
            "nothing was written at 4.4"
        )
        await until_moved(client)
        assert await end_error(client, first_identity) is E.none


def test_only_brokers_that_are_not_out_have_it() -> None:
    fleet = fleet_from(("4.5", "1=4.4"), broker_count=2, switched_rules=KEPT)
    has_it = [
        {getattr(fleet.release_of(BrokerId(broker)).rules, switch) for switch in KEPT}
        for broker in (1, 2)
    ]
    assert has_it == [{False}, {True}]


def test_the_option_turns_on_what_clients_need_and_wants_a_broker_for_it() -> None:
    options = with_proposal(ClusterOptions(as_version=("4.5", "1=4.4")), 939)
    assert options.rules == KEPT
    assert options.settings == Settings(
        unstable_api_versions_enable=True, transaction_two_phase_commit_enable=True
    )
    newest_name = next(reversed(RELEASES))
    with pytest.raises(ConfigError, match=f"needs brokers of --as-version {newest_name}"):
        with_proposal(ClusterOptions(as_version=("4.4",)), 939)
