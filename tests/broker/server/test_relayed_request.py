"""What is told of a frame that a broker elsewhere handles, and how it is refused."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.logs import plain
from txnsim.client import requests
from txnsim.faults.points import FaultPoint
from txnsim.server.relayed_request import RelayedRequest
from txnsim.types import TopicPartition
from txnsim.wire import codec

TP = TopicPartition("orders", 1)


def produce(version: int, topic_id: UUID | None = None) -> bytes:
    request = requests.produce({TP: plain(record_value=b"v")}, id_by_topic={"orders": topic_id})
    return codec.encode_request(
        0, version, 7, "app", request.build(codec.request_schema(0, version))
    )


@pytest.mark.parametrize("version", [9, 13])
def test_a_request_tells_whom_it_is_about(version: int) -> None:
    relayed_request = RelayedRequest(0, version, 7)
    relayed_request.request = RelayedRequest.decode_request(
        produce(version, UUID(int=5)), {UUID(int=5): "orders"}
    )
    crossing_point = relayed_request.crossing(
        FaultPoint.CLIENT_REQUEST, source="client/app", target="broker/1", connection_name="l"
    )
    assert crossing_point.subject.partitions == (TP,)
    assert crossing_point.carries_batches
    assert (crossing_point.api_key, crossing_point.api_version, crossing_point.correlation_id) == (
        0,
        version,
        7,
    )


def test_what_was_not_decoded_is_about_nobody() -> None:
    crossing_point = RelayedRequest(0, 9, 7).crossing(
        FaultPoint.CLIENT_REQUEST, source="client/", target="broker/1", connection_name="l"
    )
    assert crossing_point.subject.partitions == ()
    assert not crossing_point.carries_batches


def test_what_nobody_can_read_is_not_decoded() -> None:
    unknown_api = (20).to_bytes(4, "big") + (500).to_bytes(2, "big") + bytes(18)
    assert RelayedRequest.decode_request(unknown_api, {}) is None
    assert RelayedRequest.decode_request(produce(9)[:30], {}) is None


def test_a_request_is_refused_in_the_words_of_its_api() -> None:
    relayed_request = RelayedRequest(0, 9, 7)
    relayed_request.request = RelayedRequest.decode_request(produce(9), {})
    frame = relayed_request.refusal(6)
    assert isinstance(frame, bytes)
    _, message = codec.read_response(0, 9, frame[4:])
    assert message.responses[0].partition_responses[0].error_code == 6


def test_of_an_api_that_is_not_known_no_refusal_can_be_made() -> None:
    assert RelayedRequest.can_refuse(0)
    assert not RelayedRequest.can_refuse(500)
