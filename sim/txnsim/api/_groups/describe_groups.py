"""DescribeGroups (key 15): classic groups and their members.

Versions: 3 may have the authorized operations, 4 knows static members, 6 has an error for a
group that does not exist; before, it is Dead. So is a group of another type. Kafka's
counterpart: KafkaApis.handleDescribeGroupsRequest.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from txnsim.api.request import NOT_ASKED, Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic_group import ClassicGroup, ClassicMember
from txnsim.group.state import ClassicGroupState
from txnsim.wire.codec import build

API_KEY: Final = 15

MISSING_GROUP_NAMED_FROM: Final = 6
_OPERATIONS: Final = 3400
"""Bits of every operation on a group (AclEntry.supportedOperations)."""
_OPERATIONS_BEFORE_CONFIGS: Final = 328
"""Operations on a group before Kafka 4.0, when groups had no configs. Those releases also answer
"Dead" for a missing group.
"""


def group_operations(request: Request) -> int:
    """Bit field of every operation on a group in the emulated release."""
    newest_version = request.apis.accepted[API_KEY][1]
    has_configs = newest_version >= MISSING_GROUP_NAMED_FROM
    return _OPERATIONS if has_configs else _OPERATIONS_BEFORE_CONFIGS


async def handle(request: Request) -> Reply:
    """Describe each group."""
    descriptions = await request.each_heavy(partial(_describe, request), request.message.groups)
    return request.answer(groups=tuple(descriptions))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every group."""
    groups = [_failure(request, group_id, error) for group_id in request.message.groups]
    return request.answer(groups=tuple(groups))


async def _describe(request: Request, group_id: str) -> Any:
    group = request.broker.groups.find(group_id)
    if isinstance(group, Rejection) and group.error is not ErrorCode.group_id_not_found:
        return _failure(request, group_id, group.error)
    if not isinstance(group, ClassicGroup):
        return _missing_group(request, group_id, group)
    is_stable = group.state is ClassicGroupState.STABLE
    members = tuple(group.members.values())
    request.announce_answer(len(members), sum([_member_bytes(group, member) for member in members]))
    described_members = await request.map_each(partial(_member_row, request, group), members)
    return _group_row(
        request,
        error_code=ErrorCode.none,
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type_or_empty,
        protocol_data=group.protocol if is_stable else "",
        members=tuple(described_members),
        authorized_operations=group_operations(request)
        if getattr(request.message, "include_authorized_operations", False)
        else NOT_ASKED,
    )


def _missing_group(request: Request, group_id: str, group: object) -> Any:
    is_an_error = request.api_version >= MISSING_GROUP_NAMED_FROM
    reason = (
        group.reason
        if isinstance(group, Rejection)
        else f"Group {group_id} is not a classic group."
    )
    return _group_row(
        request,
        error_code=ErrorCode.group_id_not_found if is_an_error else ErrorCode.none,
        error_message=reason if is_an_error else None,
        group_id=group_id,
        group_state=ClassicGroupState.DEAD.value,
        authorized_operations=group_operations(request)
        if not is_an_error and getattr(request.message, "include_authorized_operations", False)
        else NOT_ASKED,
    )


def _failure(request: Request, group_id: str, error: ErrorCode) -> Any:
    return _group_row(request, error_code=error, group_id=group_id)


def _group_row(request: Request, **field_values: object) -> Any:
    all_fields = {
        "error_message": None,
        "group_state": "",
        "protocol_type": "",
        "protocol_data": "",
        "members": (),
        "authorized_operations": NOT_ASKED,
        **field_values,
    }
    return build(request.schema.DescribedGroup, **all_fields)


def _member_bytes(group: ClassicGroup, member: ClassicMember) -> int:
    is_stable = group.state is ClassicGroupState.STABLE
    return len(member.metadata(group.protocol) if is_stable else b"") + len(member.assignment)


def _member_row(request: Request, group: ClassicGroup, member: ClassicMember) -> Any:
    is_stable = group.state is ClassicGroupState.STABLE
    return build(
        request.schema.DescribedGroupMember,
        member_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        # Between two generations there is nothing that all agree on.
        member_metadata=member.metadata(group.protocol) if is_stable else b"",
        member_assignment=member.assignment,
        group_instance_id=member.group_instance_id,
    )
