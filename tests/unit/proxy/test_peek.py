"""What is read of a request without decoding it is what the codec reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.logs import plain
from txnsim.client import requests
from txnsim.proxy import peek
from txnsim.types import TopicPartition
from txnsim.wire import codec


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
