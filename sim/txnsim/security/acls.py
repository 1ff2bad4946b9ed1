"""ACL bindings, filters over them, and the immutable set of all that a cluster has.

The numbers are those of the protocol, so that handlers pass them through. Kafka's counterparts:
AclBinding, AclBindingFilter, ResourcePatternFilter, AclControlManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection

CLUSTER_NAME: Final = "kafka-cluster"
"""The one name of the CLUSTER resource (Resource.CLUSTER_NAME)."""
WILDCARD: Final = "*"
"""As a literal resource name: every resource of the type; as a host: every host."""


class ResourceType(IntEnum):
    """What an ACL is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a resource is named."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What is done to a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """What an ACL says of it."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One rule: a resource pattern, and who may or may not do what to it from where."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    def covers(self, name: str) -> bool:
        """Whether a resource of this binding's type and of that name is meant."""
        if self.pattern == PatternType.LITERAL:
            return self.name in (name, WILDCARD)
        return name.startswith(self.name)


class AclFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which bindings are asked for; None and ANY take everything."""

    resource_type: int = ResourceType.ANY
    name: str | None = None
    pattern: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def takes(self, acl: AclBinding) -> bool:
        """Whether the binding is asked for."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._takes_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _takes_pattern(self, acl: AclBinding) -> bool:
        """ResourcePatternFilter.matches: MATCH takes whatever has an effect on that name."""
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        return self.pattern == PatternType.MATCH and acl.covers(self.name)

    def complaint(self) -> Rejection | None:
        """What is wrong with the filter (AclControlManager.validateFilter)."""
        if not (_knows(ResourceType, self.resource_type) and _knows(PatternType, self.pattern)):
            return _invalid("Unknown patternFilter.")
        if not (_knows(Operation, self.operation) and _knows(Permission, self.permission)):
            return _invalid("Unknown entryFilter.")
        return None


class Acls(msgspec.Struct, frozen=True, kw_only=True):
    """Every binding of the cluster, by resource type. Never changed in place."""

    by_type: Mapping[int, tuple[AclBinding, ...]] = {}

    def all(self) -> list[AclBinding]:
        """Every binding, in an order of its own."""
        return sorted(acl for acls in self.by_type.values() for acl in acls)

    def about(self, resource_type: int) -> tuple[AclBinding, ...]:
        """The bindings of one type of resource."""
        return self.by_type.get(resource_type, ())

    def found(self, wanted: AclFilter) -> list[AclBinding]:
        """The bindings that a filter takes."""
        return [acl for acl in self.all() if wanted.takes(acl)]

    def plus(self, acls: Iterable[AclBinding]) -> Acls:
        """With those bindings too; this very set where it has them all."""
        new = [acl for acl in dict.fromkeys(acls) if acl not in self.about(acl.resource_type)]
        return _made([*self.all(), *new]) if new else self

    def minus(self, acls: Iterable[AclBinding]) -> Acls:
        """Without those bindings; this very set where it has none of them."""
        gone = set(acls)
        left = [acl for acl in self.all() if acl not in gone]
        return self if len(left) == len(self.all()) else _made(left)


NO_ACLS: Final = Acls()


def creation_complaint(acl: AclBinding) -> Rejection | None:
    """Why a binding can't be created: the checks of AclApis.handleCreateAcls, then those of
    AclControlManager.validateNewAcl.
    """
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        return _invalid("Invalid empty resource name")
    if acl.resource_type <= ResourceType.ANY or not _knows(ResourceType, acl.resource_type):
        return _invalid(f"Invalid resourceType {_name(ResourceType, acl.resource_type)}")
    if acl.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return _invalid(f"Invalid patternType {_name(PatternType, acl.pattern)}")
    if acl.operation <= Operation.ANY or not _knows(Operation, acl.operation):
        return _invalid(f"Invalid operation {_name(Operation, acl.operation)}")
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        return _invalid(f"Invalid permissionType {_name(Permission, acl.permission)}")
    if ":" not in acl.principal:
        return _invalid(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    return None


def is_for_filters(acl: AclBinding) -> bool:
    """Whether it has a kind that only a filter may have."""
    return (
        acl.resource_type == ResourceType.ANY
        or acl.pattern in (PatternType.ANY, PatternType.MATCH)
        or acl.operation == Operation.ANY
        or acl.permission == Permission.ANY
    )


def _made(acls: Iterable[AclBinding]) -> Acls:
    by_type: dict[int, list[AclBinding]] = {}
    for acl in sorted(acls):
        by_type.setdefault(acl.resource_type, []).append(acl)
    return Acls(by_type={kind: tuple(found) for kind, found in by_type.items()})


def _knows(kind: type[IntEnum], value: int) -> bool:
    return any(value == member for member in kind)


def _name(kind: type[IntEnum], value: int) -> str:
    return kind(value).name if _knows(kind, value) else "UNKNOWN"


def _invalid(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.invalid_request, reason=reason)
