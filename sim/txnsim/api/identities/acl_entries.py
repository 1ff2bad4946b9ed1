"""ACLs between the wire and the core: the parts that DescribeAcls, CreateAcls and DeleteAcls share.

Kafka's counterpart: RequestUtils, DescribeAclsResponse.aclsResources.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.request import Request
from txnsim.errors import ErrorCode, MalformedFrameError, Rejection
from txnsim.security.acls import AclBinding, AclFilter
from txnsim.wire import codec

NO_AUTHORIZER: Final = "No Authorizer is configured."
_UNKNOWN: Final = 0


def filter_of(asked: Any) -> AclFilter:
    """The filter of a request; without pattern types (v0) it is about literal ones."""
    return AclFilter(
        resource_type=int(asked.resource_type_filter),
        name=asked.resource_name_filter,
        pattern=int(asked.pattern_type_filter),
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=int(asked.operation),
        permission=int(asked.permission_type),
    )


def decode_creations(header: codec.RequestHeader, frame: bytes) -> Any:
    """CreateAcls, as far as it can be read.

    Raises:
        MalformedFrameError: A kind is UNKNOWN: Kafka's own classes refuse to be made of that, which
            closes the connection.
    """
    message = codec.decode_request(header, frame)
    for creation in message.creations:
        _check_known(
            creation.resource_type,
            creation.resource_pattern_type,
            creation.operation,
            creation.permission_type,
        )
    return message


def decode_filters(header: codec.RequestHeader, frame: bytes) -> Any:
    """DescribeAcls, which is a filter, or DeleteAcls, which has some.

    Raises:
        MalformedFrameError: As for ``decode_creations``.
    """
    message = codec.decode_request(header, frame)
    for one in getattr(message, "filters", (message,)):
        _check_known(
            one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type
        )
    return message


def _check_known(*kinds: int) -> None:
    if _UNKNOWN in kinds:
        raise MalformedFrameError("an ACL is of the kind UNKNOWN")


def described(request: Request, found: list[AclBinding]) -> tuple[Any, ...]:
    """Bindings by their resources."""
    schema = request.schema
    by_resource: dict[tuple[int, str, int], list[AclBinding]] = {}
    for acl in found:
        by_resource.setdefault((acl.resource_type, acl.name, acl.pattern), []).append(acl)
    return tuple(
        schema.DescribeAclsResource(
            resource_type=kind,
            resource_name=name,
            pattern_type=pattern,
            acls=tuple(
                schema.AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in acls
            ),
        )
        for (kind, name, pattern), acls in by_resource.items()
    )


def told(rejection: Rejection | None) -> dict[str, Any]:
    """Error and message of one result."""
    if rejection is None:
        return {"error_code": ErrorCode.none, "error_message": None}
    return {"error_code": rejection.error, "error_message": rejection.reason or None}


def security_disabled() -> Rejection:
    """What is answered without an authorizer."""
    return Rejection(error=ErrorCode.security_disabled, reason=NO_AUTHORIZER)
