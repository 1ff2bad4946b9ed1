"""Rewrites the addresses of brokers in answers. Clients connect to the addresses in answers, so
each one is replaced by that of the proxy's listener for the node. Metadata, FindCoordinator and
DescribeCluster always have some. Produce and Fetch name the new leader's endpoint where a partition
has moved (KIP-951), and so do the APIs of share groups. In Produce and Fetch that is a tagged field
at the end of the answer, so the last bytes show whether it can be there, and the rest of the answer
is not decoded.

``tests/lab/proxy/test_fault_proxy.py`` searches every schema for hosts and ports, and compares them
with these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from txnsim.server.relayed_request import RelayedRequest
from txnsim.wire.registry import versions
from txnsim.wire.varint import read_uvarint, uvarint

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
FIND_COORDINATOR: Final = 10
DESCRIBE_CLUSTER: Final = 60
SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79

ALWAYS_WITH_ADDRESSES: Final = frozenset(
    {METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER, SHARE_FETCH, SHARE_ACKNOWLEDGE}
)
"""APIs whose answers have a field for addresses in every version."""
ENDPOINTS_AT_END: Final = {PRODUCE: 10, FETCH: 16}
"""API -> first version whose answer may end with endpoints of nodes (tag 0)."""

NOT_REWRITTEN: Final = {
    "DescribeGroups.groups.members": "where a member connects from",
    "ConsumerGroupDescribe.groups.members": "where a member connects from",
    "ShareGroupDescribe.groups.members": "where a member connects from",
    "StreamsGroupDescribe.groups.members": "where a member connects from",
    "StreamsGroupDescribe.groups.members.user_endpoint": "of an application, for its own queries",
    "StreamsGroupHeartbeat.partitions_by_user_endpoint.user_endpoint": "of an application, for "
    "its own queries",
    "DescribeAcls.resources.acls": "the client that an ACL lets in",
    "DeleteAcls.filter_results.matching_acls": "the client that an ACL lets in",
    "DescribeQuorum.nodes.listeners": "of a controller, which clients of brokers never reach",
    "Vote.node_endpoints": "between controllers",
    "BeginQuorumEpoch.node_endpoints": "between controllers",
    "EndQuorumEpoch.node_endpoints": "between controllers",
    "FetchSnapshot.node_endpoints": "between controllers",
    "UpdateRaftVoter.current_leader": "between controllers",
}
"""Hosts in answers that are not rewritten, with the reason."""

VERSION_LIMITED: Final = frozenset({*ALWAYS_WITH_ADDRESSES, *ENDPOINTS_AT_END})
"""APIs of which a client must not use a version whose answers the proxy can't decode."""

_ADDRESS_FIELDS_BY_API: Final = {
    METADATA: ("brokers", "node_id"),
    DESCRIBE_CLUSTER: ("brokers", "broker_id"),
    FIND_COORDINATOR: ("coordinators", "node_id"),
}
"""API -> the field with the addresses, and the field with the node id in its rows."""
_CONTROLLERS: Final = 2
"""Endpoint type of a DescribeCluster answer that lists controllers."""
_TAIL_BYTES_MAX: Final = 32_768
"""The last bytes of an answer in which endpoints are searched; those of a hundred nodes take 8
kB.
"""
_ONE_TAGGED_FIELD: Final = b"\1\0"
"""Bytes of one tagged field with tag 0; the answers of ``ENDPOINTS_AT_END`` have no other."""
_API_ROW_BYTES: Final = 6
_FLEXIBLE_FROM_VERSION: Final = 3
_UNSUPPORTED_VERSION: Final = 35


class NodeAddress(msgspec.Struct, frozen=True):
    """Where a node listens, as an answer of a broker names it to clients."""

    node_id: int
    host: str
    port: int


AddressOf = Callable[[NodeAddress], tuple[str, int]]
"""The address at which clients shall reach a node instead."""


def may_have_addresses(api_key: int, api_version: int) -> bool:
    """Whether answers to a request may have addresses of brokers."""
    return api_key in ALWAYS_WITH_ADDRESSES or api_version >= ENDPOINTS_AT_END.get(api_key, 1 << 15)


def ends_with_endpoints(tail: bytes) -> bool:
    """Whether these bytes can be the end of an answer with endpoints; if so, only decoding can
    tell.

    Args:
        tail: The last bytes of the answer, as ``tail_of`` gives them.
    """
    tail_length = len(tail)
    if not tail or tail[-1]:
        return False  # an endpoint ends with its own tagged fields, of which there are none
    field_start = tail.find(_ONE_TAGGED_FIELD)
    while field_start >= 0:
        try:
            field_size, content_start = read_uvarint(tail, field_start + len(_ONE_TAGGED_FIELD))
        except (IndexError, ValueError):
            field_size, content_start = 0, 0
        if content_start + field_size == tail_length:
            return True
        field_start = tail.find(_ONE_TAGGED_FIELD, field_start + 1)
    return False


def tail_of(pieces: Sequence[bytes]) -> bytes:
    """The last bytes of an answer in pieces, as many as ``ends_with_endpoints`` needs."""
    if len(pieces) == 1:
        return pieces[0][-_TAIL_BYTES_MAX:]
    last_pieces: list[bytes] = []
    missing_bytes = _TAIL_BYTES_MAX
    for piece in reversed(pieces):
        last_pieces.append(piece[-missing_bytes:])
        missing_bytes -= len(last_pieces[-1])
        if missing_bytes <= 0:
            break
    return b"".join(reversed(last_pieces))


# Decoded answers


def endpoints_of(api_key: int, message: Any) -> tuple[NodeAddress, ...]:
    """The addresses of brokers in an answer."""
    if api_key == DESCRIBE_CLUSTER and getattr(message, "endpoint_type", 1) == _CONTROLLERS:
        return ()
    field_name, id_field = _ADDRESS_FIELDS_BY_API.get(api_key, ("node_endpoints", "node_id"))
    endpoints = [
        NodeAddress(getattr(row, id_field), row.host, row.port)
        for row in getattr(message, field_name, (message,))
    ]
    return tuple(row for row in endpoints if row.node_id >= 0 and row.port >= 0)


def message_of(api_key: int, api_version: int, frame: bytes) -> Any:
    """Decode an answer, including its size.

    Raises:
        MalformedFrameError: The bytes are no such answer.
        UnsupportedRequestError: txnsim does not know that version.
    """
    return RelayedRequest(api_key, api_version, 0).message(frame)


def rewrite_addresses(
    api_key: int, api_version: int, frame: bytes, message: Any, address_of: AddressOf
) -> bytes:
    """The answer with other addresses of brokers."""
    if not endpoints_of(api_key, message):
        return frame
    if api_key in ENDPOINTS_AT_END:
        changed_frame = _with_rewritten_end(frame, message, address_of)
        if changed_frame is not None:
            return changed_frame
    field_name, id_field = _ADDRESS_FIELDS_BY_API.get(api_key, ("node_endpoints", "node_id"))
    if hasattr(message, field_name):
        message = replace(
            message,
            **{field_name: _rewritten_rows(getattr(message, field_name), id_field, address_of)},
        )
    else:  # FindCoordinator for one key
        message = _rewritten_row(message, message.node_id, address_of)
    correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
    return RelayedRequest(api_key, api_version, correlation_id).frame_answer(message)


def _rewritten_rows(
    endpoint_rows: Iterable[Any], id_field: str, address_of: AddressOf
) -> tuple[Any, ...]:
    return tuple(
        _rewritten_row(endpoint_row, getattr(endpoint_row, id_field), address_of)
        for endpoint_row in endpoint_rows
    )


def _rewritten_row(endpoint_row: Any, node_id: int, address_of: AddressOf) -> Any:
    if node_id < 0 or endpoint_row.port < 0:
        return endpoint_row
    host, port = address_of(NodeAddress(node_id, endpoint_row.host, endpoint_row.port))
    return replace(endpoint_row, host=host, port=port)


def _with_rewritten_end(frame: bytes, message: Any, address_of: AddressOf) -> bytes | None:
    """The frame with other endpoints at its end; None if the old endpoints are not its last
    bytes.
    """
    old_field = _encoded_endpoints(message.node_endpoints)
    if not frame.endswith(old_field):
        return None
    new_field = _encoded_endpoints(_rewritten_rows(message.node_endpoints, "node_id", address_of))
    changed_body = frame[4 : -len(old_field)] + new_field
    return len(changed_body).to_bytes(4, "big") + changed_body


def _encoded_endpoints(endpoint_rows: Sequence[Any]) -> bytes:
    """The tagged field with the endpoints, preceded by its size."""
    encoded_rows = bytearray(uvarint(len(endpoint_rows) + 1))
    for endpoint_row in endpoint_rows:
        encoded_rows += endpoint_row.node_id.to_bytes(4, "big", signed=True)
        encoded_rows += _compact_string(endpoint_row.host)
        encoded_rows += endpoint_row.port.to_bytes(4, "big", signed=True)
        encoded_rows += b"\0" if endpoint_row.rack is None else _compact_string(endpoint_row.rack)
        encoded_rows += b"\0"
    return uvarint(len(encoded_rows)) + bytes(encoded_rows)


def _compact_string(text: str) -> bytes:
    text_bytes = text.encode()
    return uvarint(len(text_bytes) + 1) + text_bytes


# Versions


def limit_api_versions(api_version: int, frame: bytes) -> bytes:
    """Limits the versions of ``VERSION_LIMITED`` APIs in an ApiVersions answer to those that the
    proxy can decode. The bytes are patched: up to these rows, the layout is the same in every
    version so far.
    """
    error_code = int.from_bytes(frame[8:10], "big")
    if api_version < _FLEXIBLE_FROM_VERSION or error_code == _UNSUPPORTED_VERSION:
        row_count, position, row_bytes = int.from_bytes(frame[10:14], "big"), 14, _API_ROW_BYTES
    else:
        row_count, position = read_uvarint(frame, 10)
        row_count, row_bytes = row_count - 1, _API_ROW_BYTES + 1
    patched_frame: bytearray | None = None
    for _ in range(row_count):
        if position + _API_ROW_BYTES > len(frame):
            break
        api_key = int.from_bytes(frame[position : position + 2], "big")
        highest_version = int.from_bytes(frame[position + 4 : position + 6], "big")
        if api_key in VERSION_LIMITED and highest_version > (
            highest_known_version := versions(api_key)[-1]
        ):
            patched_frame = bytearray(frame) if patched_frame is None else patched_frame
            patched_frame[position + 4 : position + 6] = highest_known_version.to_bytes(2, "big")
        position += row_bytes
    return frame if patched_frame is None else bytes(patched_frame)
