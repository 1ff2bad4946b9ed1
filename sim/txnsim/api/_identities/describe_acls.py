"""DescribeAcls (key 29): the ACLs that match a filter.

Versions: 1 knows patterns (KIP-290), 2 is flexible, 3 the resource type USER (KIP-373). Kafka's
counterparts: AclApis.handleDescribeAcls, StandardAuthorizer.acls.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._identities.acl_entries import check_filters, describe_matching, filter_of
from txnsim.api.request import Reply, Request, refuse_at_top_level
from txnsim.errors import ErrorCode

API_KEY: Final = 29

refuse = refuse_at_top_level(has_error_name=True, resources=())

check = check_filters

_NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"


async def handle(request: Request) -> Reply:
    """List the ACLs that match the request's filter."""
    if request.access is None:
        error = ErrorCode.security_disabled
        return request.answer(error_code=error, error_message=_NO_AUTHORIZER, resources=())
    acls, acl_filter = request.broker.image.acls, filter_of(request.message)
    return request.answer(
        error_code=ErrorCode.none,
        error_message="",
        resources=await describe_matching(request, acls, acl_filter),
    )
