"""Decides whether a principal may do an operation on a resource, by the rules of Kafka's
StandardAuthorizer.

In this order: a super user may do everything; a DENY that matches forbids; an ALLOW that matches
allows; if no ACL applies to the resource at all, ``allow.everyone.if.no.acl.found`` decides;
otherwise it is forbidden. Kafka's counterparts: StandardAuthorizerData,
Authorizer.authorizeByResourceType.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

import msgspec

from txnsim.security.acls import (
    WILDCARD,
    AclOperation,
    Acls,
    PatternType,
    Permission,
    ResourceType,
    bit_of,
)

_IMPLYING_OPERATIONS: Final = {
    AclOperation.DESCRIBE: frozenset(
        {
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
        }
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset(
        {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}
    ),
}
"""Operation -> operations whose ALLOW allows it, too. A DENY implies nothing."""
_DENYING_BITS: Final = {
    operation: bit_of(operation, Permission.DENY) | bit_of(AclOperation.ALL, Permission.DENY)
    for operation in AclOperation
}
"""Operation -> bits that forbid it."""
_ALLOWING_BITS: Final = {
    operation: reduce(
        or_,
        (
            bit_of(allowing_operation, Permission.ALLOW)
            for allowing_operation in (
                operation,
                AclOperation.ALL,
                *_IMPLYING_OPERATIONS.get(operation, ()),
            )
        ),
    )
    for operation in AclOperation
}
"""Operation -> bits that allow it."""


class Authorizer(msgspec.Struct, frozen=True, kw_only=True):
    """The authorizer of a cluster; the caller passes the ACLs of the broker's present image."""

    super_users: frozenset[str] = frozenset()
    """Principals that may do everything (``super.users``)."""
    allow_everyone_if_no_acl_found: bool = False

    def allows(
        self,
        acls: Acls,
        *,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> bool:
        if principal in self.super_users:
            return True
        bits = acls.bits_for(resource_type, resource_name, principal, host)
        if bits is None:
            return self.allow_everyone_if_no_acl_found
        return not bits & _DENYING_BITS[operation] and bool(bits & _ALLOWING_BITS[operation])

    def allows_any(
        self,
        acls: Acls,
        *,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
    ) -> bool:
        """Whether the principal may do the operation on some resource of the type.

        Only the ACLs are checked: no such resource needs to exist.
        """
        if self.allows(
            acls,
            principal=principal,
            host=host,
            operation=operation,
            resource_type=resource_type,
            resource_name=_ANY_NAME,
        ):
            return True
        literal_names_by_permission: dict[Permission, set[str]] = {
            Permission.ALLOW: set(),
            Permission.DENY: set(),
        }
        prefixes_by_permission: dict[Permission, set[str]] = {
            Permission.ALLOW: set(),
            Permission.DENY: set(),
        }
        for pattern, resource_name, bits in acls.bits_by_resource(resource_type, principal, host):
            names_by_permission = (
                literal_names_by_permission
                if pattern == PatternType.LITERAL
                else prefixes_by_permission
            )
            for permission in (Permission.ALLOW, Permission.DENY):
                if bits & (bit_of(operation, permission) | bit_of(AclOperation.ALL, permission)):
                    names_by_permission[permission].add(resource_name)
        if WILDCARD in literal_names_by_permission[Permission.DENY]:
            return False
        if WILDCARD in literal_names_by_permission[Permission.ALLOW]:
            return True
        denied_prefixes = tuple(prefixes_by_permission[Permission.DENY])
        return any(
            not resource_name.startswith(denied_prefixes)
            for resource_name in (
                *(
                    literal_names_by_permission[Permission.ALLOW]
                    - literal_names_by_permission[Permission.DENY]
                ),
                *prefixes_by_permission[Permission.ALLOW],
            )
        )


_ANY_NAME: Final = "hardcode"
"""A name that stands for any resource; Authorizer.authorizeByResourceType uses the same one."""
