"""What Apache Kafka's trunk has and 4.4 has not: request header v3 with the client instance id
(KIP-1313). No broker of 4.5 exists yet; bytes here are made by hand from the layouts as the KIP and
trunk's message files state them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

import httpx
import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.control_port import run_story
from tests.support.raw_connection import API_VERSIONS, WireClient
from tests.support.waiting import until
from tests.support.within_environment import within
from txnsim.errors import ErrorCode, MalformedFrameError
from txnsim.faults.actions import Drop
from txnsim.faults.points import FaultPoint
from txnsim.runtime.trace import TraceLevel
from txnsim.types import BrokerId, uuid_text
from txnsim.wire import codec
from txnsim.wire.plain_values import message_from

E = ErrorCode
FIND_COORDINATOR, HEARTBEAT = 10, 68
OFFSET_DELETE, GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY = 47, 71, 72
FIRST: Final = UUID("00112233-4455-6677-8899-aabbccddeeff")
OTHER: Final = UUID("ffeeddcc-bbaa-9988-7766-554433221100")
RESERVED_ONE: Final = UUID(int=1)
AS_4_5: Final[dict[str, Any]] = {"brokers": 1, "as_version": ("4.5",)}


class BrokerConnection:
    """One connection to the only broker."""

    def __init__(self, wire: WireClient) -> None:
        self.wire = wire

    async def ask(
        self, api_key: int, version: int, instance_id: UUID | None = None, **request_fields: Any
    ) -> Any:
        self.send(api_key, version, instance_id, **request_fields)
        return (await self.wire.answer())[1]

    def send(
        self,
        api_key: int,
        version: int,
        instance_id: UUID | None = None,
        client_id: str | None = "app",
        **values: Any,
    ) -> None:
        message = message_from(codec.request_class(api_key, version), values)
        correlation_id = self.wire.expect(api_key, version)
        self.wire.send(
            codec.encode_request(api_key, version, correlation_id, client_id, message, instance_id)
        )

    async def delete_positions(self, instance_id: UUID | None, version: int = 1) -> ErrorCode:
        """The error of an OffsetDelete; GROUP_ID_NOT_FOUND if it was handled."""
        answer = await self.ask(OFFSET_DELETE, version, instance_id, group_id="g", topics=[])
        return ErrorCode(answer.error_code)


@asynccontextmanager
async def asking(cluster: VirtualCluster) -> AsyncIterator[BrokerConnection]:
    broker = cluster.sim.metadata.image.brokers[BrokerId(1)]
    wire = await WireClient.open(broker.host, broker.port)
    yield BrokerConnection(wire)
    await wire.close()


# The header


HEADER_V3: Final = "002f0001 00000007 00026d65 010010 00112233445566778899aabbccddeeff"
"""OffsetDelete v1, correlation id 7, client id "me", one tagged field: tag 0, 16 bytes."""
DELETE_BODY: Final = "0267 02 0274 02 00000003 00 00 00"
"""Group g, topic t, partition 3, with compact lengths and empty tagged fields."""


def test_header_v3_has_the_instance_id_as_its_first_tagged_field() -> None:
    frame = bytes.fromhex(HEADER_V3 + DELETE_BODY)
    header = codec.read_request_header(frame)
    assert header == codec.RequestHeader(OFFSET_DELETE, 1, 7, "me", 31, FIRST)
    message = codec.decode_request(header, frame)
    assert message.group_id == "g"
    assert [(topic.name, topic.partitions[0].partition_index) for topic in message.topics] == [
        ("t", 3)
    ]
    assert codec.encode_request(OFFSET_DELETE, 1, 7, "me", message, FIRST)[4:] == frame


@pytest.mark.parametrize(
    ("tags", "instance_id"),
    [
        ("00", None),
        ("01 00 10" + 32 * "0", None),
        ("01 05 01 ff", None),
        ("02 00 10" + FIRST.hex + "05 01 ff", FIRST),
    ],
)
def test_an_id_that_is_left_out_is_one_of_zeros(tags: str, instance_id: UUID | None) -> None:
    frame = bytes.fromhex("002f0001 00000007 ffff" + tags + DELETE_BODY)
    header = codec.read_request_header(frame)
    assert header.client_instance_id == instance_id
    assert codec.decode_request(header, frame).group_id == "g"


def test_an_instance_id_of_another_size_can_not_be_read() -> None:
    frame = bytes.fromhex("002f0001 00000007 ffff 01 00 02 0102" + DELETE_BODY)
    with pytest.raises(MalformedFrameError, match="client instance id of 2 bytes"):
        codec.read_request_header(frame)


@pytest.mark.parametrize("version", [0, 1])
def test_only_versions_with_header_v3_have_room_for_the_id(version: int) -> None:
    values = {"group_id": "g", "topics": []}
    message = message_from(codec.request_class(OFFSET_DELETE, version), values)
    frame = codec.encode_request(OFFSET_DELETE, version, 7, "me", message, FIRST)[4:]
    assert codec.read_request_header(frame).client_instance_id == (FIRST if version else None)


# What a broker makes of it


@pytest.mark.parametrize(("release", "highest"), [("4.4", 0), ("4.5", 1)])
def test_apis_with_header_v3_come_with_4_5(release: str, highest: int) -> None:
    async def story(cluster: VirtualCluster) -> dict[int, int]:
        async with asking(cluster) as client:
            answer = await client.ask(API_VERSIONS, 0)
        return {row.api_key: row.max_version for row in answer.api_keys}

    versions = run_cluster(story, brokers=1, as_version=(release,), client_telemetry_enable=True)
    for api_key in (OFFSET_DELETE, GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY):
        assert versions[api_key] == highest


@pytest.mark.parametrize(
    ("ids", "errors"),
    [
        ([FIRST, FIRST, None], [E.none, E.none, E.none]),
        ([FIRST, OTHER, FIRST], [E.none, E.invalid_request, E.none]),
        ([FIRST, RESERVED_ONE], [E.none, E.invalid_request]),
        ([RESERVED_ONE, FIRST], [E.invalid_request, E.none]),
        ([None, FIRST], [E.invalid_request, E.none]),
    ],
)
@within(run_cluster, **AS_4_5)
async def test_the_first_header_v3_settles_the_id_of_its_connection(
    cluster: VirtualCluster, ids: list[UUID | None], errors: list[ErrorCode]
) -> None:
    async with asking(cluster) as client:
        assert await client.delete_positions(OTHER, version=0) is not E.invalid_request
        for instance_id, error in zip(ids, errors, strict=True):
            answer_error = await client.delete_positions(instance_id)
            assert (answer_error is E.invalid_request) is (error is E.invalid_request)


@within(run_cluster, **AS_4_5)
async def test_each_connection_has_an_id_of_its_own(cluster: VirtualCluster) -> None:
    async with asking(cluster) as one_connection, asking(cluster) as other_connection:
        for client, instance_id in (
            (one_connection, FIRST),
            (other_connection, OTHER),
            (one_connection, FIRST),
        ):
            assert await client.delete_positions(instance_id) is not E.invalid_request


@within(run_cluster, client_telemetry_enable=True, **AS_4_5)
async def test_telemetry_goes_by_the_id_of_the_header(cluster: VirtualCluster) -> None:
    async with asking(cluster) as client:
        answer = await client.ask(GET_TELEMETRY_SUBSCRIPTIONS, 1, FIRST)
        assert (answer.error_code, answer.client_instance_id) == (E.none, FIRST)
        push = {
            "subscription_id": answer.subscription_id,
            "terminating": False,
            "compression_type": 0,
            "metrics": b"",
        }
        assert (await client.ask(PUSH_TELEMETRY, 1, **push)).error_code is E.none
        subscription = await client.ask(PUSH_TELEMETRY, 1, **{**push, "subscription_id": 7})
        assert subscription.error_code is E.throttling_quota_exceeded, "it has pushed already"


@pytest.mark.parametrize("is_behind", [False, True])
def test_the_assignor_of_a_consumer_group_runs_behind_the_heartbeat(*, is_behind: bool) -> None:
    async def story(cluster: VirtualCluster) -> list[tuple[int, int]]:
        async with asking(cluster) as client:
            await client.ask(FIND_COORDINATOR, 1, key="g", key_type=0)
            beat = {"group_id": "g", "member_id": "m"}
            joining_fields: dict[str, Any] = {
                "subscribed_topic_names": ["t"],
                "topic_partitions": [],
            }
            answers: list[Any] = []
            while not answers or answers[0].error_code is not E.none:
                answers[:] = [
                    await client.ask(
                        HEARTBEAT,
                        1,
                        None,
                        **beat,
                        **joining_fields,
                        member_epoch=0,
                        rebalance_timeout=5_000,
                    )
                ]
            while answers[-1].member_epoch < 2:
                epoch = answers[-1].member_epoch
                answers.append(await client.ask(HEARTBEAT, 1, None, **beat, member_epoch=epoch))
        return [
            (answer.member_epoch, sum(len(row.partitions) for row in assigned.topic_partitions))
            for answer in answers
            if (assigned := answer.assignment) is not None
        ]

    rules = {"assignors_run_in_background": is_behind}
    group_answers = run_cluster(story, brokers=1, topics=(("t", 2),), rules=rules)
    assert group_answers == ([(1, 0), (2, 2)] if is_behind else [(2, 2)])


# Where it is seen


@within(run_story, **AS_4_5)
async def test_the_list_of_connections_has_the_id(
    cluster: VirtualCluster, http_client: httpx.AsyncClient, /
) -> None:
    async with asking(cluster) as client:
        await client.ask(API_VERSIONS, 3, client_software_name="x", client_software_version="1")
        (shown_connection,) = (await http_client.get("/api/v1/connections")).json()
        assert shown_connection == {
            "broker": 1,
            "listener": "PLAINTEXT",
            "address": shown_connection["address"],
            "principal": "User:ANONYMOUS",
            "client_id": "app",
            "client_instance_id": None,
            "software_name": "x",
            "software_version": "1",
        }
        client.send(OFFSET_DELETE, 1, FIRST, client_id=None, group_id="g", topics=[])
        await client.wire.answer()
        (shown_connection,) = (await http_client.get("/api/v1/connections")).json()
        assert (shown_connection["client_id"], shown_connection["client_instance_id"]) == (
            "app",
            uuid_text(FIRST),
        )

    async def none_is_left() -> bool:
        remaining_connections: list[Any] = (await http_client.get("/api/v1/connections")).json()
        return not remaining_connections

    await until(none_is_left, "the connection is closed")


def test_the_trace_names_the_instance_and_what_was_refused() -> None:
    async def story(cluster: VirtualCluster) -> list[Any]:
        async with asking(cluster) as client:
            await client.delete_positions(FIRST)
            await client.delete_positions(OTHER)
        events: list[Any] = list(cluster.env.tracer.events())
        return [
            (event.k, event.d.get("instance"), event.d.get("error"))
            for event in events
            if event.d and event.d.get("api") == "OffsetDelete"
        ]

    events = run_cluster(story, trace_level=TraceLevel.BRIEF, **AS_4_5)
    instance_id = uuid_text(FIRST)
    assert ("msg.recv", instance_id, None) in events
    assert events[-1] == ("msg.send", instance_id, "INVALID_REQUEST")


@within(run_cluster, **AS_4_5)
async def test_a_fault_strikes_the_requests_of_one_instance(cluster: VirtualCluster) -> None:
    cluster.arm(Drop(), FaultPoint.CLIENT_REQUEST, client_instance_id=uuid_text(FIRST))
    async with asking(cluster) as struck_connection, asking(cluster) as spared_connection:
        for client, instance_id in ((struck_connection, FIRST), (spared_connection, OTHER)):
            client.send(OFFSET_DELETE, 1, instance_id, group_id="g", topics=[])
        await cluster.wait_until_struck()
        assert (await spared_connection.wire.answer())[0] == 1
        assert await struck_connection.wire.silent_for(5)
