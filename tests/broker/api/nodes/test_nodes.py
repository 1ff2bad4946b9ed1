"""Handlers of brokers, their versions, features and metrics."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.broker_api import KEYS, Api, handlers
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.raw_connection import API_VERSIONS, WireClient
from tests.support.within_environment import within
from txnsim.api.nodes._get_telemetry_subscriptions import client_of
from txnsim.api.registry import ADVERTISED, SHIPPED
from txnsim.api.request import ClientLink
from txnsim.errors import ErrorCode
from txnsim.types import BrokerId
from txnsim.wire import codec
from txnsim.wire.plain_values import message_from

# GetTelemetrySubscriptions: what a client is told, and refused.


GET = "GetTelemetrySubscriptions"


async def test_a_new_client_gets_an_id_and_the_wanted_metrics(api: Api) -> None:
    metadata = api.broker.metadata
    metadata.publish(
        metadata.image.with_client_metrics("one", {"metrics": "a.", "interval.ms": "1000"})
    )
    answer = await api.ask(GET, 0, client_instance_id=uuid.UUID(int=0))
    assert answer.error_code is ErrorCode.none
    assert answer.client_instance_id.version == 4
    assert answer.requested_metrics == ("a.",)
    assert answer.push_interval.total_seconds() == 1
    assert answer.telemetry_max_bytes == 1_048_576
    assert answer.accepted_compression_types == (4, 3, 1, 2)
    assert answer.delta_temporality


async def test_a_client_that_asks_too_early_gets_an_error(api: Api) -> None:
    client = uuid.UUID(int=77)
    first_answer = await api.ask(GET, 0, client_instance_id=client)
    assert (first_answer.error_code, first_answer.client_instance_id) == (ErrorCode.none, client)
    second_answer = await api.ask(GET, 0, client_instance_id=client)
    assert second_answer.error_code is ErrorCode.throttling_quota_exceeded
    assert second_answer.client_instance_id is None
    assert (second_answer.subscription_id, second_answer.telemetry_max_bytes) == (0, 0)
    assert (second_answer.requested_metrics, second_answer.accepted_compression_types) == ((), ())


async def test_brokers_give_ids_of_their_own() -> None:
    async with handlers(brokers=2) as api:
        ids = {(await api.on_broker(broker).ask(GET, 0)).client_instance_id for broker in (1, 2, 1)}
    assert len(ids) == 3


KEY = KEYS["GetTelemetrySubscriptions"]
SOFTWARE = {"client_software_name": "lib", "client_software_version": "1.2"}


async def test_a_client_is_known_by_header_connection_and_software(api: Api) -> None:
    request = api.request("GetTelemetrySubscriptions", 0, client_id="app")
    request.link = ClientLink("50000")
    request.link.software_name, request.link.software_version = "lib", "1.2"
    request.client_host = "/127.0.0.1"
    client = client_of(request)
    assert client.attributes(uuid.UUID(int=0)) == {
        "client_id": "app",
        "client_instance_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "client_software_name": "lib",
        "client_software_version": "1.2",
        "client_source_address": "127.0.0.1",
        "client_source_port": "50000",
    }
    assert client.connection is request.link


async def test_a_client_without_an_id_is_called_nothing(api: Api) -> None:
    request = api.request("GetTelemetrySubscriptions", 0)
    request.client_id = None
    assert client_of(request).client_id == ""


async def ask_over_wire(wire: WireClient, api_key: int, version: int, **request_fields: Any) -> Any:
    message = message_from(codec.request_class(api_key, version), request_fields)
    wire.send(wire.frame(api_key, version, message))
    return (await wire.answer())[1]


@within(run_cluster, client_telemetry_enable=True)
async def test_a_connection_tells_its_software_and_is_forgotten_when_it_ends(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    metadata = sim.metadata
    match = {"match": "client_software_name=lib", "metrics": "yes"}
    metadata.publish(metadata.image.with_client_metrics("one", match))
    broker_image = metadata.image.brokers[BrokerId(1)]
    for software, expected in ((SOFTWARE, ("yes",)), ({}, ())):
        wire = await WireClient.open(broker_image.host, broker_image.port)
        if software:
            await ask_over_wire(wire, API_VERSIONS, 3, **software)
        answer = await ask_over_wire(wire, KEY, 0, client_instance_id=uuid.UUID(int=77))
        assert answer.error_code is ErrorCode.none, "the one before is forgotten"
        assert answer.requested_metrics == expected
        await wire.close()


@within(run_cluster)
async def test_without_anybody_who_takes_metrics_the_apis_are_answered_and_not_listed(
    cluster: VirtualCluster,
) -> None:
    broker_image = cluster.sim.metadata.image.brokers[BrokerId(1)]
    wire = await WireClient.open(broker_image.host, broker_image.port)
    assert KEY not in SHIPPED.advertised
    answer = await ask_over_wire(wire, KEY, 0, client_instance_id=uuid.UUID(int=77))
    assert answer.error_code is ErrorCode.none
    await wire.close()


# ``find_coordinator``: FindCoordinator v0 to v6: who it is, refusals, the subject; the casebook has
# the rest.


NOWHERE = (-1, "", -1)


def keys(*names: str) -> dict[str, object]:
    return {"key": names[0], "coordinator_keys": names}


async def test_the_first_question_creates_the_log_of_transactions(api: Api) -> None:
    first_answer = await api.ask("FindCoordinator", 1, key="id", key_type=1)
    assert first_answer.error_code is ErrorCode.coordinator_not_available
    assert first_answer.error_message == "The coordinator is not available."
    assert "__transaction_state" in api.broker.image.topics
    second_answer = await api.ask("FindCoordinator", 1, key="id", key_type=1)
    assert second_answer.error_code is ErrorCode.none


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_up_to_v3_one_key_is_answered_at_the_top(api_of_three: Api, version: int) -> None:
    api = api_of_three
    await api.producer("id")
    answer = await api.ask("FindCoordinator", version, key_type=1, **keys("id"))
    node_id = api.broker.transaction_coordinator_of("id")  # type: ignore[arg-type]
    assert node_id is not None
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, "NONE")
    assert (answer.node_id, answer.port) == (node_id, api.broker.image.brokers[node_id].port)


@pytest.mark.parametrize("version", range(7))
async def test_groups_have_no_coordinator_yet(api: Api, version: int) -> None:
    answer = await api.ask("FindCoordinator", version, key_type=0, **keys("group"))
    coordinator = answer.coordinators[0] if version >= 4 else answer
    assert coordinator.error_code is ErrorCode.coordinator_not_available
    assert (coordinator.node_id, coordinator.host, coordinator.port) == NOWHERE


async def test_refusals_and_the_subject(api: Api) -> None:
    error = ErrorCode.request_timed_out
    assert api.refuse("FindCoordinator", 0, error, key="a").error_code is error
    refusal_answer = api.refuse(
        "FindCoordinator", 4, error, key_type=1, coordinator_keys=["a", "b"]
    )
    assert [coordinator.error_code for coordinator in refusal_answer.coordinators] == [error, error]
    make_subject = api.subject
    assert (
        make_subject("FindCoordinator", 4, key_type=1, coordinator_keys=["a"]).transactional_id
        == "a"
    )
    joint_subject = make_subject("FindCoordinator", 4, key_type=1, coordinator_keys=["a", "b"])
    assert [other_subject.transactional_id for other_subject in joint_subject.other_subjects] == [
        "b"
    ]
    assert make_subject("FindCoordinator", 4, key_type=1).transactional_id is None
    assert make_subject("FindCoordinator", 1, key_type=1, key="b").transactional_id == "b"
    assert make_subject("FindCoordinator", 0, key="g").transactional_id is None


@pytest.mark.usefixtures("all_levels")
async def test_a_factor_above_the_number_of_brokers_leaves_no_coordinator() -> None:
    """With a real 4.4.0 of one broker, a client's initTransactions times out."""
    settings = {
        "transaction_state_log_replication_factor": 3,
        "offsets_topic_replication_factor": 3,
        "default_replication_factor": 3,
    }
    async with handlers(**settings) as api:
        with capture_logs() as lines:
            for _ in range(3):
                for key_type in (0, 1):
                    answer = await api.ask("FindCoordinator", 4, key_type=key_type, **keys("x"))
                    (coordinator,) = answer.coordinators
                    assert coordinator.error_code is ErrorCode.coordinator_not_available
                fields = {"topics": [{"topic_id": None, "name": "auto"}]}
                answer = await api.ask("Metadata", 9, allow_auto_topic_creation=True, **fields)
                assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
        assert not api.broker.image.topics.keys() & {"__transaction_state", "auto"}
    refused_events = [line for line in lines if line["event"] == "topic.creation.refused"]
    assert [line["topic"] for line in refused_events] == [
        "__consumer_offsets",
        "__transaction_state",
        "auto",
    ]
    assert "only 1 broker(s) are registered" in refused_events[0]["reason"]


# ``api_versions``: ApiVersions v0 to v5: the ranges, features by version, refusals; the casebook
# has the rest.


CLIENT = {"client_software_name": "x", "client_software_version": "1.0"}


@pytest.mark.parametrize("version", range(6))
async def test_every_version_lists_what_is_advertised(api: Api, version: int) -> None:
    answer = await api.ask("ApiVersions", version, **CLIENT)
    assert answer.error_code is ErrorCode.none
    ranges = {
        api_key.api_key: (api_key.min_version, api_key.max_version) for api_key in answer.api_keys
    }
    assert ranges == ADVERTISED
    assert ranges[0] == (0, 13), "librdkafka wants to see Produce 0 (KAFKA-18659)"


async def test_level_zero_features_are_shown_from_v4(api: Api) -> None:
    features_by_version = {
        version: {
            supported_feature.name: (supported_feature.min_version, supported_feature.max_version)
            for supported_feature in (
                await api.ask("ApiVersions", version, **CLIENT)
            ).supported_features
        }
        for version in (3, 4)
    }
    assert features_by_version[3] == {"metadata.version": (7, 33)}
    assert features_by_version[4]["transaction.version"] == (0, 2)
    assert features_by_version[4]["kraft.version"] == (0, 1)


async def test_a_version_of_the_future_gets_this_apis_own_range(api: Api) -> None:
    answer = api.refuse("ApiVersions", 0, ErrorCode.unsupported_version)
    (own_row,) = answer.api_keys
    assert answer.error_code is ErrorCode.unsupported_version
    assert (own_row.api_key, own_row.min_version, own_row.max_version) == (18, 0, 5)


async def test_any_other_refusal_lists_nothing(api: Api) -> None:
    answer = api.refuse("ApiVersions", 4, ErrorCode.unknown_server_error, **CLIENT)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.unknown_server_error, ())


# ``describe_quorum``: DescribeQuorum v0 to v2: the metadata log, and everything that has no quorum.


LOG = "__cluster_metadata"


def asked_of_describe_quorum(*partitions: tuple[str, int]) -> list[dict[str, object]]:
    return [
        {"topic_name": topic_name, "partitions": [{"partition_index": partition_index}]}
        for topic_name, partition_index in partitions
    ]


@pytest.mark.parametrize("version", range(3))
async def test_one_voter_and_those_who_follow(version: int) -> None:
    async with handlers(brokers=3) as api:
        answer = await api.on_broker(2).ask(
            "DescribeQuorum", version, topics=asked_of_describe_quorum((LOG, 0))
        )
        assert answer.error_code is ErrorCode.none
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.none, 1)
        assert [voter.replica_id for voter in partition.current_voters] == [1]
        assert [observer.replica_id for observer in partition.observers] == [2, 3]
        ends = {
            replica.log_end_offset for replica in (*partition.current_voters, *partition.observers)
        }
        assert ends == {partition.high_watermark}
        if version == 2:
            (node,) = answer.nodes
            (listener,) = node.listeners
            assert (node.node_id, listener.name) == (1, "CONTROLLER")
            assert (listener.host, listener.port) == api.broker.image.brokers[1].address(
                "PLAINTEXT"
            )


async def test_an_empty_request_gets_an_empty_answer(api: Api) -> None:
    answer = await api.ask("DescribeQuorum", 2, topics=[])
    assert (answer.error_code, answer.topics, answer.nodes) == (ErrorCode.none, (), ())


# ``update_features``: UpdateFeatures v0 to v2: what takes effect; the casebook has what is refused.


NAME = "transaction.version"


def values(*updates: tuple[str, int, int], validate_only: bool = False) -> dict[str, Any]:
    return {
        "validate_only": validate_only,
        "feature_updates": [
            {
                "feature": feature,
                "max_version_level": level,
                "upgrade_type": upgrade_type,
                "allow_downgrade": upgrade_type != 1,
            }
            for feature, level, upgrade_type in updates
        ],
    }


@pytest.mark.parametrize("version", [1, 2])
async def test_upgrade_types_lower_and_raise(api: Api, version: int) -> None:
    for transaction_version, kind in ((1, 2), (0, 2), (2, 1)):
        features_epoch = api.broker.image.features_epoch
        answer = await api.ask(
            "UpdateFeatures", version, **values((NAME, transaction_version, kind))
        )
        assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
        assert api.broker.transaction_version() == transaction_version
        assert api.broker.image.features_epoch > features_epoch
        if version < 2:
            assert [(result.feature, result.error_message) for result in answer.results] == [
                (NAME, "NONE")
            ]


# ``push_telemetry``: PushTelemetry: taken, or refused with an error and nothing else.


PUSH_TELEMETRY_CLIENT = uuid.UUID(int=77)


async def push_metrics(api: Api, **values: Any) -> ErrorCode:
    answer = await api.ask(
        "PushTelemetry", 0, **{"client_instance_id": PUSH_TELEMETRY_CLIENT, **values}
    )
    error: ErrorCode = answer.error_code
    return error


async def test_what_was_asked_for_is_taken(api: Api) -> None:
    subscription = await api.ask(
        "GetTelemetrySubscriptions", 0, client_instance_id=PUSH_TELEMETRY_CLIENT
    )
    error = await push_metrics(
        api, subscription_id=subscription.subscription_id, metrics=b"metrics"
    )
    assert error is ErrorCode.none
    assert api.broker.client_metrics.bytes_total == len(b"metrics")


async def test_another_subscription_is_refused(api: Api) -> None:
    assert await push_metrics(api, subscription_id=1) is ErrorCode.unknown_subscription_id


# ``unregister_broker``: UnregisterBroker: who is unknown can't be forgotten, and who is known
# stays.


@pytest.mark.parametrize(
    ("broker", "error"),
    [
        (1, ErrorCode.invalid_request),
        (4711, ErrorCode.broker_id_not_registered),
        (-1, ErrorCode.broker_id_not_registered),
    ],
)
async def test_no_broker_can_be_unregistered(api: Api, broker: int, error: ErrorCode) -> None:
    answer = await api.ask("UnregisterBroker", 0, broker_id=broker)
    assert answer.error_code is error
    assert str(broker) in answer.error_message
    assert 1 in api.broker.image.brokers


# FindCoordinator of share partitions


TOPIC_TEXT = "qHBm7qF0QeCvHxCmWtCZ2w"


async def found_share(api: Api, *keys: str, version: int = 6) -> list[tuple[ErrorCode, int]]:
    answer = await api.ask("FindCoordinator", version, key_type=2, coordinator_keys=keys)
    return [(coordinator.error_code, coordinator.node_id) for coordinator in answer.coordinators]


async def test_the_first_question_for_a_share_partition_creates_its_topic(api: Api) -> None:
    key = f"g:{TOPIC_TEXT}:0"
    assert await found_share(api, key) == [(ErrorCode.coordinator_not_available, -1)]
    topic = api.broker.image.topics["__share_group_state"]
    assert (topic.configs["cleanup.policy"], topic.configs["retention.ms"]) == ("delete", "-1")
    assert await found_share(api, key) == [(ErrorCode.none, 1)]
    assert await found_share(api, key, version=5) == [(ErrorCode.invalid_request, -1)]


async def test_a_share_partition_is_a_group_a_topic_id_and_a_number(api: Api) -> None:
    await found_share(api, f"g:{TOPIC_TEXT}:0")
    sound_keys = (f"a:b:{TOPIC_TEXT}:+7", f"g:{TOPIC_TEXT}:-1", f"g:{TOPIC_TEXT}:0:")
    assert await found_share(api, *sound_keys) == [(ErrorCode.none, 1)] * len(sound_keys)
    broken_keys = (
        *("", "g", "g:0", f"{TOPIC_TEXT}:0", f":{TOPIC_TEXT}:0", f" :{TOPIC_TEXT}:0"),
        *(f"g:{TOPIC_TEXT}:x", f"g:{TOPIC_TEXT}:2147483648", "g:tooShort:0"),
    )
    assert await found_share(api, *broken_keys) == [(ErrorCode.invalid_request, -1)] * len(
        broken_keys
    )
