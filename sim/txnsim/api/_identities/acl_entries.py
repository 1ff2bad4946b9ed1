"""Translation of ACLs between wire and core, shared by DescribeAcls, CreateAcls and DeleteAcls.

Kafka's counterpart: RequestUtils, DescribeAclsResponse.aclsResources.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, Final

from txnsim.api.request import Request
from txnsim.errors import ErrorCode, MalformedFrameError, Rejection
from txnsim.security.acls import AclBinding, AclFilter, Acls

NO_AUTHORIZER: Final = "No Authorizer is configured."
_UNKNOWN_VALUE: Final = 0


def filter_of(filter_row: Any) -> AclFilter:
    """The filter of a request; without a pattern type (v0) it matches literal patterns."""
    return AclFilter(
        resource_type=int(filter_row.resource_type_filter),
        name=filter_row.resource_name_filter,
        pattern=int(filter_row.pattern_type_filter),
        principal=filter_row.principal_filter,
        host=filter_row.host_filter,
        operation=int(filter_row.operation),
        permission=int(filter_row.permission_type),
    )


def check_creations(message: Any) -> None:
    """Check that every ACL to create can be represented.

    Raises:
        MalformedFrameError: A kind is UNKNOWN: Kafka's classes refuse such a value, and the
            connection is closed.
    """
    for creation in message.creations:
        _check_known(
            creation.resource_type,
            creation.resource_pattern_type,
            creation.operation,
            creation.permission_type,
        )


def check_filters(message: Any) -> None:
    """Check the filters of DescribeAcls (the message itself is one) or DeleteAcls (a list of them).

    Raises:
        MalformedFrameError: As for ``check_creations``.
    """
    for filter_row in getattr(message, "filters", (message,)):
        _check_known(
            filter_row.resource_type_filter,
            filter_row.pattern_type_filter,
            filter_row.operation,
            filter_row.permission_type,
        )


def _check_known(*enum_values: int) -> None:
    if _UNKNOWN_VALUE in enum_values:
        raise MalformedFrameError("an ACL is of the kind UNKNOWN")


async def matching_bindings(
    request: Request, acls: Acls, acl_filter: AclFilter
) -> AsyncGenerator[AclBinding, None]:
    """The bindings that match a filter; takes breaks so that other requests run."""
    for acl in acls.candidates(acl_filter):
        request.expect(1)
        if acl_filter.takes(acl):
            yield acl
        await request.note_done(1)


async def describe_matching(request: Request, acls: Acls, acl_filter: AclFilter) -> tuple[Any, ...]:
    """The bindings that match a filter, grouped by resource."""
    schema = request.schema
    rules_by_resource: dict[tuple[int, str, int], list[Any]] = {}
    async for acl in matching_bindings(request, acls, acl_filter):
        resource_rules = rules_by_resource.setdefault(
            (acl.resource_type, acl.name, acl.pattern), []
        )
        resource_rules.append(_acl_row(schema, acl))
    resources = await request.map_each(partial(_resource_row, schema), rules_by_resource.items())
    return tuple(resources)


def _acl_row(schema: Any, acl: AclBinding) -> Any:
    return schema.AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _resource_row(schema: Any, resource: tuple[tuple[int, str, int], list[Any]]) -> Any:
    (resource_type, resource_name, pattern_type), resource_rules = resource
    return schema.DescribeAclsResource(
        resource_type=resource_type,
        resource_name=resource_name,
        pattern_type=pattern_type,
        acls=tuple(resource_rules),
    )


def security_disabled() -> Rejection:
    """The rejection for a cluster without an authorizer."""
    return Rejection(error=ErrorCode.security_disabled, reason=NO_AUTHORIZER)
