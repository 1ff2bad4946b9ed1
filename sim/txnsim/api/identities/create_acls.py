"""CreateAcls (key 30): add ACLs; one that is there already is created once more without effect.

Versions: 1 knows patterns (KIP-290), 2 is flexible, 3 the resource type USER (KIP-373). Kafka's
counterparts: AclApis.handleCreateAcls, AclControlManager.createAcls.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.identities.acl_entries import decode_creations, security_disabled, told
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.security.acls import AclBinding, creation_complaint, is_for_filters

KEY: Final = 30
VERSIONS: Final = (1, 3)

decode = decode_creations


async def handle(request: Request) -> Reply:
    """Add each by itself."""
    creations = request.message.creations
    if request.access is None:
        return _answer(request, [security_disabled() for _ in creations])
    wanted = [_binding(creation) for creation in creations]
    if any(is_for_filters(acl) for acl in wanted):
        # Kafka can't make a binding of it at all, and fails the whole request.
        return refuse(request, ErrorCode.unknown_server_error)
    complaints = [creation_complaint(acl) for acl in wanted]
    metadata = request.broker.metadata
    image = metadata.image
    good = (acl for acl, wrong in zip(wanted, complaints, strict=True) if wrong is None)
    metadata.publish(image.with_acls(image.acls.plus(good)))
    return _answer(request, complaints)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every ACL."""
    rejection = Rejection(error=error, reason="")
    return _answer(request, [rejection for _ in request.message.creations])


def _binding(creation: Any) -> AclBinding:
    return AclBinding(
        resource_type=int(creation.resource_type),
        name=creation.resource_name,
        pattern=int(creation.resource_pattern_type),
        principal=creation.principal,
        host=creation.host,
        operation=int(creation.operation),
        permission=int(creation.permission_type),
    )


def _answer(request: Request, outcomes: list[Rejection | None]) -> Reply:
    result = request.schema.AclCreationResult
    return request.answer(
        results=tuple(
            result(error_code=ErrorCode.none, error_message="")
            if outcome is None
            else result(**told(outcome))
            for outcome in outcomes
        )
    )
