"""Addresses in answers: all of them are known, and each is rewritten without touching the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_type_hints

import pytest

from txnsim.wire import codec, registry
from txnsim.wire.apis import APIS, api_name
from txnsim_lab.proxy import addresses
from txnsim_lab.proxy.addresses import Endpoint

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, CLUSTER = 0, 1, 3, 10, 60
SHARE_FETCH = 78


def moved(node: Endpoint) -> tuple[str, int]:
    return f"proxy-{node.node_id}", 19090 + node.node_id


def hosts_in(cls: Any, path: str) -> Iterator[str]:
    """Paths of the messages in an answer that have a host."""
    names = {field.name for field in fields(cls)}
    if any("host" in name for name in names):
        yield path
    hints = get_type_hints(cls)
    for field in fields(cls):
        for part in parts_of(hints[field.name]):
            yield from hosts_in(part, f"{path}.{field.name}")


def parts_of(hint: Any) -> Iterator[Any]:
    """The messages in a type."""
    if is_dataclass(hint):
        yield hint
    for part in get_args(hint):
        yield from parts_of(part)


@pytest.mark.slow
def test_every_answer_with_a_host_is_rewritten_or_left_for_a_reason() -> None:
    rewritten = {
        "Metadata.brokers", "DescribeCluster.brokers", "FindCoordinator",
        "FindCoordinator.coordinators", "Produce.node_endpoints", "Fetch.node_endpoints",
        "ShareFetch.node_endpoints", "ShareAcknowledge.node_endpoints",
    }  # fmt: skip
    found: set[str] = set()
    for key in APIS:
        for version in registry.versions(key):
            paths = set(hosts_in(codec.response_class(key, version), api_name(key)))
            if paths & rewritten:
                assert addresses.may_carry(key, version), (api_name(key), version)
            found |= paths
    assert found == rewritten | set(addresses.LEFT)
    assert not rewritten & set(addresses.LEFT)


def built(key: int, version: int, **values: Any) -> bytes:
    message = codec.build(codec.response_class(key, version), **values)
    return codec.frame_response(key, version, 5, codec.encode_body(message))


def rewrite(key: int, version: int, frame: bytes) -> tuple[bytes, Any]:
    message = addresses.message_of(key, version, frame)
    changed = addresses.rewritten(key, version, frame, message, moved)
    assert int.from_bytes(changed[:4], "big") == len(changed) - 4
    assert changed[4:8] == frame[4:8]
    return changed, codec.read_response(key, version, changed[4:])[1]


@pytest.mark.parametrize("version", registry.versions(METADATA))
def test_metadata_leads_to_the_proxy(version: int) -> None:
    row = codec.response_schema(METADATA, version).MetadataResponseBroker
    brokers = tuple(
        codec.build(row, node_id=node, host=f"kafka-{node}", port=9092, rack=None)
        for node in (1, 2)
    )
    frame = built(
        METADATA, version, throttle_time=0, brokers=brokers, cluster_id="c", controller_id=1,
        topics=(), error_code=0,
    )  # fmt: skip
    _, message = rewrite(METADATA, version, frame)
    assert [(row.host, row.port) for row in message.brokers] == [
        ("proxy-1", 19091), ("proxy-2", 19092),
    ]  # fmt: skip


@pytest.mark.parametrize("version", registry.versions(FIND_COORDINATOR))
def test_a_coordinator_that_was_found_is_at_the_proxy_and_none_stays_none(version: int) -> None:
    at = {"node_id": 2, "host": "kafka-2", "port": 9092, "error_code": 0, "error_message": None}
    nowhere = {"node_id": -1, "host": "", "port": -1, "error_code": 15, "error_message": "no"}
    for values, expected in ((at, ("proxy-2", 19092)), (nowhere, ("", -1))):
        rows: dict[str, Any] = {"throttle_time": 0, **values}
        if version >= 4:
            row = codec.response_schema(FIND_COORDINATOR, version).Coordinator
            rows = {"throttle_time": 0, "coordinators": (codec.build(row, key="id", **values),)}
        frame = built(FIND_COORDINATOR, version, **rows)
        changed, message = rewrite(FIND_COORDINATOR, version, frame)
        found = message.coordinators[0] if version >= 4 else message
        assert (found.host, found.port) == expected
        assert (changed == frame) is (values is nowhere)


def test_a_list_of_controllers_stays_as_it_is() -> None:
    for endpoint_type, host in ((1, "proxy-1"), (2, "kafka-1")):
        row = codec.response_schema(CLUSTER, 2).DescribeClusterBroker
        frame = built(
            CLUSTER, 2, throttle_time=0, error_code=0, error_message=None, cluster_id="c",
            endpoint_type=endpoint_type, controller_id=1, cluster_authorized_operations=0,
            brokers=(codec.build(row, broker_id=1, host="kafka-1", port=9, rack=None,
                                 is_fenced=False),),
        )  # fmt: skip
        _, message = rewrite(CLUSTER, 2, frame)
        assert message.brokers[0].host == host


def endpoints(key: int, version: int, *nodes: int) -> tuple[Any, ...]:
    row = codec.response_schema(key, version).NodeEndpoint
    return tuple(
        codec.build(row, node_id=node, host=f"kafka-{node}", port=0, rack=rack)
        for node, rack in zip(nodes, (None, "rack-a", ""), strict=False)
    )


@pytest.mark.parametrize(
    ("key", "version"), [(PRODUCE, 10), (PRODUCE, 13), (FETCH, 16), (FETCH, 18)]
)
def test_endpoints_at_the_end_are_found_and_nothing_else_changes(key: int, version: int) -> None:
    for nodes in ((), (1,), (1, 2, 3)):
        values = {"error_code": 0, "session_id": 0} if key == FETCH else {}
        found = endpoints(key, version, *nodes)
        frame = built(key, version, responses=(), throttle_time=0, node_endpoints=found, **values)
        tail = addresses.tail_of([frame[:9], frame[9:]])
        assert addresses.ends_with_endpoints(tail) is bool(nodes)
        changed, message = rewrite(key, version, frame)
        assert [(row.host, row.port) for row in message.node_endpoints] == [
            (f"proxy-{node}", 19090 + node) for node in nodes
        ]
        assert [row.rack for row in message.node_endpoints] == [None, "rack-a", ""][: len(nodes)]
        if not nodes:
            assert changed == frame


def test_endpoints_of_share_groups_are_rewritten() -> None:
    frame = built(
        SHARE_FETCH, 1, throttle_time=0, error_code=0, error_message=None,
        acquisition_lock_timeout=0, responses=(), node_endpoints=endpoints(SHARE_FETCH, 1, 4),
    )  # fmt: skip
    _, message = rewrite(SHARE_FETCH, 1, frame)
    assert message.node_endpoints[0].host == "proxy-4"


def test_records_that_look_like_endpoints_are_no_endpoints() -> None:
    end = b"\x01\x00\x04abc\x00"
    assert addresses.ends_with_endpoints(b"anything" + end)
    assert not addresses.ends_with_endpoints(b"anything" + end + b"\x00\x00")
    assert not addresses.ends_with_endpoints(b"\x01\x00\xff\xff\xff\xff\xff\xff\x00")
    assert not addresses.ends_with_endpoints(b"\x01\x00")
    assert not addresses.ends_with_endpoints(b"")


def test_the_tail_of_a_large_answer_is_not_all_of_it() -> None:
    pieces = [bytes(50_000), b"a" * 20_000, b"b" * 20_000]
    assert addresses.tail_of(pieces) == b"".join(pieces)[-32_768:]
    assert len(addresses.tail_of(pieces[:1])) == 32_768


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_versions_are_bounded_by_what_the_proxy_can_read(version: int) -> None:
    row = codec.response_schema(18, version).ApiVersion
    rows = tuple(
        codec.build(row, api_key=key, min_version=0, max_version=40) for key in (FETCH, 8, METADATA)
    )
    frame = built(18, version, error_code=0, api_keys=rows, throttle_time=0)
    changed = addresses.bounded(version, frame)
    assert len(changed) == len(frame)
    _, message = codec.read_response(18, version, changed[4:])
    assert [one.max_version for one in message.api_keys] == [18, 40, 13]
    known = built(18, version, error_code=0, throttle_time=0, api_keys=(replace(rows[1]),))
    assert addresses.bounded(version, known) is known


def test_a_version_nobody_knows_is_answered_in_the_oldest_layout() -> None:
    row = codec.response_schema(18, 0).ApiVersion
    rows = (codec.build(row, api_key=FETCH, min_version=0, max_version=40),)
    frame = built(18, 0, error_code=35, api_keys=rows)
    _, message = codec.read_response(18, 0, addresses.bounded(5, frame)[4:])
    assert message.api_keys[0].max_version == 18
    assert addresses.bounded(0, frame[:-1]) == frame[:-1], "a row that is cut off is left alone"
