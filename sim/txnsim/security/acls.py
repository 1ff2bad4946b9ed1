"""ACL bindings, filters over them, and the immutable set of all that a cluster has.

The numbers are those of the protocol, so that handlers pass them through. Kafka's counterparts:
AclBinding, AclBindingFilter, ResourcePatternFilter, AclControlManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection

CLUSTER_NAME: Final = "kafka-cluster"
"""The one name of the CLUSTER resource (Resource.CLUSTER_NAME)."""
WILDCARD: Final = "*"
"""As a literal resource name: every resource of the type; as a host: every host."""


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
    """How a resource is named."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
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
    """What an ACL says of it."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_VALUES: Final[Mapping[type[IntEnum], frozenset[int]]] = {
    kind: frozenset(kind) for kind in (ResourceType, PatternType, Operation, Permission)
}


class AclBinding(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One rule: a resource pattern, and who may or may not do which operation on it."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    def covers(self, name: str) -> bool:
        """Whether this binding is for a resource of its type with that name."""
        if self.pattern == PatternType.LITERAL:
            return self.name in (name, WILDCARD)
        return name.startswith(self.name)


class AclFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for bindings; None and ANY match everything."""

    resource_type: int = ResourceType.ANY
    name: str | None = None
    pattern: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def takes(self, acl: AclBinding) -> bool:
        """Whether the binding matches."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._takes_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _takes_pattern(self, acl: AclBinding) -> bool:
        """ResourcePatternFilter.matches: MATCH takes patterns with an effect on that name."""
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        return self.pattern == PatternType.MATCH and acl.covers(self.name)

    def complaint(self) -> Rejection | None:
        """The error of the filter (AclControlManager.validateFilter)."""
        if not (_knows(ResourceType, self.resource_type) and _knows(PatternType, self.pattern)):
            return _invalid("Unknown patternFilter.")
        if not (_knows(Operation, self.operation) and _knows(Permission, self.permission)):
            return _invalid("Unknown entryFilter.")
        return None


class _OfOneType(msgspec.Struct, frozen=True, kw_only=True):
    """The bindings for one type of resource, to be found by name."""

    all: tuple[AclBinding, ...] = ()
    """In their order."""
    literal: Mapping[str, list[AclBinding]] = {}
    prefixed: Mapping[str, list[AclBinding]] = {}
    prefix_lengths: tuple[int, ...] = ()
    """Of the names in ``prefixed``, each once."""

    @classmethod
    def of(cls, acls: Iterable[AclBinding]) -> _OfOneType:
        """Bindings in any order."""
        found = tuple(sorted(acls))
        literal: dict[str, list[AclBinding]] = {}
        prefixed: dict[str, list[AclBinding]] = {}
        for acl in found:
            named = literal if acl.pattern == PatternType.LITERAL else prefixed
            named.setdefault(acl.name, []).append(acl)
        return cls(
            all=found,
            literal=literal,
            prefixed=prefixed,
            prefix_lengths=tuple(sorted({len(name) for name in prefixed})),
        )

    def named(self, name: str) -> Iterator[AclBinding]:
        """Those whose own name it is."""
        yield from self.literal.get(name, ())
        yield from self.prefixed.get(name, ())

    def covering(self, name: str) -> Iterator[AclBinding]:
        """Those that ``AclBinding.covers`` it."""
        yield from self.literal.get(name, ())
        if name != WILDCARD:
            yield from self.literal.get(WILDCARD, ())
        for length in self.prefix_lengths:
            if length > len(name):
                break
            yield from self.prefixed.get(name[:length], ())


class Acls(msgspec.Struct, frozen=True, kw_only=True):
    """Every binding of the cluster, by resource type. Never changed in place."""

    by_type: Mapping[int, _OfOneType] = {}

    def all(self) -> list[AclBinding]:
        """Every binding, in an order of its own."""
        return [acl for kind in sorted(self.by_type) for acl in self.by_type[kind].all]

    @property
    def count(self) -> int:
        """How many bindings there are."""
        return sum(len(of_type.all) for of_type in self.by_type.values())

    def about(self, resource_type: int) -> tuple[AclBinding, ...]:
        """The bindings of one type of resource."""
        return self._of(resource_type).all

    def covering(self, resource_type: int, name: str) -> Iterator[AclBinding]:
        """The bindings for the resource of that type and name."""
        return self._of(resource_type).covering(name)

    def found(self, wanted: AclFilter) -> list[AclBinding]:
        """The bindings that a filter takes, in their order."""
        name = wanted.name
        if name is None:
            return [acl for acl in self.all() if wanted.takes(acl)]
        is_match = wanted.pattern == PatternType.MATCH
        return sorted(
            acl
            for of_type in self.by_type.values()
            for acl in (of_type.covering(name) if is_match else of_type.named(name))
            if wanted.takes(acl)
        )

    def plus(self, acls: Iterable[AclBinding]) -> Acls:
        """With those bindings too; this very set where it has them all."""
        here = {kind: set(of_type.all) for kind, of_type in self.by_type.items()}
        new: dict[int, list[AclBinding]] = {}
        for acl in dict.fromkeys(acls):
            if acl not in here.get(acl.resource_type, ()):
                new.setdefault(acl.resource_type, []).append(acl)
        return self._with({kind: [*self.about(kind), *found] for kind, found in new.items()})

    def minus(self, acls: Iterable[AclBinding]) -> Acls:
        """Without those bindings; this very set where it has none of them."""
        gone: dict[int, set[AclBinding]] = {}
        for acl in acls:
            gone.setdefault(acl.resource_type, set()).add(acl)
        left = {
            kind: [acl for acl in self.about(kind) if acl not in found]
            for kind, found in gone.items()
        }
        return self._with(
            {kind: found for kind, found in left.items() if len(found) < len(self.about(kind))}
        )

    def _of(self, resource_type: int) -> _OfOneType:
        return self.by_type.get(resource_type, _NONE_OF_TYPE)

    def _with(self, changed: Mapping[int, list[AclBinding]]) -> Acls:
        """With other bindings of some types; this very set where there are no such types."""
        if not changed:
            return self
        made = {kind: _OfOneType.of(acls) for kind, acls in changed.items()}
        return Acls(by_type={**self.by_type, **made})


_NONE_OF_TYPE: Final = _OfOneType()
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


def _knows(kind: type[IntEnum], value: int) -> bool:
    return value in _VALUES[kind]


def _name(kind: type[IntEnum], value: int) -> str:
    return kind(value).name if _knows(kind, value) else "UNKNOWN"


def _invalid(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.invalid_request, reason=reason)
