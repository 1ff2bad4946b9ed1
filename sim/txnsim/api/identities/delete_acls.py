"""DeleteAcls (key 31): remove the ACLs that any of the filters takes.

Versions: 1 knows patterns (KIP-290), 2 is flexible, 3 the resource type USER (KIP-373). Kafka's
counterparts: AclApis.handleDeleteAcls, AclControlManager.deleteAcls.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.identities.acl_entries import (
    decode_filters,
    filter_of,
    security_disabled,
    told,
)
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.security.acls import AclBinding

KEY: Final = 31
VERSIONS: Final = (1, 3)

decode = decode_filters

Outcome = list[AclBinding] | Rejection


async def handle(request: Request) -> Reply:
    """Remove for each filter what is there; an ACL that two filters take is told to both."""
    filters = request.message.filters
    if request.access is None:
        return _answer(request, [security_disabled() for _ in filters])
    metadata = request.broker.metadata
    image = metadata.image
    outcomes: list[Outcome] = []
    gone: list[AclBinding] = []
    for asked in filters:
        wanted = filter_of(asked)
        complaint = wanted.complaint()
        if complaint is not None:
            outcomes.append(complaint)
        else:
            found = image.acls.found(wanted)
            outcomes.append(found)
            gone += found
    metadata.publish(image.with_acls(image.acls.minus(gone)))
    return _answer(request, outcomes)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every filter."""
    rejection = Rejection(error=error, reason="")
    return _answer(request, [rejection for _ in request.message.filters])


def _answer(request: Request, outcomes: list[Any]) -> Reply:
    schema = request.schema
    return request.answer(
        filter_results=tuple(
            schema.DeleteAclsFilterResult(**told(outcome), matching_acls=())
            if isinstance(outcome, Rejection)
            else schema.DeleteAclsFilterResult(
                **told(None), matching_acls=tuple(_removed(request, acl) for acl in outcome)
            )
            for outcome in outcomes
        )
    )


def _removed(request: Request, acl: AclBinding) -> Any:
    return request.schema.DeleteAclsMatchingAcl(
        **told(None),
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
