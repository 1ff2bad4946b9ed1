"""CreateAcls (key 30): add ACLs; creating an existing one succeeds without effect.

Versions: 1 knows patterns (KIP-290), 2 is flexible, 3 the resource type USER (KIP-373). Kafka's
counterparts: AclApis.handleCreateAcls, AclControlManager.createAcls.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from txnsim.api._identities.acl_entries import check_creations, security_disabled
from txnsim.api.request import Reply, Request, error_fields
from txnsim.controller.controller import RECORDS_MAX, TOO_MANY_RECORDS
from txnsim.errors import ErrorCode, Rejection
from txnsim.security.acls import AclBinding, creation_complaint, has_filter_only_value

API_KEY: Final = 30

check = check_creations


async def handle(request: Request) -> Reply:
    creations = request.message.creations
    if request.access is None:
        return _same_for_all(request, security_disabled())
    bindings = await request.map_each(_binding, creations)
    if any(map(has_filter_only_value, bindings)):
        # Kafka can't make a binding of it at all, and fails the whole request.
        return refuse(request, ErrorCode.unknown_server_error)
    rejections = await request.map_each(creation_complaint, bindings)
    metadata = request.broker.metadata
    image = metadata.image
    acls = image.acls.plus(
        acl for acl, rejection in zip(bindings, rejections, strict=True) if rejection is None
    )
    if acls.count - image.acls.count > RECORDS_MAX:
        rejections = [rejection or TOO_MANY_RECORDS for rejection in rejections]
    else:
        metadata.publish(image.with_acls(acls))
    creation_rows = await request.map_each(partial(_creation_row, request.schema), rejections)
    return request.answer(results=tuple(creation_rows))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every ACL."""
    return _same_for_all(request, Rejection(error=error, reason=""))


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


def _creation_row(schema: Any, rejection: Rejection | None) -> Any:
    if rejection is None:
        return schema.AclCreationResult(error_code=ErrorCode.none, error_message="")
    return schema.AclCreationResult(**error_fields(rejection))


def _same_for_all(request: Request, rejection: Rejection) -> Reply:
    result = _creation_row(request.schema, rejection)
    return request.answer(results=(result,) * len(request.message.creations))
