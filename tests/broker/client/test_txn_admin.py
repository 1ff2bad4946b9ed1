"""Searching in batches, and which errors are final; words are in test_txn_wording, commands in
test_txns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import pytest

from tests.broker.cli.txns.test_command import described, listed, marked, producers
from tests.broker.client.fake_broker import Asked, FakeBroker, Handler, in_turn, initialized
from txnsim.client._txn_admin import BATCH_MAX, TransactionAdmin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError, ConnectionLostError, ErrorCode
from txnsim.client.inspection.txn_views import OpenSince
from txnsim.client.requests import Marker
from txnsim.client.versions import Api
from txnsim.types import ProducerIdAndEpoch, TopicPartition

T0: Final = TopicPartition("t", 0)
SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=500)


def nobody(asked: Asked) -> Any:
    return asked.answer(
        topics=tuple(
            asked.part(
                "TopicResponse",
                name=topic.name,
                partitions=tuple(
                    asked.part(
                        "PartitionResponse",
                        partition_index=index,
                        error_code=0,
                        error_message=None,
                        active_producers=(),
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in asked.message.topics
        )
    )


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    topics = {f"t{index}": 1 for index in range(BATCH_MAX + 1)}
    handlers = {Api.DESCRIBE_PRODUCERS: nobody, Api.INIT_PRODUCER_ID: initialized()}
    async with FakeBroker(handlers, topics=topics) as one:
        yield one


@pytest.fixture
async def admin(broker: FakeBroker) -> AsyncIterator[TransactionAdmin]:
    async with Cluster(broker.address, settings=SETTINGS) as cluster:
        yield TransactionAdmin(cluster)


async def test_a_search_asks_for_500_partitions_at_a_time(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    assert await admin.find_hanging(now_ms=0, broker_id=1) == ()
    sizes = [len(asked.message.topics) for asked in broker.of(Api.DESCRIBE_PRODUCERS)]
    assert sizes == [BATCH_MAX, 1]
    assert broker.of(Api.LIST_TRANSACTIONS) == []  # without candidates nobody is looked up


async def test_a_search_on_a_broker_without_replicas_sends_no_request(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    assert await admin.find_hanging(now_ms=0, broker_id=9) == ()
    assert broker.of(Api.DESCRIBE_PRODUCERS) == []


async def test_fencing_waits_for_the_abort_it_causes(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    broker.handlers[Api.INIT_PRODUCER_ID] = in_turn(
        initialized(51), initialized(14), initialized(16), initialized(epoch=4)
    )
    outcome = (await admin.fence_producers(("x",)))["x"]
    assert isinstance(outcome, ProducerIdAndEpoch)
    assert outcome.producer_epoch == 4
    assert len(broker.of(Api.FIND_COORDINATOR)) == 2
    broker.handlers[Api.INIT_PRODUCER_ID] = initialized(53)
    with pytest.raises(ClientError) as refused:
        await admin.force_terminate_transaction("x")
    assert refused.value.error == ErrorCode.transactional_id_authorization_failed


def answers_of(api: Api) -> Callable[[int], Handler]:
    """Makes a handler that answers with an error code."""
    return {
        Api.LIST_TRANSACTIONS: listed,
        Api.DESCRIBE_TRANSACTIONS: described,
        Api.DESCRIBE_PRODUCERS: producers,
        Api.WRITE_TXN_MARKERS: marked,
        Api.INIT_PRODUCER_ID: initialized,
    }[api]


async def ask(admin: TransactionAdmin, api: Api) -> object:
    """The outcome of the one key that is asked about."""
    outcomes: Mapping[Any, object]
    match api:
        case Api.LIST_TRANSACTIONS:
            outcomes = await admin.list_transactions()
        case Api.DESCRIBE_TRANSACTIONS:
            outcomes = await admin.describe_transactions(("pay",))
        case Api.DESCRIBE_PRODUCERS:
            outcomes = await admin.describe_producers((T0,))
        case Api.WRITE_TXN_MARKERS:
            marker = Marker(
                producer_id=7,
                producer_epoch=1,
                committed=False,
                coordinator_epoch=0,
                partitions=(T0,),
            )
            outcomes = await admin.write_txn_marker(marker)
        case _:
            outcomes = await admin.fence_producers(("pay",))
    (outcome,) = outcomes.values()
    return outcome


AGAIN = "asked again"
ELSEWHERE = "looked up and asked again"
FINAL = "final"


@pytest.mark.parametrize(
    ("api", "codes", "reaction"),
    [
        (Api.LIST_TRANSACTIONS, (14,), AGAIN),
        (Api.LIST_TRANSACTIONS, (15, 128, -1), FINAL),
        (Api.DESCRIBE_TRANSACTIONS, (14,), AGAIN),
        (Api.DESCRIBE_TRANSACTIONS, (15, 16), ELSEWHERE),
        (Api.DESCRIBE_TRANSACTIONS, (42, 53, 105), FINAL),
        (Api.DESCRIBE_PRODUCERS, (3,), AGAIN),
        (Api.DESCRIBE_PRODUCERS, (6,), ELSEWHERE),
        (Api.DESCRIBE_PRODUCERS, (17, 29, 56), FINAL),
        (Api.WRITE_TXN_MARKERS, (3, 6, 8, 9), ELSEWHERE),
        (Api.WRITE_TXN_MARKERS, (31, 47, 48, 52), FINAL),
        (Api.INIT_PRODUCER_ID, (14, 51), AGAIN),
        (Api.INIT_PRODUCER_ID, (15, 16), ELSEWHERE),
        (Api.INIT_PRODUCER_ID, (31, 42, 53), FINAL),
    ],
)
async def test_errors_are_met_as_by_javas_handlers(
    api: Api, codes: tuple[int, ...], reaction: str
) -> None:
    for code in codes:
        answer = answers_of(api)
        async with FakeBroker({api: in_turn(answer(code), answer(0))}) as broker:
            async with Cluster(broker.address, settings=SETTINGS) as cluster:
                outcome = await ask(TransactionAdmin(cluster), api)
            asked = len(broker.of(api))
            by_id = api in (Api.DESCRIBE_TRANSACTIONS, Api.INIT_PRODUCER_ID)
            looked_up = len(broker.of(Api.FIND_COORDINATOR if by_id else Api.METADATA))
        if reaction is FINAL:
            assert asked == 1
            assert isinstance(outcome, ClientError)
            assert outcome.error == code
        else:
            assert asked == 2
            assert not isinstance(outcome, ClientError)
            # By partition, the first Metadata is that of connecting.
            assert looked_up == (1 if by_id else 2) + (1 if reaction is ELSEWHERE else 0)


async def test_only_named_brokers_are_asked_and_unknown_ones_named(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    broker.handlers[Api.LIST_TRANSACTIONS] = listed()
    outcomes = await admin.list_transactions(broker_ids=(9, 1, 9))
    assert sorted(outcomes) == [1, 9]
    assert not isinstance(outcomes[1], ClientError)
    stranger = outcomes[9]
    assert isinstance(stranger, ConnectionLostError)
    assert str(stranger) == "broker 9 is not in the cluster, whose brokers are 1"
    assert len(broker.of(Api.LIST_TRANSACTIONS)) == 1


async def test_a_chosen_coordinator_is_not_looked_up(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    broker.handlers[Api.DESCRIBE_TRANSACTIONS] = described(16)
    (outcome,) = (await admin.describe_transactions(("pay",), broker_id=1)).values()
    assert isinstance(outcome, ClientError)
    assert outcome.error is ErrorCode.not_coordinator
    (stranger,) = (await admin.describe_transactions(("pay",), broker_id=9)).values()
    assert str(stranger) == "broker 9 is not in the cluster, whose brokers are 1"
    assert len(broker.of(Api.DESCRIBE_TRANSACTIONS)) == 1
    assert broker.of(Api.FIND_COORDINATOR) == []


async def test_an_abort_goes_by_the_start_offset_or_by_the_identity(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    where = TopicPartition("t1", 0)
    broker.handlers[Api.DESCRIBE_PRODUCERS] = producers()
    broker.handlers[Api.WRITE_TXN_MARKERS] = marked()
    spec = await admin.identify(OpenSince(partition=where, start_offset=4))
    await admin.abort_transaction(OpenSince(partition=where, start_offset=4))
    await admin.abort_transaction(spec)
    first, second = (asked.message for asked in broker.of(Api.WRITE_TXN_MARKERS))
    assert first == second
    assert (first.markers[0].producer_id, first.markers[0].coordinator_epoch) == (
        spec.producer_id,
        0,
    )
    with pytest.raises(ClientError, match="Could not find any open transactions") as missing:
        await admin.abort_transaction(OpenSince(partition=where, start_offset=5))
    assert missing.value.error is ErrorCode.invalid_txn_state
    broker.handlers[Api.DESCRIBE_PRODUCERS] = producers(29)
    with pytest.raises(ClientError, match="authorization failure"):
        await admin.abort_transaction(OpenSince(partition=where, start_offset=4))
    assert len(broker.of(Api.WRITE_TXN_MARKERS)) == 2
