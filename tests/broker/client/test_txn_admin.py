"""Searching in batches, and which errors are final; words and commands have their own:
inspection, cli/txns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final
from uuid import UUID

import pytest

from tests.broker.cli.txns.test_command import (
    marker_answer,
    producers,
    transaction_description,
    transaction_listing,
)
from tests.broker.client.fake_broker import (
    FakeBroker,
    Handler,
    ReceivedRequest,
    in_turn,
    init_answer,
    producers_of,
)
from txnsim.client import group_requests, requests
from txnsim.client._txn_admin import BATCH_MAX, PRODUCER_IDS_MAX, TransactionAdmin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError, ConnectionLostError, NotSupportedError
from txnsim.client.inspection.txn_views import OpenSince
from txnsim.client.requests import ConfigChange, Marker, NewTopic
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import ClientApi, VersionedRequest, VersionRange, choose_version
from txnsim.errors import ErrorCode
from txnsim.types import ProducerIdAndEpoch, TopicPartition
from txnsim.wire import codec
from txnsim.wire.filters import TransactionFilters

T0: Final = TopicPartition("t", 0)
SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=500)


def nobody(request: ReceivedRequest) -> Any:
    return producers_of(request)


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    topics = {f"t{topic_index}": 1 for topic_index in range(BATCH_MAX + 1)}
    handler_by_api = {
        ClientApi.DESCRIBE_PRODUCERS: nobody,
        ClientApi.INIT_PRODUCER_ID: init_answer(),
    }
    async with FakeBroker(handler_by_api, topics=topics) as fake_broker:
        yield fake_broker


@pytest.fixture
async def admin(broker: FakeBroker) -> AsyncIterator[TransactionAdmin]:
    async with Cluster(broker.address, settings=SETTINGS) as cluster:
        yield TransactionAdmin(cluster)


async def test_a_search_asks_for_500_partitions_at_a_time(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    assert await admin.find_hanging(now_ms=0, broker_id=1) == ()
    sizes = [len(request.message.topics) for request in broker.of(ClientApi.DESCRIBE_PRODUCERS)]
    assert sizes == [BATCH_MAX, 1]
    assert broker.of(ClientApi.LIST_TRANSACTIONS) == []  # without candidates nobody is looked up


async def test_very_many_producers_are_asked_about_in_parts(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    """A request about 100,000 had more elements than our brokers take."""
    broker.handlers[ClientApi.LIST_TRANSACTIONS] = transaction_listing()
    broker.handlers[ClientApi.DESCRIBE_TRANSACTIONS] = transaction_description()
    producer_ids = set(range(2 * PRODUCER_IDS_MAX + 1))
    transactional_ids, descriptions = await admin.known_to_coordinators(producer_ids)
    listings = broker.of(ClientApi.LIST_TRANSACTIONS)
    asked_ids = [request.message.producer_id_filters for request in listings]
    assert [len(ids) for ids in asked_ids] == [PRODUCER_IDS_MAX, PRODUCER_IDS_MAX, 1]
    assert {producer_id for ids in asked_ids for producer_id in ids} == producer_ids
    assert (transactional_ids, [*descriptions]) == ({7: "pay", 8: "x"}, ["pay", "x"])


async def test_a_search_on_a_broker_without_replicas_sends_no_request(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    assert await admin.find_hanging(now_ms=0, broker_id=9) == ()
    assert broker.of(ClientApi.DESCRIBE_PRODUCERS) == []


async def test_fencing_waits_for_the_abort_it_causes(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    broker.handlers[ClientApi.INIT_PRODUCER_ID] = in_turn(
        init_answer(51), init_answer(14), init_answer(16), init_answer(epoch=4)
    )
    outcome = (await admin.fence_producers(("x",)))["x"]
    assert isinstance(outcome, ProducerIdAndEpoch)
    assert outcome.producer_epoch == 4
    assert len(broker.of(ClientApi.FIND_COORDINATOR)) == 2
    broker.handlers[ClientApi.INIT_PRODUCER_ID] = init_answer(53)
    with pytest.raises(ClientError) as error_info:
        await admin.force_terminate_transaction("x")
    assert error_info.value.error == ErrorCode.transactional_id_authorization_failed


def answers_of(api: ClientApi) -> Callable[[int], Handler]:
    """Makes a handler that answers with an error code."""
    return {
        ClientApi.LIST_TRANSACTIONS: transaction_listing,
        ClientApi.DESCRIBE_TRANSACTIONS: transaction_description,
        ClientApi.DESCRIBE_PRODUCERS: producers,
        ClientApi.WRITE_TXN_MARKERS: marker_answer,
        ClientApi.INIT_PRODUCER_ID: init_answer,
    }[api]


async def ask(admin: TransactionAdmin, api: ClientApi) -> object:
    """The outcome for the only key of the request."""
    outcomes: Mapping[Any, object]
    match api:
        case ClientApi.LIST_TRANSACTIONS:
            outcomes = await admin.list_transactions()
        case ClientApi.DESCRIBE_TRANSACTIONS:
            outcomes = await admin.describe_transactions(("pay",))
        case ClientApi.DESCRIBE_PRODUCERS:
            outcomes = await admin.describe_producers((T0,))
        case ClientApi.WRITE_TXN_MARKERS:
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
        (ClientApi.LIST_TRANSACTIONS, (14,), AGAIN),
        (ClientApi.LIST_TRANSACTIONS, (15, 128, -1), FINAL),
        (ClientApi.DESCRIBE_TRANSACTIONS, (14,), AGAIN),
        (ClientApi.DESCRIBE_TRANSACTIONS, (15, 16), ELSEWHERE),
        (ClientApi.DESCRIBE_TRANSACTIONS, (42, 53, 105), FINAL),
        (ClientApi.DESCRIBE_PRODUCERS, (3,), AGAIN),
        (ClientApi.DESCRIBE_PRODUCERS, (6,), ELSEWHERE),
        (ClientApi.DESCRIBE_PRODUCERS, (17, 29, 56), FINAL),
        (ClientApi.WRITE_TXN_MARKERS, (3, 6, 8, 9), ELSEWHERE),
        (ClientApi.WRITE_TXN_MARKERS, (31, 47, 48, 52), FINAL),
        (ClientApi.INIT_PRODUCER_ID, (14, 51), AGAIN),
        (ClientApi.INIT_PRODUCER_ID, (15, 16), ELSEWHERE),
        (ClientApi.INIT_PRODUCER_ID, (31, 42, 53), FINAL),
    ],
)
async def test_errors_are_met_as_by_javas_handlers(
    api: ClientApi, codes: tuple[int, ...], reaction: str
) -> None:
    for code in codes:
        make_answer = answers_of(api)
        async with FakeBroker({api: in_turn(make_answer(code), make_answer(0))}) as broker:
            async with Cluster(broker.address, settings=SETTINGS) as cluster:
                outcome = await ask(TransactionAdmin(cluster), api)
            requests_sent = len(broker.of(api))
            by_id = api in (ClientApi.DESCRIBE_TRANSACTIONS, ClientApi.INIT_PRODUCER_ID)
            looked_up = len(broker.of(ClientApi.FIND_COORDINATOR if by_id else ClientApi.METADATA))
        if reaction is FINAL:
            assert requests_sent == 1
            assert isinstance(outcome, ClientError)
            assert outcome.error == code
        else:
            assert requests_sent == 2
            assert not isinstance(outcome, ClientError)
            # By partition, the first Metadata is that of connecting.
            assert looked_up == (1 if by_id else 2) + (1 if reaction is ELSEWHERE else 0)


async def test_only_named_brokers_are_asked_and_unknown_ones_named(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    broker.handlers[ClientApi.LIST_TRANSACTIONS] = transaction_listing()
    outcomes = await admin.list_transactions(broker_ids=(9, 1, 9))
    assert sorted(outcomes) == [1, 9]
    assert not isinstance(outcomes[1], ClientError)
    stranger = outcomes[9]
    assert isinstance(stranger, ConnectionLostError)
    assert str(stranger) == "broker 9 is not in the cluster, whose brokers are 1"
    assert len(broker.of(ClientApi.LIST_TRANSACTIONS)) == 1


async def test_a_chosen_coordinator_is_not_looked_up(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    broker.handlers[ClientApi.DESCRIBE_TRANSACTIONS] = transaction_description(16)
    (outcome,) = (await admin.describe_transactions(("pay",), broker_id=1)).values()
    assert isinstance(outcome, ClientError)
    assert outcome.error is ErrorCode.not_coordinator
    (stranger,) = (await admin.describe_transactions(("pay",), broker_id=9)).values()
    assert str(stranger) == "broker 9 is not in the cluster, whose brokers are 1"
    assert len(broker.of(ClientApi.DESCRIBE_TRANSACTIONS)) == 1
    assert broker.of(ClientApi.FIND_COORDINATOR) == []


async def test_an_abort_goes_by_the_start_offset_or_by_the_identity(
    broker: FakeBroker, admin: TransactionAdmin
) -> None:
    topic_partition = TopicPartition("t1", 0)
    broker.handlers[ClientApi.DESCRIBE_PRODUCERS] = producers()
    broker.handlers[ClientApi.WRITE_TXN_MARKERS] = marker_answer()
    spec = await admin.identify(OpenSince(partition=topic_partition, start_offset=4))
    await admin.abort_transaction(OpenSince(partition=topic_partition, start_offset=4))
    await admin.abort_transaction(spec)
    by_offset, second_message = (
        request.message for request in broker.of(ClientApi.WRITE_TXN_MARKERS)
    )
    assert by_offset == second_message
    assert (by_offset.markers[0].producer_id, by_offset.markers[0].coordinator_epoch) == (
        spec.producer_id,
        0,
    )
    with pytest.raises(ClientError, match="Could not find any open transactions") as missing:
        await admin.abort_transaction(OpenSince(partition=topic_partition, start_offset=5))
    assert missing.value.error is ErrorCode.invalid_txn_state
    broker.handlers[ClientApi.DESCRIBE_PRODUCERS] = producers(29)
    with pytest.raises(ClientError, match="authorization failure"):
        await admin.abort_transaction(OpenSince(partition=topic_partition, start_offset=4))
    assert len(broker.of(ClientApi.WRITE_TXN_MARKERS)) == 2


# Every request can be built and encoded at every version it may be sent in, and says what was
# asked.


P0, P1, Q0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
IDS = {"t": UUID(int=1), "u": UUID(int=2)}
ALL = {
    "metadata": requests.metadata(("t",)),
    "metadata of all": requests.metadata(None, create=True),
    "coordinator": requests.find_coordinator(("a",)),
    "init": TxnRequests("a").init(timeout_ms=1),
    "bump": TxnRequests("a", producer_id=1, producer_epoch=2).init(timeout_ms=1),
    "add": TxnRequests("a", producer_id=1, producer_epoch=2).add_partitions(
        partitions=(P0, Q0, P1)
    ),
    "end": TxnRequests("a", producer_id=1, producer_epoch=2).end(committed=True),
    "markers": requests.write_txn_markers(
        (
            Marker(
                producer_id=1,
                producer_epoch=2,
                committed=False,
                coordinator_epoch=3,
                partitions=(P0, Q0),
                transaction_version=2,
            ),
        )
    ),
    "producers": requests.describe_producers((P0, Q0)),
    "transactions": requests.describe_transactions(("a",)),
    "list": requests.list_transactions(TransactionFilters(states=("Empty",), producer_ids=(1,))),
    "produce": requests.produce({P0: b"x"}, id_by_topic=IDS, transactional_id="a"),
    "fetch": requests.fetch(
        {P0: 1, P1: 2, Q0: 3},
        id_by_topic=IDS,
        isolation_level=1,
        max_wait_ms=1,
        min_bytes=1,
        max_bytes=1,
        partition_max_bytes=1,
    ),
    "offsets": requests.list_offsets({P0: -1, Q0: 5}, isolation_level=0, timeout_ms=1),
    "create": requests.create_topics(
        (NewTopic(name="t", partitions=1, replication_factor=1, configs=(("k", "v"),)),),
        timeout_ms=1,
        validate_only=True,
    ),
    "assign": requests.create_topics(
        (NewTopic(name="t", assignments=((1, 2), (2, 1))),), timeout_ms=1, validate_only=False
    ),
    "delete": requests.delete_topics(("t",), timeout_ms=1),
    "cluster": requests.describe_cluster(),
    "features": requests.update_features(
        {"f": 1}, upgrade_type=1, validate_only=False, timeout_ms=1
    ),
    "configs": requests.incremental_alter_configs(
        (
            ConfigChange(resource_type=2, resource_name="t", name="a", value="1"),
            ConfigChange(resource_type=2, resource_name="t", name="b", value=None),
        ),
        validate_only=False,
    ),
    "described configs": requests.describe_configs(2, "t", ("a",)),
}
CASES = [
    pytest.param(request, version, id=f"{name}-v{version}")
    for name, request in ALL.items()
    for version in range(
        max(request.api.own_range.lowest, request.accepted_versions.lowest),
        min(request.api.own_range.highest, request.accepted_versions.highest) + 1,
    )
]


@pytest.mark.parametrize(("request_", "version"), CASES)
def test_a_request_survives_its_encoding(request_: VersionedRequest, version: int) -> None:
    message = request_.build(codec.request_schema(request_.api, version))
    frame = codec.encode_request(request_.api, version, 1, "me", message)[4:]
    header = codec.read_request_header(frame)
    assert (header.api_key, header.api_version, header.client_id) == (request_.api, version, "me")
    read = codec.decode_request(header, frame)
    assert codec.encode_body(read) == codec.encode_body(message)


@pytest.mark.parametrize(
    ("request_", "lowest"),
    [
        (requests.list_transactions(), 0),
        (requests.list_transactions(TransactionFilters(duration_ms=0)), 1),
        (requests.list_transactions(TransactionFilters(pattern="x")), 2),
        (requests.list_offsets({P0: -1}, isolation_level=0, timeout_ms=1), 1),
        (requests.list_offsets({P0: -1}, isolation_level=1, timeout_ms=1), 2),
        (requests.list_offsets({P0: -3}, isolation_level=0, timeout_ms=1), 7),
        (requests.create_topics((NewTopic(name="t"),), timeout_ms=1, validate_only=False), 4),
        (
            requests.update_features({"f": 1}, upgrade_type=3, validate_only=False, timeout_ms=1),
            1,
        ),
        (TxnRequests("a", producer_id=0, producer_epoch=0).init(timeout_ms=1), 3),
    ],
)
def test_what_an_old_version_cannot_say_is_not_sent_in_it(
    request_: VersionedRequest, lowest: int
) -> None:
    broker = {int(request_.api): VersionRange(0, lowest)}
    assert (
        choose_version(request_.api, broker, accepted_versions=request_.accepted_versions) == lowest
    )
    if lowest:
        older_versions = {int(request_.api): VersionRange(0, lowest - 1)}
        with pytest.raises(NotSupportedError):
            made_for(request_, older_versions)


def made_for(request_: VersionedRequest, broker: Mapping[int, VersionRange]) -> Any:
    version = choose_version(request_.api, broker, accepted_versions=request_.accepted_versions)
    return request_.build(codec.request_schema(request_.api, version))


def test_topics_without_an_id_go_by_name() -> None:
    assert requests.produce({P0: b""}, id_by_topic={}).accepted_versions.highest == 12
    unnamed_request = requests.fetch(
        {P0: 0},
        id_by_topic={"t": None},
        isolation_level=0,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        partition_max_bytes=0,
    )
    assert unnamed_request.accepted_versions.highest == 12


def test_acks_0_expects_no_answer() -> None:
    assert not requests.produce({P0: b""}, id_by_topic={}, acks=0).is_answered
    assert requests.produce({P0: b""}, id_by_topic={}, acks=1).is_answered


def test_partitions_are_grouped_in_order_of_first_appearance() -> None:
    rows = [row.fields for row in requests.per_topic("Any", (P1, Q0, P0))]
    assert rows == [{"name": "t", "partitions": (1, 0)}, {"name": "u", "partitions": (0,)}]


def test_rows_that_a_version_does_not_have_are_left_out() -> None:
    request_by_name = requests.delete_topics(("t",), timeout_ms=1)
    assert made_for(
        request_by_name, {int(request_by_name.api): VersionRange(0, 5)}
    ).topic_names == ("t",)


def test_a_field_that_no_version_has_is_an_error() -> None:
    slip_request = requests.versioned_request(
        ClientApi.LIST_GROUPS, rows=[requests.MessageRow("NoSuchClass")]
    )
    with pytest.raises(TypeError, match="rows"):
        made_for(slip_request, {slip_request.api: slip_request.api.own_range})


# Requests about positions can be encoded at every version they may be sent in.


GROUP_REQUESTS_ALL = {
    "coordinator": group_requests.find_group_coordinator("g"),
    "add": TxnRequests("a", producer_id=1, producer_epoch=2).add_offsets(group_id="g"),
    "commit": TxnRequests("a", producer_id=1, producer_epoch=2).commit_offsets(
        group_id="g", offsets={P0: 3, Q0: 4, P1: 5}
    ),
    "fetch": group_requests.offset_fetch("g", (P0, Q0), needs_stable=False),
    "stable": group_requests.offset_fetch("g", (P0, Q0), needs_stable=True),
}


@pytest.mark.parametrize("request_", GROUP_REQUESTS_ALL.values(), ids=GROUP_REQUESTS_ALL)
def test_they_can_be_sent_in_every_version(request_: VersionedRequest) -> None:
    own_versions = request_.api.own_range
    lowest = max(own_versions.lowest, request_.accepted_versions.lowest)
    highest = min(own_versions.highest, request_.accepted_versions.highest)
    assert lowest <= highest
    for version in range(lowest, highest + 1):
        message = request_.build(codec.request_schema(request_.api, version))
        assert codec.encode_request(request_.api, version, 1, "c", message)


def test_positions_are_grouped_by_topic() -> None:
    message = GROUP_REQUESTS_ALL["commit"].build(
        codec.request_schema(ClientApi.TXN_OFFSET_COMMIT, 3)
    )
    offset_by_partition = {
        (topic.name, row.partition_index): row.committed_offset
        for topic in message.topics
        for row in topic.partitions
    }
    assert offset_by_partition == {("t", 0): 3, ("t", 1): 5, ("u", 0): 4}


def test_only_a_version_that_can_say_so_is_asked_for_stable_positions() -> None:
    assert GROUP_REQUESTS_ALL["stable"].accepted_versions.lowest == 7
    assert GROUP_REQUESTS_ALL["fetch"].accepted_versions.lowest < 7
