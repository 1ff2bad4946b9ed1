"""May this principal do that to this resource? The rules of Kafka's StandardAuthorizer.

In this order: a super user may do everything; a DENY that matches forbids; an ALLOW that matches
allows; where no ACL is about the resource at all, ``allow.everyone.if.no.acl.found`` decides;
otherwise it is forbidden. Kafka's counterparts: StandardAuthorizerData,
Authorizer.authorizeByResourceType.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.security.acls import (
    WILDCARD,
    AclBinding,
    Acls,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from txnsim.security.principals import EVERYBODY

_IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""Operations whose ALLOW allows another one as well. A DENY implies nothing."""


class Authorizer(msgspec.Struct, frozen=True, kw_only=True):
    """The authorizer of a cluster; the ACLs are those of the broker's present image."""

    super_users: frozenset[str] = frozenset()
    """Principals that may do everything (``super.users``)."""
    allow_everyone_if_no_acl_found: bool = False

    def allows(
        self,
        acls: Acls,
        *,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether the principal may do that to the resource of that name."""
        if principal in self.super_users:
            return True
        is_known = is_allowed = False
        for acl in acls.covering(resource_type, name):
            is_known = True
            if _concerns(acl, principal, host) and _is_meant(acl, operation):
                if acl.permission == Permission.DENY:
                    return False
                is_allowed = True
        return is_allowed or (not is_known and self.allow_everyone_if_no_acl_found)

    def allows_any(
        self,
        acls: Acls,
        *,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
    ) -> bool:
        """Whether there may be any resource of that type to which the principal may do that.

        It checks only the ACLs: no resource need exist.
        """
        if self.allows(
            acls,
            principal=principal,
            host=host,
            operation=operation,
            resource_type=resource_type,
            name=_ANY_NAME,
        ):
            return True
        literal: dict[Permission, set[str]] = {Permission.ALLOW: set(), Permission.DENY: set()}
        prefixed: dict[Permission, set[str]] = {Permission.ALLOW: set(), Permission.DENY: set()}
        for acl in acls.about(resource_type):
            if _concerns(acl, principal, host) and acl.operation in (operation, Operation.ALL):
                kind = literal if acl.pattern == PatternType.LITERAL else prefixed
                kind[Permission(acl.permission)].add(acl.name)
        if WILDCARD in literal[Permission.DENY]:
            return False
        if WILDCARD in literal[Permission.ALLOW]:
            return True
        denied = tuple(prefixed[Permission.DENY])
        return any(
            not name.startswith(denied)
            for name in (
                *(literal[Permission.ALLOW] - literal[Permission.DENY]),
                *prefixed[Permission.ALLOW],
            )
        )


_ANY_NAME: Final = "hardcode"
"""A name that stands for any (Authorizer.authorizeByResourceType asks with this very one)."""


def _concerns(acl: AclBinding, principal: str, host: str) -> bool:
    return acl.principal in (principal, EVERYBODY) and acl.host in (WILDCARD, host)


def _is_meant(acl: AclBinding, operation: Operation) -> bool:
    if acl.operation in (operation, Operation.ALL):
        return True
    return acl.permission == Permission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())
