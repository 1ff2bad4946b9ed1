"""The listener of ``--kip-text``: its table, and errors in the words of the texts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.broker_api import KEYS, Api, batch, produce, read_back, transaction
from txnsim.api.kip_text._errors import (
    passing_error,
    produce_error,
    server_failure,
    txn_offset_commit_error,
    verification_error,
)
from txnsim.api.kip_text.table import KIP_TEXT
from txnsim.api.registry import SHIPPED
from txnsim.api.request import NoResponse, Request
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition
from txnsim.wire import codec
from txnsim.wire.messages.write_txn_markers_kip_664 import WriteTxnMarkersRequest
from txnsim.wire.plain_values import message_from

# What the listener of ``--kip-text`` speaks, and what it refuses, beside the ordinary one.


E = ErrorCode


def test_only_ranges_of_the_texts_differ_from_what_is_shipped() -> None:
    names = {
        SHIPPED.handlers[handler_key].name
        for handler_key in SHIPPED.accepted
        if SHIPPED.accepted[handler_key] != KIP_TEXT.accepted[handler_key]
    }
    assert names == {"AddPartitionsToTxn", "EndTxn", "DescribeTransactions", "InitProducerId"}
    assert KIP_TEXT.accepted.keys() == SHIPPED.accepted.keys() == KIP_TEXT.handlers.keys()
    assert KIP_TEXT.listener != SHIPPED.listener


def through(api: Api, name: str, version: int, *, cls: Any = None, **values: Any) -> Request:
    """A request as the connection of a KIP-text listener hands it to a handler."""
    api_key = KEYS[name]
    message = message_from(cls or codec.request_class(api_key, version), values)
    frame = codec.encode_request(api_key, version, 1, "test", message)[4:]
    header = codec.read_request_header(frame)
    return Request(
        apis=KIP_TEXT,
        broker=api.broker,
        api_key=api_key,
        api_version=version,
        correlation_id=1,
        client_id="test",
        message=KIP_TEXT.handlers[api_key].decode(header, frame),
    )


@pytest.mark.parametrize(
    ("name", "version", "error_code"),
    [
        ("InitProducerId", 4, E.unknown_server_error),
        ("InitProducerId", 5, E.transaction_abortable),
        ("EndTxn", 3, E.unknown_server_error),
        ("EndTxn", 4, E.transaction_abortable),
        ("AddPartitionsToTxn", 4, E.transaction_abortable),
    ],
)
async def test_a_bug_is_a_failure_of_the_server(
    api: Api, name: str, version: int, error_code: ErrorCode
) -> None:
    added_transaction = transaction("t", (0, 0), {"orders": [0]})
    values = added_transaction if name == "AddPartitionsToTxn" else {"transactional_id": "t"}
    request = through(api, name, version, **values)
    body = request.refuse(E.unknown_server_error)
    # The layout of the text's EndTxn v4 is that of Kafka's v5.
    read_as = 5 if (name, version) == ("EndTxn", 4) else version
    request.api_version = read_as
    assert read_back(request, body).error_code is error_code


async def test_a_producer_without_transactions_gets_no_abortable_error(api: Api) -> None:
    request = through(api, "InitProducerId", 5, transactional_id=None)
    refusal_answer = read_back(request, request.refuse(E.unknown_server_error))
    assert refusal_answer.error_code is E.unknown_server_error


@pytest.mark.parametrize(
    ("version", "transactional_id", "error_code"),
    [
        (10, "t", E.unknown_server_error),
        (11, "t", E.transaction_abortable),
        (11, None, E.unknown_server_error),
    ],
)
async def test_a_bug_in_produce(
    api: Api, version: int, transactional_id: str | None, error_code: ErrorCode
) -> None:
    values = produce("orders", batch(), transactional_id=transactional_id)
    request = through(api, "Produce", version, **values)
    refusal_answer = read_back(request, request.refuse(E.unknown_server_error))
    assert refusal_answer.responses[0].partition_responses[0].error_code is error_code


async def test_old_versions_and_plain_records_go_the_shipped_way(api: Api) -> None:
    for version in (10, 12):
        topic_id = None if version < 13 else api.topic_id("orders")
        request = through(api, "Produce", version, **produce("orders", batch(), topic_id=topic_id))
        answer = read_back(request, await KIP_TEXT.handlers[KEYS["Produce"]].handle(request))
        assert answer.responses[0].partition_responses[0].error_code is E.none
    identity = await api.producer("t")
    request = through(api, "AddPartitionsToTxn", 3, **transaction("t", identity, {"orders": [0]}))
    handler = KIP_TEXT.handlers[KEYS["AddPartitionsToTxn"]]
    answer = read_back(request, await handler.handle(request))
    (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
    assert result.partition_error_code is E.none
    empty_request = through(api, "AddPartitionsToTxn", 4, transactions=[])
    assert await handler.handle(empty_request) is NoResponse.NEVER


MARKERS: dict[str, Any] = {
    "markers": [
        {
            "producer_id": 7,
            "producer_epoch": 1,
            "coordinator_epoch": -1,
            "topics": [
                {
                    "name": "orders",
                    "partition_indexes": [0, 1, 2],
                    "partitions": [
                        {"partition_index": 0, "txn_start_offset": 5},
                        {"partition_index": 1},
                        {"partition_index": 2, "txn_start_offset": 5},
                    ],
                }
            ],
        }
    ]
}


@pytest.mark.parametrize(("version", "cls"), [(1, WriteTxnMarkersRequest), (2, None)])
async def test_markers_of_both_layouts_are_refused_and_logged(
    api: Api, version: int, cls: Any
) -> None:
    request = through(api, "WriteTxnMarkers", version, cls=cls, **MARKERS)
    refusal_answer = read_back(request, request.refuse(E.cluster_authorization_failed))
    error_by_partition = {
        partition.partition_index: partition.error_code
        for marker in refusal_answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
    assert error_by_partition == dict.fromkeys(range(3), E.cluster_authorization_failed)
    subject = KIP_TEXT.handlers[request.api_key].subject(request)
    all_subjects = (subject, *subject.other_subjects)
    assert {
        partition for reply_subject in all_subjects for partition in reply_subject.partitions
    } == {TopicPartition("orders", partition_index) for partition_index in range(3)}


async def test_unknown_ids_are_described_as_such(api: Api) -> None:
    await api.producer("t")
    request = through(api, "DescribeTransactions", 1, transactional_ids=["no-such", ""])
    handler = KIP_TEXT.handlers[request.api_key]
    answer = read_back(request, await handler.handle(request))
    assert [state.error_code for state in answer.transaction_states] == [
        E.transactional_id_not_found,
        E.invalid_request,
    ]
    assert all(state.transaction_last_update_time is None for state in answer.transaction_states)


# How the text of KIP-890 is read, error by error.


@pytest.mark.parametrize(
    ("error", "failure_error", "produce", "offsets", "verification"),
    [
        (E.none, E.none, E.none, E.none, E.none),
        (E.unknown_server_error, *[E.transaction_abortable] * 3, E.unknown_server_error),
        (
            E.invalid_txn_state,
            E.invalid_txn_state,
            *[E.transaction_abortable] * 2,
            E.invalid_txn_state,
        ),
        (
            E.invalid_producer_id_mapping,
            E.invalid_producer_id_mapping,
            *[E.transaction_abortable] * 2,
            E.invalid_producer_id_mapping,
        ),
        (E.transaction_abortable, *[E.transaction_abortable] * 3, E.invalid_txn_state),
        (E.invalid_producer_epoch, *[E.invalid_producer_epoch] * 4),
        (
            E.concurrent_transactions,
            E.concurrent_transactions,
            E.not_enough_replicas,
            E.coordinator_not_available,
            E.concurrent_transactions,
        ),
        *[
            (error, error, error, E.coordinator_not_available, error)
            for error in (
                E.coordinator_load_in_progress,
                E.coordinator_not_available,
                E.network_exception,
                E.not_coordinator,
                E.not_enough_replicas,
                E.request_timed_out,
                E.unknown_topic_or_partition,
            )
        ],
    ],
)
def test_each_error_at_each_place(
    error: ErrorCode,
    failure_error: ErrorCode,
    produce: ErrorCode,
    offsets: ErrorCode,
    verification: ErrorCode,
) -> None:
    assert server_failure(error) is failure_error
    assert produce_error(error) is produce
    assert txn_offset_commit_error(error) is offsets
    passes_through = offsets is E.coordinator_not_available
    assert passing_error(error) is (offsets if passes_through else error)
    assert verification_error(error) is verification
