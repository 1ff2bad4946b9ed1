"""ACL bindings, filters for them, and the immutable set of all ACLs of a cluster.

The numbers are those of the protocol, so that handlers pass them through. Kafka's counterparts:
AclBinding, AclBindingFilter, ResourcePatternFilter, AclControlManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache, reduce
from operator import or_
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.security.principals import EVERYBODY

CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of the CLUSTER resource (Resource.CLUSTER_NAME)."""
WILDCARD: Final = "*"
"""As a literal resource name: every resource of the type. As a host: every host."""


class ResourceType(IntEnum):
    """The type of the resource that an ACL is for."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a name in an ACL or a filter is compared with a resource's name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """An operation on a resource."""

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
    """The permission type of an ACL."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_NUMBERS_BY_ENUM: Final[Mapping[type[IntEnum], frozenset[int]]] = {
    kind: frozenset(kind) for kind in (ResourceType, PatternType, AclOperation, Permission)
}


class AclBinding(msgspec.Struct, frozen=True, kw_only=True, order=True, gc=False):
    """One ACL: a resource pattern, a principal, a host, an operation, a permission."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    def covers(self, resource_name: str) -> bool:
        """Whether this binding applies to a resource of its type with that name."""
        if self.pattern == PatternType.LITERAL:
            return self.name in (resource_name, WILDCARD)
        return resource_name.startswith(self.name)


class AclFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for bindings; None and ANY match everything."""

    resource_type: int = ResourceType.ANY
    name: str | None = None
    pattern: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = Permission.ANY

    def takes(self, acl: AclBinding) -> bool:
        """Whether the binding matches the filter."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._takes_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _takes_pattern(self, acl: AclBinding) -> bool:
        """Whether pattern and name match. MATCH takes every pattern that applies to the name
        (ResourcePatternFilter.matches).
        """
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        return self.pattern == PatternType.MATCH and acl.covers(self.name)

    def complaint(self) -> Rejection | None:
        """The error of an invalid filter (AclControlManager.validateFilter); None if it is
        valid.
        """
        if not (
            _knows_number(ResourceType, self.resource_type)
            and _knows_number(PatternType, self.pattern)
        ):
            return _invalid_request("Unknown patternFilter.")
        if not (
            _knows_number(AclOperation, self.operation)
            and _knows_number(Permission, self.permission)
        ):
            return _invalid_request("Unknown entryFilter.")
        return None


_ResourcePattern = tuple[int, int, str]
"""(resource type, pattern type, name): what an ACL applies to."""
_BitsByHolder = Mapping[tuple[str, str], int]
"""(principal, host) -> denied and allowed operations as bits (``bit_of``)."""


def bit_of(operation: int, permission: int) -> int:
    """The bit that stands for an operation and its permission, DENY or ALLOW."""
    return 1 << operation + (len(AclOperation) if permission == Permission.ALLOW else 0)


@lru_cache(maxsize=1_024)
def _operations_of(bit_field: int) -> tuple[tuple[int, int], ...]:
    """The (operation, permission) pairs that the bits stand for."""
    return tuple(
        (int(operation), int(permission))
        for operation in AclOperation
        for permission in (Permission.DENY, Permission.ALLOW)
        if bit_field & bit_of(operation, permission)
    )


class Acls(msgspec.Struct, frozen=True, kw_only=True):
    """All bindings of a cluster. Never changed in place.

    A check looks up only what it needs, so that it does not take longer when there are many ACLs of
    others.
    """

    by_resource: Mapping[_ResourcePattern, _BitsByHolder] = {}
    prefix_counts: Mapping[tuple[int, int], int] = {}
    """(resource type, length of the name) -> number of prefixed resource patterns."""
    count: int = 0

    def all_bindings(self) -> Iterator[AclBinding]:
        """Yield every binding."""
        return self._bindings(self.by_resource)

    def bits_by_resource(
        self, resource_type: int, principal: str, host: str
    ) -> Iterator[tuple[int, str, int]]:
        """Yield (pattern, name, bits) for each resource pattern of one type: the bits that apply to
        the principal when it calls from the host.
        """
        for (
            resource_kind,
            resource_pattern,
            resource_name,
        ), bits_by_holder in self.by_resource.items():
            if resource_kind == resource_type:
                yield (
                    resource_pattern,
                    resource_name,
                    _bits_of_holder(bits_by_holder, principal, host),
                )

    def bits_for(
        self, resource_type: int, resource_name: str, principal: str, host: str
    ) -> int | None:
        """The bits that apply to the principal and the host for one resource; None if no binding
        applies to the resource.
        """
        matching_bits = [
            _bits_of_holder(self.by_resource[resource], principal, host)
            for resource in self._covering(resource_type, resource_name)
        ]
        return reduce(or_, matching_bits) if matching_bits else None

    def candidates(self, acl_filter: AclFilter) -> Iterator[AclBinding]:
        """Bindings that may match a filter: all, or those that its name may match."""
        if acl_filter.name is None:
            return self.all_bindings()
        resources: list[_ResourcePattern] = []
        for resource_type in ResourceType:
            if acl_filter.pattern == PatternType.MATCH:
                resources.extend(self._covering(resource_type, acl_filter.name))
            else:
                patterns = PatternType.LITERAL, PatternType.PREFIXED
                resources.extend((resource_type, pattern, acl_filter.name) for pattern in patterns)
        return self._bindings(filter(self.by_resource.__contains__, resources))

    def plus(self, acls: Iterable[AclBinding]) -> Acls:
        """The set with these bindings added; the same object if all are present already."""
        return self._with_bits(acls, or_)

    def minus(self, acls: Iterable[AclBinding]) -> Acls:
        """The set without these bindings; the same object if none is present."""
        return self._with_bits(acls, lambda bits, bit: bits & ~bit)

    def _bindings(self, resources: Iterable[_ResourcePattern]) -> Iterator[AclBinding]:
        for resource in resources:
            resource_type, pattern, resource_name = resource
            for (principal, host), bits in self.by_resource[resource].items():
                for operation, permission in _operations_of(bits):
                    yield AclBinding(
                        resource_type=resource_type,
                        name=resource_name,
                        pattern=pattern,
                        principal=principal,
                        host=host,
                        operation=operation,
                        permission=permission,
                    )

    def _covering(self, resource_type: int, resource_name: str) -> Iterator[_ResourcePattern]:
        """The resource patterns that cover a resource (``AclBinding.covers``)."""
        literal_names = (resource_name,) if resource_name == WILDCARD else (resource_name, WILDCARD)
        resources = [
            (resource_type, int(PatternType.LITERAL), literal_name)
            for literal_name in literal_names
        ]
        for prefix_type, prefix_length in self.prefix_counts:
            if prefix_type == resource_type and prefix_length <= len(resource_name):
                resources.append(
                    (prefix_type, int(PatternType.PREFIXED), resource_name[:prefix_length])
                )
        return filter(self.by_resource.__contains__, resources)

    def _with_bits(
        self, acls: Iterable[AclBinding], change_bits: Callable[[int, int], int]
    ) -> Acls:
        """Apply ``change_bits`` to (present bits, bit of the binding) for each binding."""
        changed_resources: dict[_ResourcePattern, dict[tuple[str, str], int]] = {}
        binding_count = self.count
        for acl in acls:
            resource, principal_and_host = (
                (acl.resource_type, acl.pattern, acl.name),
                (acl.principal, acl.host),
            )
            bits_by_holder = changed_resources.get(resource)
            if bits_by_holder is None:
                bits_by_holder = changed_resources[resource] = dict(
                    self.by_resource.get(resource, {})
                )
            old_bits = bits_by_holder.get(principal_and_host, 0)
            new_bits = change_bits(old_bits, bit_of(acl.operation, acl.permission))
            binding_count += new_bits.bit_count() - old_bits.bit_count()
            if new_bits:
                bits_by_holder[principal_and_host] = new_bits
            else:
                bits_by_holder.pop(principal_and_host, None)
        if binding_count == self.count:
            return self
        bits_by_resource: dict[_ResourcePattern, _BitsByHolder] = {
            **self.by_resource,
            **changed_resources,
        }
        prefix_counts = Counter(self.prefix_counts)
        for resource, remaining_holders in changed_resources.items():
            resource_type, pattern, resource_name = resource
            if pattern == PatternType.PREFIXED:
                prefix_counts[resource_type, len(resource_name)] += bool(remaining_holders) - (
                    resource in self.by_resource
                )
            if not remaining_holders:
                del bits_by_resource[resource]
        return Acls(
            by_resource=bits_by_resource, prefix_counts=dict(+prefix_counts), count=binding_count
        )


def _bits_of_holder(bits_by_holder: _BitsByHolder, principal: str, host: str) -> int:
    """The bits that apply to a principal that calls from a host."""
    return (
        bits_by_holder.get((principal, host), 0)
        | bits_by_holder.get((principal, WILDCARD), 0)
        | bits_by_holder.get((EVERYBODY, host), 0)
        | bits_by_holder.get((EVERYBODY, WILDCARD), 0)
    )


NO_ACLS: Final = Acls()


def creation_complaint(acl: AclBinding) -> Rejection | None:
    """The error if a binding can't be created, else None: the checks of AclApis.handleCreateAcls,
    then those of AclControlManager.validateNewAcl.
    """
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return _invalid_request(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        return _invalid_request("Invalid empty resource name")
    if acl.resource_type <= ResourceType.ANY or not _knows_number(ResourceType, acl.resource_type):
        return _invalid_request(
            f"Invalid resourceType {_enum_name(ResourceType, acl.resource_type)}"
        )
    if acl.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return _invalid_request(f"Invalid patternType {_enum_name(PatternType, acl.pattern)}")
    if acl.operation <= AclOperation.ANY or not _knows_number(AclOperation, acl.operation):
        return _invalid_request(f"Invalid operation {_enum_name(AclOperation, acl.operation)}")
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        return _invalid_request(f"Invalid permissionType {_enum_name(Permission, acl.permission)}")
    if ":" not in acl.principal:
        return _invalid_request(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    return None


def has_filter_only_value(acl: AclBinding) -> bool:
    """Whether a binding has a value that only filters may have: ANY or MATCH."""
    return (
        acl.resource_type == ResourceType.ANY
        or acl.pattern in (PatternType.ANY, PatternType.MATCH)
        or acl.operation == AclOperation.ANY
        or acl.permission == Permission.ANY
    )


def _knows_number(enum_type: type[IntEnum], number: int) -> bool:
    return number in _NUMBERS_BY_ENUM[enum_type]


def _enum_name(enum_type: type[IntEnum], number: int) -> str:
    return enum_type(number).name if _knows_number(enum_type, number) else "UNKNOWN"


def _invalid_request(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.invalid_request, reason=reason)
