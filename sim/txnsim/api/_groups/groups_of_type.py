"""Describe requests for groups of one type: each type has its own API key, and this module what
they share.

A group of another type counts as not found. Kafka's counterparts: the describe methods of
GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import msgspec

from txnsim.api._groups.describe_groups import group_operations
from txnsim.api.request import NOT_ASKED, Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.wire.codec import build


class GroupsOfType(msgspec.Struct, frozen=True, kw_only=True):
    """Handler of the describe request for one type of group."""

    group_class: type[Any]
    type_name: str
    """Name of the type in Kafka's error message."""
    is_enabled: Callable[[Request], bool]
    reason_of_rejection: Callable[[Rejection], str | None]
    """The error message for a rejection of the coordinator."""
    members_of: Callable[[Any], Collection[Any]]
    build_member: Callable[[Request, Any, Any], Any]
    """Builds the row of one member."""
    count_elements: Callable[[Any, Any], int]
    build_extra_fields: Callable[[Request, Any], dict[str, object]]
    """Builds the fields that only this type of group has."""
    extra_field_defaults: tuple[tuple[str, object], ...] = (("assignor_name", ""),)
    """Defaults of those fields, for a group that can't be described."""

    async def handle(self, request: Request) -> Reply:
        """Describe each group."""
        if not self.is_enabled(request):
            return self.refuse(request, ErrorCode.unsupported_version)
        descriptions = await request.each_heavy(
            partial(self._describe, request), request.message.group_ids
        )
        return request.answer(groups=tuple(descriptions))

    def refuse(self, request: Request, error: ErrorCode) -> Reply:
        refusals = [
            self.failed_group(request, group_id, error) for group_id in request.message.group_ids
        ]
        return request.answer(groups=tuple(refusals))

    async def _describe(self, request: Request, group_id: str) -> Any:
        if not group_id:
            return self.failed_group(request, "", ErrorCode.invalid_group_id)
        group = request.broker.groups.find(group_id)
        if isinstance(group, Rejection):
            reason = self.reason_of_rejection(group)
            return self._row(request, group_id, error_code=group.error, error_message=reason)
        if not isinstance(group, self.group_class):
            error = ErrorCode.group_id_not_found
            reason = f"Group {group_id} is not a {self.type_name} group."
            return self._row(request, group_id, error_code=error, error_message=reason)
        members = self.members_of(group)
        count_elements = partial(self.count_elements, group)
        request.announce_answer(sum(map(count_elements, members)))
        described_members = await request.map_each(
            partial(self.build_member, request, group), members, weight=count_elements
        )
        wants_operations = request.message.include_authorized_operations
        return self._row(
            request,
            group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            members=tuple(described_members),
            authorized_operations=group_operations(request) if wants_operations else NOT_ASKED,
            **self.build_extra_fields(request, group),
        )

    def failed_group(self, request: Request, group_id: str, error: ErrorCode) -> Any:
        """A group of the answer that has only an error."""
        return self._row(request, group_id, error_code=error)

    def _row(self, request: Request, group_id: str, **field_values: object) -> Any:
        """A group of the answer: Kafka's defaults, overridden by ``field_values``."""
        return build(
            request.schema.DescribedGroup,
            **{
                "error_code": ErrorCode.none,
                "error_message": None,
                "group_id": group_id,
                "group_state": "",
                "group_epoch": 0,
                "assignment_epoch": 0,
                "members": (),
                "authorized_operations": NOT_ASKED,
                **dict(self.extra_field_defaults),
                **field_values,
            },
        )
