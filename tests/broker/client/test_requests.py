"""Every request can be built and encoded at every version it may be sent in, and says what was
asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from txnsim.client import requests
from txnsim.client.errors import NotSupportedError
from txnsim.client.requests import ConfigChange, Marker, NewTopic
from txnsim.client.versions import Api, Request, VersionRange, choose_version
from txnsim.types import TopicPartition
from txnsim.wire import codec
from txnsim.wire.filters import TransactionFilters

P0, P1, Q0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
IDS = {"t": UUID(int=1), "u": UUID(int=2)}
ALL = {
    "metadata": requests.metadata(("t",)),
    "metadata of all": requests.metadata(None, create=True),
    "coordinator": requests.find_coordinator(("a",)),
    "init": requests.init_producer_id("a", timeout_ms=1),
    "bump": requests.init_producer_id("a", timeout_ms=1, producer_id=1, producer_epoch=2),
    "add": requests.add_partitions_to_txn(
        "a", producer_id=1, producer_epoch=2, partitions=(P0, Q0, P1)
    ),
    "end": requests.end_txn("a", producer_id=1, producer_epoch=2, committed=True),
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
    "produce": requests.produce({P0: b"x"}, topic_ids=IDS, transactional_id="a"),
    "fetch": requests.fetch(
        {P0: 1, P1: 2, Q0: 3},
        topic_ids=IDS,
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
        max(request.api.ours.lowest, request.within.lowest),
        min(request.api.ours.highest, request.within.highest) + 1,
    )
]


@pytest.mark.parametrize(("request_", "version"), CASES)
def test_a_request_survives_its_encoding(request_: Request, version: int) -> None:
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
        (requests.init_producer_id("a", timeout_ms=1, producer_id=0, producer_epoch=0), 3),
    ],
)
def test_what_an_old_version_cannot_say_is_not_sent_in_it(request_: Request, lowest: int) -> None:
    broker = {int(request_.api): VersionRange(0, lowest)}
    assert choose_version(request_.api, broker, within=request_.within) == lowest
    if lowest:
        older = {int(request_.api): VersionRange(0, lowest - 1)}
        with pytest.raises(NotSupportedError):
            made_for(request_, older)


def made_for(request_: Request, broker: Mapping[int, VersionRange]) -> Any:
    version = choose_version(request_.api, broker, within=request_.within)
    return request_.build(codec.request_schema(request_.api, version))


def test_topics_without_an_id_go_by_name() -> None:
    assert requests.produce({P0: b""}, topic_ids={}).within.highest == 12
    unnamed = requests.fetch(
        {P0: 0},
        topic_ids={"t": None},
        isolation_level=0,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        partition_max_bytes=0,
    )
    assert unnamed.within.highest == 12


def test_acks_0_expects_no_answer() -> None:
    assert not requests.produce({P0: b""}, topic_ids={}, acks=0).answered
    assert requests.produce({P0: b""}, topic_ids={}, acks=1).answered


def test_partitions_are_grouped_in_order_of_first_appearance() -> None:
    rows = [row.fields for row in requests.per_topic("Any", (P1, Q0, P0))]
    assert rows == [{"name": "t", "partitions": (1, 0)}, {"name": "u", "partitions": (0,)}]


def test_rows_that_a_version_does_not_have_are_left_out() -> None:
    by_name = requests.delete_topics(("t",), timeout_ms=1)
    assert made_for(by_name, {int(by_name.api): VersionRange(0, 5)}).topic_names == ("t",)


def test_a_field_that_no_version_has_is_an_error() -> None:
    slip = requests.asks(Api.LIST_GROUPS, rows=[requests.Row("NoSuchClass")])
    with pytest.raises(TypeError, match="rows"):
        made_for(slip, {slip.api: slip.api.ours})
