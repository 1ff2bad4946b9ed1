"""What is told of a frame at its fault point; and that faults do at a proxy what they do at a
broker: those stories are written in ``tests/broker/server/test_crossings.py``.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.broker.server import test_crossings as at_a_broker
from tests.support.logs import plain
from tests.support.proxied import run_proxied
from txnsim.client import requests
from txnsim.faults.points import FaultPoint
from txnsim.types import TopicPartition
from txnsim.wire import codec
from txnsim_lab.proxy._crossings import Sent, decoded, described, peer_of, refusal_of
from txnsim_lab.proxy._topic_names import TopicNames

TP = TopicPartition("orders", 1)


def produce(version: int, topic_id: UUID | None = None) -> bytes:
    request = requests.produce({TP: plain(value=b"v")}, topic_ids={"orders": topic_id})
    return codec.encode_request(
        0, version, 7, "app", request.build(codec.request_schema(0, version))
    )


@pytest.mark.parametrize("version", [9, 13])
def test_a_request_tells_whom_it_is_about(version: int) -> None:
    names = TopicNames()
    names.names[UUID(int=5)] = "orders"
    sent = Sent(0, version, 7)
    sent.request = decoded(produce(version, UUID(int=5)), names)
    crossing = described(
        FaultPoint.CLIENT_REQUEST, sent, source="client/app", target="broker/1", line="l"
    )
    assert crossing.subject.partitions == (TP,)
    assert crossing.carries_batches
    assert (crossing.api_key, crossing.api_version, crossing.correlation_id) == (0, version, 7)


def test_what_was_not_decoded_is_about_nobody() -> None:
    crossing = described(
        FaultPoint.CLIENT_REQUEST, Sent(0, 9, 7), source="client/", target="broker/1", line="l"
    )
    assert crossing.subject.partitions == ()
    assert not crossing.carries_batches


def test_what_nobody_can_read_is_not_decoded() -> None:
    names = TopicNames()
    unknown_api = (20).to_bytes(4, "big") + (500).to_bytes(2, "big") + bytes(18)
    assert decoded(unknown_api, names) is None
    assert decoded(produce(9)[:30], names) is None


def test_a_request_is_refused_in_the_words_of_its_api() -> None:
    request = decoded(produce(9), TopicNames())
    assert request is not None
    frame = refusal_of(request, 6)
    assert isinstance(frame, bytes)
    _, message = codec.read_response(0, 9, frame[4:])
    assert message.responses[0].partition_responses[0].error_code == 6


@pytest.mark.parametrize(
    ("client_id", "source"),
    [
        ("1", "broker/1"),
        ("broker-12-fetcher-0", "broker/12"),
        ("broker-3-txn-marker-sender", "broker/3"),
        ("AddPartitionsManager-client-1", "broker/1"),
        ("app", "client/app"),
        (None, "client/"),
    ],
)
def test_brokers_are_known_by_their_client_ids(client_id: str | None, source: str) -> None:
    assert peer_of(client_id) == source


@pytest.fixture(autouse=True)
def told_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_a_broker.Place, "run", run_proxied)


globals().update(
    {name: test for name, test in vars(at_a_broker).items() if name.startswith("test_")}
)
