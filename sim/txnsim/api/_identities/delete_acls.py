"""DeleteAcls (key 31): remove the ACLs that match any of the filters.

Versions: 1 knows patterns (KIP-290), 2 is flexible, 3 the resource type USER (KIP-373). Kafka's
counterparts: AclApis.handleDeleteAcls, AclControlManager.deleteAcls.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import Any, Final

from txnsim.api._identities.acl_entries import (
    check_filters,
    filter_of,
    matching_bindings,
    security_disabled,
)
from txnsim.api.request import Reply, Request, error_fields, invalid
from txnsim.controller.controller import RECORDS_MAX
from txnsim.errors import ErrorCode, Rejection
from txnsim.security.acls import AclBinding, AclFilter, Acls

API_KEY: Final = 31

check = check_filters

MATCHES_MAX: Final = 100_000
"""Limit over all filters of a request; an ACL counts once for each filter that it matches."""
TOO_MANY: Final = invalid(
    f"Cannot remove more than {RECORDS_MAX} acls in a single delete operation."
)
DEVIATIONS: Final = (
    "The filters of one DeleteAcls match 100,000 ACLs at most, counted for each filter; a request "
    "that matches more is refused as one that removes more than 10,000 is. Apache Kafka does not "
    "bound how often one ACL is matched.",
)

_FilterOutcomes = list[list[AclBinding] | Rejection]


async def handle(request: Request) -> Reply:
    """Remove what each filter matches. An ACL that two filters match is in both results."""
    if request.access is None:
        return _same_for_all(request, security_disabled())
    filter_outcomes = await _remove_acls(request)
    if filter_outcomes is None:
        return _same_for_all(request, TOO_MANY)
    schema = request.schema
    filter_rows = []
    for filter_outcome in filter_outcomes:
        if isinstance(filter_outcome, Rejection):
            filter_rows.append(_filter_row(schema, filter_outcome, ()))
        else:
            matching_rows = await request.map_each(partial(_matching_row, schema), filter_outcome)
            filter_rows.append(_filter_row(schema, None, tuple(matching_rows)))
        await request.note_done(1)
    return request.answer(filter_results=tuple(filter_rows))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every filter."""
    return _same_for_all(request, Rejection(error=error, reason=""))


async def _remove_acls(request: Request) -> _FilterOutcomes | None:
    """Remove the ACLs that match, all in one step; if ACLs have changed meanwhile, match again.
    Return None, and remove nothing, if too many match.
    """
    metadata = request.broker.metadata
    filters = await request.map_each(filter_of, request.message.filters)
    while True:
        acls = metadata.image.acls
        filter_outcomes: _FilterOutcomes = []
        removed_acls: set[AclBinding] = set()
        match_count = 0
        for acl_filter in filters:
            rejection = acl_filter.complaint()
            if rejection is not None:
                filter_outcomes.append(rejection)
                continue
            matching_acls = await _find_acls(request, acls, acl_filter)
            match_count += len(matching_acls)
            if match_count > MATCHES_MAX or not _has_room(removed_acls, matching_acls):
                return None
            filter_outcomes.append(matching_acls)
            await request.note_done(1)
        if metadata.image.acls is acls:
            metadata.publish(metadata.image.with_acls(acls.minus(removed_acls)))
            return filter_outcomes


async def _find_acls(request: Request, acls: Acls, acl_filter: AclFilter) -> list[AclBinding]:
    """The bindings that match the filter; stops just above ``RECORDS_MAX``."""
    matching_acls: list[AclBinding] = []
    async with aclosing(matching_bindings(request, acls, acl_filter)) as bindings:
        async for acl in bindings:
            matching_acls.append(acl)
            if len(matching_acls) > RECORDS_MAX:
                break
    return matching_acls


def _has_room(removed_acls: set[AclBinding], matching_acls: list[AclBinding]) -> bool:
    """Add the matching ACLs; False if there is no room. Once ``RECORDS_MAX`` different ACLs are to
    be removed, every further match fails, even one of an ACL that is already in the set
    (AclControlManager.deleteAclsForFilter).
    """
    for acl in matching_acls:
        if len(removed_acls) >= RECORDS_MAX:
            return False
        removed_acls.add(acl)
    return True


def _same_for_all(request: Request, rejection: Rejection) -> Reply:
    result = _filter_row(request.schema, rejection, ())
    return request.answer(filter_results=(result,) * len(request.message.filters))


def _filter_row(schema: Any, rejection: Rejection | None, matching_rows: tuple[Any, ...]) -> Any:
    return schema.DeleteAclsFilterResult(**error_fields(rejection), matching_acls=matching_rows)


def _matching_row(schema: Any, acl: AclBinding) -> Any:
    return schema.DeleteAclsMatchingAcl(
        **error_fields(None),
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
