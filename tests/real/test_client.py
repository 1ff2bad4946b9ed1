"""Our client against a real broker and against the simulator: what a user of it relies on."""

from __future__ import annotations

import asyncio

import pytest

from tests.real.conftest import SETTINGS, ClusterUnderTest
from tests.support.clusters import begin_transaction, until_state, values
from tests.support.hanging_transaction import VERIFICATION, make_hanging, produce_without_adding
from txnsim.client.admin import Admin
from txnsim.client.backoff import pause
from txnsim.client.cluster import Cluster
from txnsim.client.consumer import Consumer
from txnsim.client.errors import AbortableError, ClientError, FatalError, IllegalUseError
from txnsim.client.fetching import fetch
from txnsim.client.inspection.txn_views import AbortSpec
from txnsim.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, FoundOffset
from txnsim.client.producer import Producer
from txnsim.client.requests import NewTopic
from txnsim.client.session import TxnProtocol
from txnsim.errors import ErrorCode
from txnsim.types import IsolationLevel, TopicPartition

FENCED = {ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch}


# Transactions


async def test_committed_records_are_read_and_aborted_ones_only_uncommitted(
    cluster: Cluster, admin: Admin, name: str
) -> None:
    await admin.create_topic(name, partitions=3)
    async with Producer(cluster, transactional_id=name) as producer:
        await producer.init_transactions()
        for end in ("commit", "abort", "commit"):
            producer.begin()
            record_futures = [producer.send(name, i, f"{end}-{i}".encode()) for i in range(3)]
            await asyncio.gather(*record_futures)
            await (producer.commit() if end == "commit" else producer.abort())
    await until_state(cluster, name, "CompleteCommit")
    committed = await values(cluster, name)
    assert committed == [b"commit-0"] * 2 + [b"commit-1"] * 2 + [b"commit-2"] * 2
    every = await values(cluster, name, isolation=IsolationLevel.READ_UNCOMMITTED)
    assert every[:3] == [b"commit-0", b"abort-0", b"commit-0"]


async def test_the_level_chooses_the_protocol_and_whether_the_epoch_moves(
    cluster: Cluster, admin: Admin, name: str, target: ClusterUnderTest
) -> None:
    await admin.create_topic(name, partitions=1)
    async with Producer(cluster, transactional_id=name) as producer:
        first_identity = await producer.init_transactions()
        expected_protocol = TxnProtocol.V2 if target.level == 2 else TxnProtocol.V1
        assert producer.protocol is expected_protocol
        for _ in range(3):
            producer.begin()
            producer.send(name, 0, b"x")
            await producer.commit()
        epoch_steps = producer.identity.producer_epoch - first_identity.producer_epoch
        assert epoch_steps == (3 if target.level == 2 else 0)
        assert producer.identity.producer_id == first_identity.producer_id


async def test_an_empty_transaction_is_not_ended_at_the_coordinator(
    cluster: Cluster, admin: Admin, name: str
) -> None:
    async with Producer(cluster, transactional_id=name) as producer:
        producer_identity = await producer.init_transactions()
        producer.begin()
        await producer.commit()
        producer.begin()
        await producer.abort()
        assert producer.identity == producer_identity
    await until_state(cluster, name, "Empty")


async def test_a_second_producer_fences_the_first_and_aborts_its_transaction(
    cluster: Cluster, admin: Admin, name: str
) -> None:
    await admin.create_topic(name, partitions=1)
    async with (
        Producer(cluster, transactional_id=name) as old_producer,
        Producer(cluster, transactional_id=name) as new_producer,
    ):
        await old_producer.init_transactions()
        old_producer.begin()
        await old_producer.send(name, 0, b"old")
        await new_producer.init_transactions()
        with pytest.raises(FatalError) as error_info:
            await old_producer.commit()
        assert error_info.value.error in FENCED
        with pytest.raises(FatalError):
            old_producer.begin()
        new_producer.begin()
        await new_producer.send(name, 0, b"new")
        await new_producer.commit()
    await until_state(cluster, name, "CompleteCommit")
    assert await values(cluster, name, partitions=1) == [b"new"]


async def test_a_timed_out_transaction_can_go_on_only_with_transactions_v2(
    cluster: Cluster, admin: Admin, name: str, target: ClusterUnderTest
) -> None:
    if target.kind == "txnsim":
        pytest.skip("its time-out check runs every ten seconds of cluster time; see the scenarios")
    await admin.create_topic(name, partitions=1)
    async with await begin_transaction(cluster, name, transaction_timeout_ms=5_000) as producer:
        await producer.send(name, 0, b"late")
        await until_state(cluster, name, "CompleteAbort")
        if target.level < 2:
            with pytest.raises(FatalError) as error_info:
                await producer.abort()
            assert error_info.value.error in FENCED
        else:
            await producer.abort()
            producer.begin()
            await producer.send(name, 0, b"again")
            await producer.commit()


async def until_level(cluster: Cluster, transaction_version: int) -> None:
    """Wait until a broker reports this level. A real one learns of it some time after the
    answer.
    """
    deadline = cluster.deadline(20_000)
    while (await cluster.refresh_features()).level("transaction.version") != transaction_version:
        assert not deadline.has_passed, f"no broker tells transaction.version {transaction_version}"
        await pause(cluster.clock, 10)


async def test_a_level_raised_in_mid_transaction_bumps_the_epoch_and_a_lowered_one_ends_in_v2(
    cluster: Cluster, admin: Admin, name: str, target: ClusterUnderTest
) -> None:
    if target.level == 0:
        pytest.skip("level 0 clusters stay at 0: other tests share this one")
    await admin.create_topic(name, partitions=1)
    await admin.update_features({"transaction.version": 1}, upgrade_type=2)
    try:
        async with (
            Cluster(target.bootstrap, settings=SETTINGS) as fresh_cluster,
            Producer(fresh_cluster, transactional_id=name) as producer,
        ):
            await until_level(fresh_cluster, 1)
            identity_before = await producer.init_transactions()
            assert producer.protocol.name == "V1"
            producer.begin()
            await producer.send(name, 0, b"v1")
            await admin.update_features({"transaction.version": 2})
            await until_level(fresh_cluster, 2)
            assert producer.protocol.name == "V1"
            await producer.commit()
            assert producer.protocol.name == "V2"
            assert producer.identity.producer_epoch == identity_before.producer_epoch + 1

            producer.begin()
            await producer.send(name, 0, b"v2")
            await admin.update_features({"transaction.version": 1}, upgrade_type=2)
            await until_level(fresh_cluster, 1)
            assert producer.protocol.name == "V2"
            await producer.commit()
            assert producer.protocol.name == "V1"
            assert producer.identity.producer_epoch == identity_before.producer_epoch + 2

            producer.begin()
            await producer.send(name, 0, b"v1 again")
            await producer.commit()
            assert producer.identity.producer_epoch == identity_before.producer_epoch + 2
    finally:
        upgrade_type = 1 if target.level == 2 else 2
        await admin.update_features(
            {"transaction.version": target.level}, upgrade_type=upgrade_type
        )
        await until_level(cluster, target.level)  # as the next test expects it
    await until_state(cluster, name, "CompleteCommit")
    assert await values(cluster, name, partitions=1) == [
        b"v1",
        b"v2",
        b"v1 again",
    ]


async def test_a_record_given_up_makes_the_transaction_abortable_and_the_producer_goes_on(
    cluster: Cluster, admin: Admin, name: str
) -> None:
    await admin.create_topic(name, partitions=1)
    async with await begin_transaction(cluster, name) as producer:
        await producer.send(name, 0, b"good")
        # Partition 7 does not exist: no leader within the record's time.
        lost_record_future = producer.send(name, 7, b"nowhere", delivery_timeout_ms=200)
        with pytest.raises(AbortableError):
            await lost_record_future
        with pytest.raises(AbortableError):
            await producer.commit()
        await producer.abort()
        producer.begin()
        await producer.send(name, 0, b"after")
        await producer.commit()
    await until_state(cluster, name, "CompleteCommit")
    assert await values(cluster, name, partitions=1) == [b"after"]


# Other producers, consumers


async def test_idempotent_and_plain_producers(cluster: Cluster, admin: Admin, name: str) -> None:
    await admin.create_topic(name, partitions=1)
    async with Producer(cluster) as producer:
        record_futures = [producer.send(name, 0, str(i).encode()) for i in range(100)]
        offsets = [(await record).offset for record in record_futures]
        assert offsets == list(range(100))
        assert producer.identity.producer_id >= 0
        with pytest.raises(IllegalUseError):
            producer.begin()
    for acks, offset in ((-1, 100), (1, 101), (0, -1)):
        async with Producer(cluster, idempotent=False, acks=acks) as producer:
            assert (await producer.send(name, 0, b"plain")).offset == offset
    # The last one was not answered: a long poll waits for it.
    result = await fetch(cluster, name, 0, 102, max_wait_ms=20_000)
    assert [record.offset for record in result.records] == [102]


async def test_records_keep_key_headers_and_time_to_the_millisecond(
    cluster: Cluster, admin: Admin, name: str
) -> None:
    await admin.create_topic(name, partitions=1)
    when_ms = cluster.clock.now_ms() - 12_345
    headers = (("trace", b"1"), ("none", None))
    async with Producer(cluster) as producer:
        await producer.send(name, 0, None, key=b"k", timestamp_ms=when_ms, headers=headers)
    (record,) = (await fetch(cluster, name, 0, 0)).records
    assert (record.key, record.value, record.headers) == (b"k", None, headers)
    assert record.timestamp_ms == when_ms


async def test_a_consumer_polls_all_partitions_and_waits_for_more(
    cluster: Cluster, admin: Admin, name: str
) -> None:
    await admin.create_topic(name, partitions=3)
    async with Producer(cluster) as producer, Consumer(cluster) as consumer:
        for partition_index in range(3):
            await producer.send(name, partition_index, str(partition_index).encode())
        await consumer.assign(
            [TopicPartition(name, partition_index) for partition_index in range(3)]
        )
        polled_values: list[bytes | None] = []
        while len(polled_values) < 3:
            polled_values += [record.value for record in await consumer.poll()]
        assert sorted(record_value or b"" for record_value in polled_values) == [b"0", b"1", b"2"]
        assert await consumer.poll(0) == []
        next_poll_future = asyncio.gather(consumer.poll(20_000))
        await asyncio.sleep(0)
        await producer.send(name, 1, b"later")
        ((later_record,),) = await next_poll_future
        assert later_record.value == b"later"
        consumer.seek(TopicPartition(name, 1), 99)
        with pytest.raises(ClientError) as out_of_range:
            await consumer.poll(20_000)
        assert out_of_range.value.error == ErrorCode.offset_out_of_range


# Operators


async def test_a_hanging_transaction_is_found_and_repaired(
    cluster: Cluster, admin: Admin, name: str
) -> None:
    await admin.create_topic(name, partitions=1)
    partition = TopicPartition(name, 0)
    producer_identity = await make_hanging(admin, partition, f"{name}-ghost")
    async with Producer(cluster) as producer:
        await producer.send(name, 0, b"behind it")
    stuck_fetch = await fetch(cluster, name, 0, 0, max_wait_ms=0)
    assert stuck_fetch.records == ()
    assert (stuck_fetch.last_stable_offset, stuck_fetch.high_watermark) == (0, 2)

    now_ms = cluster.clock.now_ms()
    (hanging_transaction,) = await admin.find_hanging(now_ms=now_ms, topic=name)
    assert hanging_transaction.partition == partition
    assert hanging_transaction.producer.producer_id == producer_identity.producer_id
    assert hanging_transaction.producer.txn_start_offset == 0
    assert hanging_transaction.duration_min(now_ms) == 60
    assert await admin.find_hanging(now_ms=now_ms, topic=name, partition=0) == (
        hanging_transaction,
    )
    assert (
        await admin.find_hanging(now_ms=now_ms, topic=name, max_transaction_timeout_ms=4_000_000)
        == ()
    )

    spec = AbortSpec(
        partition=partition,
        producer_id=producer_identity.producer_id,
        producer_epoch=producer_identity.producer_epoch,
        coordinator_epoch=0,
    )
    await admin.abort_transaction(spec)
    assert await admin.find_hanging(now_ms=now_ms, topic=name) == ()
    healed_fetch = await fetch(cluster, name, 0, 0, max_wait_ms=0)
    assert [record.value for record in healed_fetch.records] == [b"behind it"]
    assert [
        aborted_transaction.producer_id for aborted_transaction in healed_fetch.aborted or ()
    ] == [producer_identity.producer_id]


async def test_verification_refuses_what_would_hang(admin: Admin, name: str) -> None:
    await admin.create_topic(name, partitions=1)
    await admin.set_broker_default(VERIFICATION, None)
    for version, expected_error in (
        (10, ErrorCode.invalid_txn_state),
        (11, ErrorCode.transaction_abortable),
    ):
        error, _ = await produce_without_adding(
            admin, TopicPartition(name, 0), f"{name}-{version}", age_ms=0, version=version
        )
        assert error == expected_error


async def test_fencing_by_an_operator_ends_the_producer(
    cluster: Cluster, admin: Admin, name: str
) -> None:
    await admin.create_topic(name, partitions=1)
    async with await begin_transaction(cluster, name) as producer:
        await producer.send(name, 0, b"x")
        await admin.force_terminate_transaction(name)
        with pytest.raises(FatalError):
            await producer.commit()
    await until_state(cluster, name, "Empty")


async def list_matching(admin: Admin, transactional_id: str, **filters: object) -> set[str]:
    outcomes = await admin.list_transactions(**filters)  # type: ignore[arg-type]
    rows: set[str] = set()
    for outcome in outcomes.values():
        assert not isinstance(outcome, ClientError), outcome
        rows |= {row.transactional_id for row in outcome}
    return rows & {transactional_id}


async def test_listing_filters_by_state_producer_id_and_duration(
    cluster: Cluster, admin: Admin, name: str
) -> None:
    async with Producer(cluster, transactional_id=name) as producer:
        producer_identity = await producer.init_transactions()
    assert await list_matching(admin, name) == {name}
    assert await list_matching(admin, name, states=["Ongoing"]) == set()
    assert await list_matching(admin, name, producer_ids=[producer_identity.producer_id]) == {name}
    assert (
        await list_matching(admin, name, producer_ids=[producer_identity.producer_id + 1_000_000])
        == set()
    )
    # Idle ids pass every duration.
    assert await list_matching(admin, name, duration_ms=10_000_000) == {name}


async def test_listing_filters_by_pattern_where_the_release_has_it(
    cluster: Cluster, admin: Admin, name: str, target: ClusterUnderTest
) -> None:
    async with Producer(cluster, transactional_id=name) as producer:
        await producer.init_transactions()
    outcomes = await admin.list_transactions(pattern="(")
    expected_error = (
        ErrorCode.unsupported_version if target.is_older else ErrorCode.invalid_regular_expression
    )
    for outcome in outcomes.values():
        assert isinstance(outcome, ClientError)
        assert outcome.error == expected_error
    if not target.is_older:
        assert await list_matching(admin, name, pattern=name[:5] + ".*") == {name}
        assert await list_matching(admin, name, pattern=name[:5]) == set()


async def test_each_key_has_its_own_outcome(cluster: Cluster, admin: Admin, name: str) -> None:
    await admin.create_topic(name, partitions=1)
    async with Producer(cluster, transactional_id=name) as producer:
        await producer.init_transactions()
    description_by_id = await admin.describe_transactions((name, f"{name}-nobody"))
    assert not isinstance(description_by_id[name], ClientError)
    missing = description_by_id[f"{name}-nobody"]
    assert isinstance(missing, ClientError)
    assert missing.error == ErrorCode.transactional_id_not_found
    producers_by_partition = await admin.describe_producers(
        (TopicPartition(name, 0), TopicPartition(name, 5)), timeout_ms=5_000
    )
    assert producers_by_partition[TopicPartition(name, 0)] == ()
    assert isinstance(producers_by_partition[TopicPartition(name, 5)], ClientError)


async def test_topics_offsets_and_the_cluster_itself(
    cluster: Cluster, admin: Admin, name: str
) -> None:
    topic = await admin.create_topic(name, partitions=2)
    assert len(topic.partitions) == 2
    outcomes = await admin.create_topics((NewTopic(name=name), NewTopic(name="bad name")))
    errors = [getattr(outcome, "error", None) for outcome in outcomes.values()]
    assert errors == [ErrorCode.topic_already_exists, ErrorCode.invalid_topic_exception]
    cluster_description = await admin.describe_cluster()
    assert {broker.broker_id for broker in cluster_description.brokers} == {
        broker.broker_id for broker in cluster.view.brokers
    }
    async with await begin_transaction(cluster, name) as producer:
        await producer.send(name, 0, b"open")
        partition = TopicPartition(name, 0)
        for isolation, latest in (
            (IsolationLevel.READ_UNCOMMITTED, 1),
            (IsolationLevel.READ_COMMITTED, 0),
        ):
            listed_offset = (
                await admin.list_offsets({partition: LATEST_TIMESTAMP}, isolation=isolation)
            )[partition]
            assert isinstance(listed_offset, FoundOffset)
            assert listed_offset.offset == latest
        for timestamp in (EARLIEST_TIMESTAMP, MAX_TIMESTAMP, 0):
            listed_offset = (await admin.list_offsets({partition: timestamp}))[partition]
            assert isinstance(listed_offset, FoundOffset)
            assert listed_offset.offset == 0
        await producer.abort()
    assert await admin.delete_topics((name, f"{name}-nothing")) != {}
    with pytest.raises(ClientError) as error_info:
        await admin.update_features({"transaction.version": 9})
    assert error_info.value.error == ErrorCode.invalid_update_version
