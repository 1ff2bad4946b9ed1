"""What is read of a request without decoding it is what the codec reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.logs import plain
from txnsim.client import requests
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition
from txnsim.wire import codec
from txnsim_lab.proxy import _peek as peek


def produce(version: int, *, acks: int, client_id: str | None, txn: str | None) -> bytes:
    request = requests.produce({TopicPartition("t", 0): plain(value=b"v")}, topic_ids={}, acks=acks)
    message = request.build(codec.request_schema(0, version))
    if txn is not None:
        message = replace(message, transactional_id=txn)
    return codec.encode_request(0, version, 7, client_id, message)


@pytest.mark.parametrize("version", [3, 8, 9, 12])
@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("client_id", [None, "", "app"])
@pytest.mark.parametrize("txn", [None, "shop"])
def test_acks_are_found_and_asked_for_again_while_they_are_not_there(
    version: int, acks: int, client_id: str | None, txn: str | None
) -> None:
    whole = b"before" + produce(version, acks=acks, client_id=client_id, txn=txn)
    size, key, told, correlation_id, length = peek.head(whole, 6)
    assert (size, key, told, correlation_id) == (len(whole) - 10, 0, version, 7)
    assert peek.client_id_of(whole, 6, length) == client_id
    assert peek.produce_is_answered(whole, 6, version, length) is (acks != 0)
    answers = {
        peek.produce_is_answered(whole[: 6 + peek.HEAD_BYTES + more], 6, version, length)
        for more in range(12)
    }
    assert answers <= {None, acks != 0}
    assert None in answers


def test_a_header_may_have_tagged_fields() -> None:
    plain_one = produce(9, acks=0, client_id="app", txn=None)
    at = peek.HEAD_BYTES + 3
    tagged = plain_one[:at] + b"\x01\x05\x02xx" + plain_one[at + 1 :]
    assert peek.produce_is_answered(tagged, 0, 9, 3) is False


def test_what_no_broker_could_read_is_left_to_the_broker() -> None:
    whole = produce(9, acks=0, client_id="app", txn=None)
    at = peek.HEAD_BYTES + 3
    assert peek.produce_is_answered(whole[:at] + b"\xff" * 8, 0, 9, 3) is True


def handshake(mechanism: str, version: int) -> bytes:
    schema = codec.request_schema(17, version)
    return codec.encode_request(
        17, version, 3, "app", schema.SaslHandshakeRequest(mechanism=mechanism)
    )


@pytest.mark.parametrize("version", [0, 1])
def test_the_mechanism_is_read(version: int) -> None:
    assert peek.mechanism_of(handshake("PLAIN", version)) == "PLAIN"
    assert peek.mechanism_of(handshake("PLAIN", version)[:-2]) is None


@pytest.mark.parametrize(
    ("mechanism", "version", "is_refused", "tokens"),
    [
        ("GSSAPI", 0, True, 0),
        ("GSSAPI", 1, True, 0),
        ("PLAIN", 0, False, 1),
        ("PLAIN", 1, False, 0),
        ("SCRAM-SHA-256", 0, False, 2),
        ("SOMETHING-NEW", 0, True, 0),
        ("SOMETHING-NEW", 1, False, 0),
    ],
)
def test_what_passes_and_what_does_not(
    mechanism: str, version: int, is_refused: bool, tokens: int
) -> None:
    assert peek.is_refused(mechanism, version) is is_refused
    assert peek.bare_tokens(mechanism, version) == tokens


@pytest.mark.parametrize("version", [0, 1])
def test_a_refusal_names_no_other_mechanism(version: int) -> None:
    frame = peek.refusal(version, 3)
    correlation_id, message = codec.read_response(17, version, frame[4:])
    assert correlation_id == 3
    assert message.error_code == ErrorCode.unsupported_sasl_mechanism
    assert message.mechanisms == ()
