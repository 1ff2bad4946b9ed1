"""The client's view of a cluster: connections, sessions, metadata, versions, pauses."""

from __future__ import annotations

import asyncio
import functools
import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tests.broker.client.fake_broker import (
    CLOSE,
    SILENCE,
    FakeBroker,
    ReceivedRequest,
    coordinator,
    end_answer,
    in_turn,
)
from tests.support.coordinator import ManualClock, ManualTimer
from txnsim.client import requests
from txnsim.client.backoff import Backoff, Deadline, pause
from txnsim.client.cluster import Cluster, parse_bootstrap
from txnsim.client.connection import ClientSettings, Connection, dial_asyncio
from txnsim.client.errors import (
    AbortableError,
    ClientError,
    ClientTooOldError,
    ConnectionLostError,
    FatalError,
    IllegalUseError,
    NotSupportedError,
    RequestTimeoutError,
    RetriableError,
)
from txnsim.client.metadata import (
    BrokerAddress,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
    merge,
    parse_coordinators,
    parse_metadata,
)
from txnsim.client.session import SessionState, TxnProtocol, TxnSession
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import (
    ANY,
    ClientApi,
    FinalizedFeatures,
    VersionedRequest,
    VersionRange,
    choose_version,
    newer_features,
)
from txnsim.errors import ConfigError, ErrorCode
from txnsim.runtime.real_world import RealClock
from txnsim.types import ProducerEpoch, ProducerId, ProducerIdAndEpoch, TopicPartition
from txnsim.wire import codec
from txnsim.wire.registry import version_range

QUICK = ClientSettings(
    retry_backoff_ms=1, retry_backoff_max_ms=5, api_timeout_ms=2_000, request_timeout_ms=500
)
SHORT = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=5, api_timeout_ms=40)
T0 = TopicPartition("t", 0)
END = TxnRequests("x", producer_id=1, producer_epoch=2).end(committed=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", (("a", 1),)),
        ("a:1, b:2", (("a", 1), ("b", 2))),
        ("[::1]:9092", (("::1", 9092),)),
    ],
)
def test_bootstrap_addresses(text: str, expected: tuple[tuple[str, int], ...]) -> None:
    assert parse_bootstrap(text) == expected


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:b", "a:70000", "a:1,", "a:-1", "a..b:1"])
def test_bootstrap_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="host:port is expected"):
        parse_bootstrap(text)


async def test_a_host_that_none_can_be_is_like_a_dead_address() -> None:
    with pytest.raises(OSError, match=r"'a\.\.b' is no name or address of a host"):
        await dial_asyncio("a..b", 9092, asyncio.Protocol)


async def test_a_dead_address_is_passed_over() -> None:
    async with FakeBroker() as dead_broker:
        pass
    async with (
        FakeBroker() as broker,
        Cluster(f"{dead_broker.address},{broker.address}", settings=QUICK) as cluster,
    ):
        assert [row.port for row in cluster.view.brokers] == [broker.port]


async def test_a_missing_broker_fails_at_once_and_keeps_the_reason() -> None:
    async with FakeBroker() as dead_broker:
        pass
    with pytest.raises(ConnectionLostError, match="Connection refused") as error_info:
        await Cluster(dead_broker.address).connect()
    assert isinstance(error_info.value.__cause__, OSError)


async def test_connections_are_shared_and_reopened() -> None:
    async with (
        FakeBroker({ClientApi.END_TXN: end_answer()}) as broker,
        Cluster(broker.address, settings=QUICK) as cluster,
    ):
        connection, second_connection = await asyncio.gather(
            cluster.connection(1), cluster.connection(1)
        )
        assert connection is second_connection
        assert await cluster.connection(1, lane="other") is not connection
        broker.cut()
        await connection.wait_closed()
        assert await cluster.connection(1) is not connection
        assert (await cluster.ask(1, END)).error_code == ErrorCode.none


async def test_an_unknown_broker_is_not_guessed() -> None:
    async with FakeBroker() as broker, Cluster(broker.address) as cluster:
        with pytest.raises(ConnectionLostError, match="broker 9 is not among"):
            await cluster.connection(9)


async def test_a_closed_cluster_opens_nothing() -> None:
    async with FakeBroker() as broker:
        async with Cluster(broker.address, settings=QUICK) as cluster:
            pass
        with pytest.raises(ConnectionLostError):
            await cluster.ask_any(requests.metadata(()))


async def test_asking_any_broker_survives_a_cut() -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=QUICK) as cluster:
        broker.handlers[ClientApi.METADATA] = in_turn(lambda _: CLOSE, broker.metadata)
        assert (await cluster.refresh(("t",))).topic("t") is not None


async def test_the_highest_features_epoch_wins_over_all_connections() -> None:
    async with FakeBroker(transaction_version=2) as broker, Cluster(broker.address) as cluster:
        assert cluster.features.level("transaction.version") == 2
        broker.level, broker.features_epoch = 1, 9
        assert (await cluster.refresh_features()).level("transaction.version") == 2
        broker.features_epoch = 11
        assert (await cluster.refresh_features()).level("transaction.version") == 1


# Leaders


async def test_a_leader_is_looked_up_until_there_is_one_and_remembered() -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=QUICK) as cluster:
        has_no_leader = functools.partial(broker.metadata, leader_id=-1)
        broker.handlers[ClientApi.METADATA] = in_turn(has_no_leader, has_no_leader, broker.metadata)
        assert (await cluster.leader(T0)).leader_id == 1
        lookup_count_before = len(broker.of(ClientApi.METADATA))
        await cluster.leader(T0)
        assert len(broker.of(ClientApi.METADATA)) == lookup_count_before
        cluster.forget_leader("t")
        await cluster.leader(T0)
        assert len(broker.of(ClientApi.METADATA)) == lookup_count_before + 1


@pytest.mark.parametrize(
    ("partition", "expected_error"),
    [
        (TopicPartition("nope", 0), ErrorCode.unknown_topic_or_partition),
        (TopicPartition("t", 9), ErrorCode.unknown_topic_or_partition),
    ],
)
async def test_no_leader_in_time_says_why(
    partition: TopicPartition, expected_error: ErrorCode
) -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=SHORT) as cluster:
        with pytest.raises(RetriableError) as error_info:
            await cluster.leader(partition)
        assert error_info.value.error == expected_error


async def test_a_topic_without_leaders_says_so() -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=SHORT) as cluster:
        broker.handlers[ClientApi.METADATA] = functools.partial(broker.metadata, leader_id=-1)
        with pytest.raises(RetriableError, match="LEADER_NOT_AVAILABLE"):
            await cluster.leader(T0)


async def test_a_topic_that_is_refused_is_not_asked_for_again() -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=QUICK) as cluster:
        broker.handlers[ClientApi.METADATA] = functools.partial(broker.metadata, error=29)
        with pytest.raises(ClientError) as error_info:
            await cluster.leader(T0)
        assert error_info.value.error == ErrorCode.topic_authorization_failed
        assert not isinstance(error_info.value, RetriableError)


# Coordinators


async def test_a_coordinator_is_looked_up_until_there_is_one_and_remembered() -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=QUICK) as cluster:
        is_not_yet = functools.partial(coordinator, error=15)
        broker.handlers[ClientApi.FIND_COORDINATOR] = in_turn(is_not_yet, broker.find_coordinator)
        assert await cluster.coordinator("a") == 1
        assert await cluster.coordinator("a") == 1
        assert broker.keys == [10, 10]
        cluster.forget_coordinator("a")
        await cluster.coordinator("a")
        assert broker.keys == [10, 10, 10]


@pytest.mark.parametrize(("error", "error_class"), [(53, ClientError), (15, RetriableError)])
async def test_no_coordinator_says_why(error: int, error_class: type[ClientError]) -> None:
    async with FakeBroker() as broker, Cluster(broker.address, settings=SHORT) as cluster:
        broker.handlers[ClientApi.FIND_COORDINATOR] = functools.partial(coordinator, error=error)
        with pytest.raises(ClientError) as error_info:
            await cluster.coordinator("a")
        assert type(error_info.value) is error_class
        assert error_info.value.error == ErrorCode(error)


async def test_an_old_broker_is_asked_for_coordinators_one_by_one() -> None:
    async with (
        FakeBroker(ranges={10: (0, 3)}) as broker,
        Cluster(broker.address, settings=QUICK) as cluster,
    ):
        coordinators = await cluster.find_coordinators(("a", "b"), cluster.deadline())
        assert coordinators == {"a": (0, 1), "b": (0, 1)}
        assert [request.message.key for request in broker.of(ClientApi.FIND_COORDINATOR)] == [
            "a",
            "b",
        ]


async def test_a_broker_without_the_api_is_named() -> None:
    async with (
        FakeBroker(ranges={10: (0, 0)}) as broker,
        Cluster(broker.address, settings=QUICK) as cluster,
    ):
        with pytest.raises(NotSupportedError, match="FIND_COORDINATOR"):
            await cluster.coordinator("a")


# The rules of a transactional producer, each as Kafka's TransactionManager has it.


P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
V1_END = VersionRange(0, 4)
V2_END = VersionRange(5, 32767)


def identity(epoch: int) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(producer_id=ProducerId(7), producer_epoch=ProducerEpoch(epoch))


def features(transaction_version: int, epoch: int = 1) -> FinalizedFeatures:
    transaction_versions = (
        (("transaction.version", transaction_version),) if transaction_version else ()
    )
    return FinalizedFeatures(epoch=epoch, levels=transaction_versions)


def initialized_session(transaction_version: int, *, can_bump: bool = True) -> TxnSession:
    session = TxnSession()
    session.set_identity(identity(0), features(transaction_version), can_bump=can_bump)
    return session


def in_transaction(transaction_version: int, *, can_bump: bool = True) -> TxnSession:
    session = initialized_session(transaction_version, can_bump=can_bump)
    session.begin()
    session.touch(P0)
    if transaction_version < 2:
        session.note_added_partitions(frozenset({P0}))
    return session


@pytest.mark.parametrize(
    ("transaction_version", "protocol"),
    [(0, TxnProtocol.V1), (1, TxnProtocol.V1), (2, TxnProtocol.V2)],
)
def test_the_level_chooses_the_protocol(transaction_version: int, protocol: TxnProtocol) -> None:
    assert initialized_session(transaction_version).protocol is protocol


def test_versions_of_each_protocol() -> None:
    assert TxnProtocol.V1.produce_versions.highest == 11
    assert TxnProtocol.V2.produce_versions.lowest == 12
    assert TxnProtocol.V1.end_versions == V1_END
    assert TxnProtocol.V2.end_versions == V2_END


def test_a_new_session_can_only_be_initialized() -> None:
    session = TxnSession()
    assert session.identity == ProducerIdAndEpoch.NONE
    with pytest.raises(IllegalUseError, match="begin in state UNINITIALIZED"):
        session.begin()
    with pytest.raises(IllegalUseError, match="send in state UNINITIALIZED"):
        session.touch(P0)
    with pytest.raises(IllegalUseError, match="commit in state UNINITIALIZED"):
        session.plan_end(is_commit=True, features=features(2))
    with pytest.raises(IllegalUseError, match="abort in state UNINITIALIZED"):
        session.plan_end(is_commit=False, features=features(2))
    assert session.state is SessionState.UNINITIALIZED


def test_only_the_old_protocol_adds_partitions_and_only_once() -> None:
    session = initialized_session(1)
    session.begin()
    assert session.touch(P0)
    assert session.is_empty
    session.note_added_partitions(frozenset({P0}))
    assert not session.touch(P0)
    assert session.has(P0)
    assert session.touch(P1)
    session_v2 = initialized_session(2)
    session_v2.begin()
    assert not session_v2.touch(P0)
    assert session_v2.has(P0)


def test_old_protocol_continues_sequences_across_transactions() -> None:
    session = in_transaction(1)
    assert session.next_sequence(P0, 3) == 0
    session.note_end(None)
    assert session.next_sequence(P0, 1) == 3
    assert session.identity == identity(0)


def test_transactions_v2_restart_sequences_with_each_identity() -> None:
    session = in_transaction(2)
    assert session.next_sequence(P0, 3) == 0
    session.note_end(identity(1))
    assert session.next_sequence(P0, 1) == 0
    assert session.identity == identity(1)


def test_sequences_wrap_to_0_after_the_largest_int32() -> None:
    session = in_transaction(1)
    session.next_sequence(P0, 2**31 - 1)
    assert session.next_sequence(P0, 2) == 2**31 - 1
    assert session.next_sequence(P0, 1) == 1


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_without_partitions_sends_no_end(
    transaction_version: int, committed: bool
) -> None:
    session = initialized_session(transaction_version)
    session.begin()
    plan = session.plan_end(is_commit=committed, features=features(transaction_version))
    assert not plan.send
    assert not plan.bump


def test_level_raised_in_mid_transaction_ends_old_and_bumps() -> None:
    session = in_transaction(1)
    plan = session.plan_end(is_commit=True, features=features(2, epoch=2))
    assert (plan.send, plan.versions, plan.bump) == (True, V1_END, True)
    assert plan.identity == identity(0)
    session.set_identity(identity(1), features(2, epoch=2), can_bump=True)
    session.begin()
    assert session.protocol is TxnProtocol.V2
    session.touch(P0)
    plan = session.plan_end(is_commit=True, features=features(2, epoch=2))
    assert (plan.versions, plan.bump) == (V2_END, False)


def test_level_lowered_in_mid_transaction_ends_in_v2_and_goes_on_old() -> None:
    session = in_transaction(2)
    plan = session.plan_end(is_commit=True, features=features(1, epoch=2))
    assert (plan.send, plan.versions, plan.bump) == (True, V2_END, False)
    session.note_end(identity(1))
    assert session.protocol is TxnProtocol.V1


def test_an_older_features_epoch_changes_nothing() -> None:
    session = TxnSession()
    session.set_identity(identity(0), features(2, epoch=5), can_bump=True)
    session.begin()
    plan = session.plan_end(is_commit=True, features=features(0, epoch=5))
    assert plan.versions == V2_END
    assert session.protocol is TxnProtocol.V2


@pytest.mark.parametrize(("transaction_version", "bumps_epoch"), [(1, True), (2, False)])
def test_an_abortable_error_leaves_only_abort_and_bumps_in_the_old_protocol(
    transaction_version: int, bumps_epoch: bool
) -> None:
    session = in_transaction(transaction_version)
    raised_error = session.enter_abortable_error(
        ClientError("lost", error=ErrorCode.request_timed_out)
    )
    assert isinstance(raised_error, AbortableError)
    assert raised_error.error == ErrorCode.request_timed_out
    for refused_call in (session.begin, lambda: session.touch(P0)):
        with pytest.raises(AbortableError, match="lost"):
            refused_call()
    with pytest.raises(AbortableError):
        session.plan_end(is_commit=True, features=features(transaction_version))
    plan = session.plan_end(is_commit=False, features=features(transaction_version))
    assert (plan.send, plan.bump) == (True, bumps_epoch)
    session.note_end(identity(1) if transaction_version == 2 else None)
    session.begin()


def test_an_abortable_error_is_fatal_where_the_epoch_cannot_be_bumped() -> None:
    session = in_transaction(1, can_bump=False)
    assert isinstance(session.enter_abortable_error(ClientError("lost")), FatalError)


def test_a_fatal_error_stays_and_keeps_its_first_reason() -> None:
    session = in_transaction(2)
    fenced_error = ClientError("fenced", error=ErrorCode.producer_fenced)
    assert isinstance(session.enter_fatal_error(fenced_error), FatalError)
    later_error = session.enter_abortable_error(ClientError("later"))
    assert isinstance(later_error, FatalError)
    assert str(later_error) == "fenced"
    assert str(session.enter_fatal_error(ClientError("again"))) == "fenced"
    for refused_call in (session.begin, lambda: session.touch(P0), session.raise_error):
        with pytest.raises(FatalError, match="fenced"):
            refused_call()
    with pytest.raises(FatalError):
        session.plan_end(is_commit=False, features=features(2))


SETTINGS = ClientSettings(client_id="me", software_version="1.2")
CONNECTION_END = TxnRequests("t", producer_id=1, producer_epoch=2).end(committed=True)


async def connect(broker: FakeBroker, settings: ClientSettings = SETTINGS) -> Connection:
    clock = RealClock(asyncio.get_running_loop())
    return await Connection.open("127.0.0.1", broker.port, settings=settings, clock=clock)


async def test_versions_and_features_are_negotiated_first() -> None:
    async with FakeBroker(transaction_version=1) as broker:
        connection = await connect(broker)
        assert connection.versions[ClientApi.END_TXN] == VersionRange(0, 5)
        assert connection.features.level("transaction.version") == 1
        assert connection.features.epoch == 10
        (hello_request,) = broker.asked
        assert (hello_request.version, hello_request.message.client_software_name) == (4, "txnsim")
        assert hello_request.message.client_software_version == "1.2"
        connection.close()
        await connection.wait_closed()


@pytest.mark.parametrize(("highest", "settled_version"), [(3, 3), (0, 0)])
async def test_an_older_broker_is_asked_again_in_its_version(
    highest: int, settled_version: int
) -> None:
    async with FakeBroker() as broker:

        def refuse(request: ReceivedRequest) -> Any:
            # As a broker does: version 0, its own range inside (KIP-511).
            old_request = ReceivedRequest(18, 0, None)
            row = {"api_key": 18, "max_version": highest}
            return old_request.answer(error_code=35, api_keys=(row,))

        broker.handlers[ClientApi.API_VERSIONS] = in_turn(refuse, broker.api_versions)
        connection = await connect(broker)
        assert [request.version for request in broker.asked] == [4, settled_version]
        assert connection.versions
        connection.close()


async def test_a_refused_greeting_is_named() -> None:
    async with FakeBroker() as broker:
        broker.handlers[ClientApi.API_VERSIONS] = lambda request: request.answer(
            error_code=42, api_keys=()
        )
        with pytest.raises(NotSupportedError, match="ApiVersions with INVALID_REQUEST"):
            await connect(broker)


async def test_a_listener_that_closes_at_once_differs_from_a_dead_one() -> None:
    async with FakeBroker({ClientApi.API_VERSIONS: lambda _: CLOSE}) as broker:
        with pytest.raises(ConnectionLostError, match=r"security\.protocol=PLAINTEXT"):
            await connect(broker)
    with pytest.raises(ConnectionLostError, match="Connection refused"):
        await connect(broker)


async def test_answers_are_matched_by_correlation_id() -> None:
    make_answer = end_answer(0, epoch=9)
    async with FakeBroker({ClientApi.END_TXN: in_turn(lambda _: SILENCE, make_answer)}) as broker:
        connection = await connect(broker)
        swallowed_request_future, answered_end_future = (
            connection.send(CONNECTION_END),
            connection.send(CONNECTION_END),
        )
        assert (await answered_end_future).producer_epoch == 9
        assert not swallowed_request_future.done()
        connection.close()
        with pytest.raises(ConnectionLostError, match="closed by us"):
            await swallowed_request_future
        assert not connection.is_usable
        with pytest.raises(ConnectionLostError):
            connection.send(CONNECTION_END)


async def test_no_answer_in_time_closes_the_connection_and_fails_what_is_behind() -> None:
    async with FakeBroker({ClientApi.END_TXN: lambda _: SILENCE}) as broker:
        connection = await connect(broker)
        first_answer_future = connection.send(
            VersionedRequest(api=ClientApi.END_TXN, build=CONNECTION_END.build, timeout_ms=30)
        )
        second_answer_future = connection.send(
            VersionedRequest(api=ClientApi.END_TXN, build=CONNECTION_END.build, timeout_ms=60_000)
        )
        with pytest.raises(
            RequestTimeoutError, match="did not answer EndTxn in time"
        ) as timeout_info:
            await first_answer_future
        assert timeout_info.value.error == ErrorCode.request_timed_out
        with pytest.raises(ConnectionLostError, match="was left"):
            await second_answer_future
        assert not connection.is_usable
        await connection.wait_closed()


async def test_a_cut_connection_fails_what_is_on_its_way() -> None:
    async with FakeBroker({ClientApi.END_TXN: lambda _: CLOSE}) as broker:
        connection = await connect(broker)
        with pytest.raises(ConnectionLostError, match="closed the connection"):
            await connection.request(CONNECTION_END)


async def test_a_request_given_up_by_its_caller_disturbs_no_other() -> None:
    async with FakeBroker({ClientApi.END_TXN: end_answer()}) as broker:
        connection = await connect(broker)
        connection.send(CONNECTION_END).cancel()
        assert (await connection.request(CONNECTION_END)).error_code == ErrorCode.none
        connection.close()


@pytest.mark.parametrize(
    ("bytes_", "expected_text"),
    [
        (struct.pack(">ii", 4, 2), "can't be read"),
        (b"\xff\xff\xff\xff", "does not speak Kafka's protocol"),
        (struct.pack(">ih", 2, 1), "does not speak Kafka's protocol"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
    ],
    ids=["short body", "negative size", "no correlation id", "HTTP"],
)
async def test_bytes_that_are_no_answer_end_the_connection(
    bytes_: bytes, expected_text: str
) -> None:
    async with FakeBroker({ClientApi.END_TXN: lambda _: bytes_}) as broker:
        connection = await connect(broker)
        with pytest.raises(ClientError, match=expected_text):
            await connection.request(CONNECTION_END)
        assert not connection.is_usable


async def test_an_unknown_version_is_refused_before_anything_is_sent() -> None:
    async with FakeBroker(ranges={26: (0, 4)}) as broker:
        connection = await connect(broker)
        with pytest.raises(NotSupportedError, match="END_TXN"):
            connection.send(
                TxnRequests("t", producer_id=1, producer_epoch=1).end(
                    committed=True, accepted_versions=VersionRange(5, 9)
                )
            )
        assert broker.keys == []
        connection.close()


async def test_a_dial_that_takes_too_long_is_given_up() -> None:
    async def never(host: str, port: int, factory: object, *, tls: object = None) -> None:
        await asyncio.get_running_loop().create_future()

    clock = RealClock(asyncio.get_running_loop())
    settings = ClientSettings(connect_timeout_ms=10)
    with pytest.raises(RequestTimeoutError, match="no connection to nowhere:1 within 10 ms"):
        await Connection.open("nowhere", 1, settings=settings, clock=clock, dial=never)


def topic(
    *epochs: int, leader: int = 1, topic_id: UUID | None = None, error: int = 0
) -> TopicMetadata:
    return TopicMetadata(
        name="t",
        topic_id=topic_id,
        error=error,
        partitions=tuple(
            PartitionMetadata(partition=epoch_index, leader_id=leader, leader_epoch=epoch)
            for epoch_index, epoch in enumerate(epochs)
        ),
    )


def view(*topics: TopicMetadata, broker_id: int = 1) -> ClusterMetadata:
    broker = BrokerAddress(broker_id=broker_id, host="h", port=1)
    return ClusterMetadata(brokers=(broker,), topics=topics)


def test_lookups() -> None:
    cluster_metadata = view(topic(0, 0))
    assert str(cluster_metadata.broker(1)) == "broker 1 (h:1)"
    assert cluster_metadata.broker(2) is None
    assert cluster_metadata.topic("u") is None
    assert cluster_metadata.leader(TopicPartition("t", 1)) is not None
    assert cluster_metadata.leader(TopicPartition("t", 2)) is None
    assert cluster_metadata.leader(TopicPartition("u", 0)) is None
    assert view(topic(0, leader=-1)).leader(TopicPartition("t", 0)) is None
    assert view(topic(0, error=29)).leader(TopicPartition("t", 0)) is None


def test_a_topic_is_led_when_every_partition_is() -> None:
    assert topic(0, 0).is_led
    assert not topic(0, leader=-1).is_led
    assert not topic(0, error=3).is_led
    assert not topic().is_led


def test_topics_not_asked_for_stay_known_and_brokers_are_replaced() -> None:
    other_topic = TopicMetadata(name="u")
    merged_metadata = merge(view(topic(0), other_topic), view(topic(1), broker_id=2))
    assert merged_metadata.topics == (topic(1), other_topic)
    assert merged_metadata.broker(1) is None


def test_leader_epochs_never_go_back() -> None:
    merged_metadata = merge(view(topic(5, 5)), view(topic(4, 6, leader=2)))
    merged_topic = merged_metadata.topic("t")
    assert merged_topic is not None
    assert [(p.leader_id, p.leader_epoch) for p in merged_topic.partitions] == [(1, 5), (2, 6)]


def test_a_recreated_topic_begins_anew() -> None:
    recreated_topic = topic(0, leader=2, topic_id=UUID(int=2))
    assert merge(view(topic(5, topic_id=UUID(int=1))), view(recreated_topic)).topics == (
        recreated_topic,
    )


def test_an_error_replaces_what_was_known() -> None:
    deleted_topic = topic(error=3)
    assert merge(view(topic(5)), view(deleted_topic)).topics == (deleted_topic,)


def test_a_new_partition_and_a_broker_without_epochs_are_believed() -> None:
    merged_metadata = merge(view(topic(5)), view(topic(-1, 0, leader=3)))
    merged_topic = merged_metadata.topic("t")
    assert merged_topic is not None
    assert [p.leader_id for p in merged_topic.partitions] == [3, 3]


def test_answers_of_all_versions_are_read() -> None:
    broker = FakeBroker()
    broker.port = 9
    for version in (1, 5, 9, 12, 13):
        request = ReceivedRequest(3, version, type("Message", (), {"topics": None})())
        cluster_metadata = parse_metadata(broker.metadata(request))
        assert cluster_metadata.broker(1) is not None
        assert cluster_metadata.leader(TopicPartition("t", 1)) is not None
    for version in (1, 3, 4, 6):
        request = ReceivedRequest(10, version, type("Message", (), {"coordinator_keys": ("a",)})())
        assert parse_coordinators(coordinator(request), ("a",)) == {"a": (0, 1)}
        assert parse_coordinators(coordinator(request, error=15), ("a",)) == {"a": (15, -1)}


def test_the_highest_common_version_is_chosen() -> None:
    assert choose_version(ClientApi.END_TXN, {26: VersionRange(0, 9)}) == 5
    assert choose_version(ClientApi.END_TXN, {26: VersionRange(0, 3)}) == 3
    version_range = VersionRange(0, 4)
    assert (
        choose_version(ClientApi.END_TXN, {26: VersionRange(0, 5)}, accepted_versions=version_range)
        == 4
    )


@pytest.mark.parametrize(
    ("broker", "message"),
    [
        ({}, "The node does not support END_TXN"),
        (
            {26: VersionRange(0, 4)},
            "The node does not support END_TXN with version in range [5,5]. The supported range is"
            " [0,4].",
        ),
    ],
)
def test_no_common_version_says_what_was_needed(
    broker: dict[int, VersionRange], message: str
) -> None:
    with pytest.raises(NotSupportedError) as error_info:
        choose_version(ClientApi.END_TXN, broker, accepted_versions=VersionRange(5, 99))
    assert str(error_info.value) == message
    assert error_info.value.error == ErrorCode.unsupported_version


NEWER = version_range(ClientApi.LIST_TRANSACTIONS)[1] + 1


@pytest.mark.parametrize(
    ("broker_range", "version_range"),
    [
        (VersionRange(NEWER, NEWER + 1), ANY),
        (VersionRange(0, NEWER), VersionRange(NEWER, NEWER)),
    ],
)
def test_a_limit_of_ours_is_not_called_the_brokers(
    broker_range: VersionRange, version_range: VersionRange
) -> None:
    with pytest.raises(
        ClientTooOldError, match="This client speaks LIST_TRANSACTIONS up to"
    ) as error_info:
        choose_version(
            ClientApi.LIST_TRANSACTIONS, {66: broker_range}, accepted_versions=version_range
        )
    assert error_info.value.error is ErrorCode.unsupported_version


def test_the_client_speaks_every_version_that_there_are_messages_for() -> None:
    apis_behind = {api for api in ClientApi if api.own_range.highest < version_range(api)[1]}
    assert apis_behind == {
        ClientApi.OFFSET_COMMIT,
        ClientApi.OFFSET_FETCH,
        ClientApi.API_VERSIONS,
        ClientApi.ADD_PARTITIONS_TO_TXN,
        ClientApi.TXN_OFFSET_COMMIT,
    }, "each says why, in client/versions.py"


@pytest.mark.slow
def test_every_version_that_we_claim_has_schemas() -> None:
    for api in ClientApi:
        for version in range(api.own_range.lowest, api.own_range.highest + 1):
            codec.request_class(api, version)
            codec.response_class(api, version)


def test_an_unlisted_feature_is_at_level_0() -> None:
    features = FinalizedFeatures(epoch=1, levels=(("transaction.version", 2),))
    assert features.level("transaction.version") == 2
    assert features.level("group.version") == 0


def test_only_a_higher_epoch_replaces_what_is_known() -> None:
    features_before, features_answered = FinalizedFeatures(epoch=4), FinalizedFeatures(epoch=5)
    assert newer_features(features_before, features_answered) is features_answered
    assert newer_features(features_answered, features_before) is features_answered
    assert (
        newer_features(features_before, FinalizedFeatures(epoch=4, levels=(("x", 1),)))
        is features_before
    )
    unknown_features = FinalizedFeatures()
    assert newer_features(features_before, unknown_features) is features_before


class HandClock(ManualClock):
    """A clock whose timers fire at once and move its monotonic time."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> ManualTimer:
        self.delays.append(delay_ms)
        timer = super().call_later(delay_ms, callback)
        asyncio.get_running_loop().call_soon(self.pass_ms, int(delay_ms))
        return timer


async def test_a_pause_ends_with_its_timer_and_a_cancelled_one_disarms_it() -> None:
    clock = ManualClock()
    pauses_future = asyncio.gather(pause(clock, 5))
    await asyncio.sleep(0)
    clock.pass_ms(4)
    assert clock.armed_timers == 1
    clock.pass_ms(1)
    await pauses_future
    pauses_future = asyncio.gather(pause(clock, 9))
    await asyncio.sleep(0)
    pauses_future.cancel()
    await asyncio.gather(pauses_future, return_exceptions=True)
    assert clock.armed_timers == 0


def test_a_deadline_counts_down_to_0() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, 10)
    clock.advance(5)
    assert (deadline.left_ms, deadline.has_passed) == (10, False)
    clock.pass_ms(10)
    assert (deadline.left_ms, deadline.has_passed) == (0, True)
    clock.pass_ms(10)
    assert deadline.left_ms == 0


async def test_pauses_double_up_to_a_limit_and_never_pass_the_deadline() -> None:
    clock = HandClock()
    backoff = Backoff(clock, initial_ms=10, max_ms=50)
    for _ in range(4):
        await backoff.wait()
    assert clock.delays == [10, 20, 40, 50]
    await backoff.wait(Deadline(clock, 7))
    await backoff.wait(at_most_ms=3)
    assert clock.delays[-2:] == [7, 3]
