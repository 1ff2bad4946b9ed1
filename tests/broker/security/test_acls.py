"""ACL bindings: what they cover, which filters take them, which can't be created."""

from __future__ import annotations

import time  # noqa: TID251 - measures CPU time
from typing import Any

import msgspec
import pytest

from tests.support.security import acl
from txnsim.errors import ErrorCode
from txnsim.security.acls import (
    NO_ACLS,
    AclBinding,
    AclFilter,
    Acls,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    bit_of,
    creation_complaint,
    is_for_filters,
)

ORDERS = acl(ResourceType.TOPIC, "orders", Operation.READ)
ALL_TOPICS = acl(ResourceType.TOPIC, "*", Operation.DESCRIBE, principal="User:*")
SHOP = acl(
    ResourceType.TOPIC,
    "ord",
    Operation.WRITE,
    pattern=PatternType.PREFIXED,
    permission=Permission.DENY,
    host="10.0.0.1",
)
GROUP = acl(ResourceType.GROUP, "orders", Operation.READ)
EVERY = NO_ACLS.plus([ORDERS, ALL_TOPICS, SHOP, GROUP])


def test_a_set_has_each_binding_once_and_tells_when_nothing_changes() -> None:
    assert len(list(EVERY.all())) == 4
    assert EVERY.plus([ORDERS]) is EVERY
    assert list(NO_ACLS.plus([ORDERS, ORDERS]).all()) == [ORDERS]
    assert (NO_ACLS.count, EVERY.count) == (0, 4)
    assert sorted(EVERY.minus([ORDERS]).all()) == sorted([ALL_TOPICS, SHOP, GROUP])
    assert EVERY.minus(EVERY.all()) == NO_ACLS
    assert NO_ACLS.minus([ORDERS]) is NO_ACLS


@pytest.mark.parametrize(
    ("criteria", "found"),
    [
        ({}, [ORDERS, ALL_TOPICS, SHOP, GROUP]),
        ({"resource_type": ResourceType.GROUP}, [GROUP]),
        ({"name": "orders"}, [ORDERS, GROUP]),
        ({"name": "orders", "pattern": PatternType.PREFIXED}, []),
        ({"name": "orders", "pattern": PatternType.MATCH}, [ORDERS, ALL_TOPICS, SHOP, GROUP]),
        ({"name": "other", "pattern": PatternType.MATCH}, [ALL_TOPICS]),
        ({"pattern": PatternType.PREFIXED}, [SHOP]),
        ({"principal": "User:*"}, [ALL_TOPICS]),
        ({"host": "10.0.0.1"}, [SHOP]),
        ({"operation": Operation.READ}, [ORDERS, GROUP]),
        ({"permission": Permission.DENY}, [SHOP]),
    ],
)
def test_a_filter_takes_what_it_names(criteria: dict[str, Any], found: list[object]) -> None:
    assert sorted(_taken(EVERY, AclFilter(**criteria))) == sorted(found)  # type: ignore[type-var]


NAMES = ("", "*", "o", "or", "ord", "orders", "orders-1", "p")
SOME = [
    acl(kind, name, Operation.READ, pattern=pattern)
    for kind in (ResourceType.TOPIC, ResourceType.GROUP)
    for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
    for name in NAMES[1:]
]


@pytest.mark.parametrize("name", NAMES)
def test_what_covers_a_name_and_what_a_filter_takes_is_found_by_name(name: str) -> None:
    acls = NO_ACLS.plus(SOME)
    topic = ResourceType.TOPIC
    is_covered = any(one.resource_type == topic and one.covers(name) for one in SOME)
    allowed = bit_of(Operation.READ, Permission.ALLOW) if is_covered else None
    assert acls.bits_for(topic, name, SOME[0].principal, "10.0.0.1") == allowed
    assert acls.bits_for(topic, name, "User:somebody-else", "10.0.0.1") == (
        0 if is_covered else None
    )
    for pattern in (PatternType.ANY, PatternType.MATCH, *PatternType):
        for kind in (ResourceType.ANY, topic):
            wanted = AclFilter(resource_type=kind, name=name, pattern=pattern)
            assert sorted(_taken(acls, wanted)) == sorted(filter(wanted.takes, acls.all()))


def test_what_is_said_of_somebody_is_of_the_resources_of_one_type() -> None:
    literal, prefixed = int(PatternType.LITERAL), int(PatternType.PREFIXED)
    found = EVERY.bits_by_resource(ResourceType.TOPIC, ORDERS.principal, "10.0.0.1")
    assert sorted(found) == [
        (literal, "*", bit_of(Operation.DESCRIBE, Permission.ALLOW)),
        (literal, "orders", bit_of(Operation.READ, Permission.ALLOW)),
        (prefixed, "ord", bit_of(Operation.WRITE, Permission.DENY)),
    ]
    found = EVERY.bits_by_resource(ResourceType.GROUP, "User:somebody-else", "10.0.0.1")
    assert list(found) == [(literal, "orders", 0)]


def _taken(acls: Acls, wanted: AclFilter) -> list[AclBinding]:
    return [acl for acl in acls.found(wanted) if wanted.takes(acl)]


def test_many_bindings_take_no_time_squared() -> None:
    many = [acl(ResourceType.TOPIC, f"topic-{number}", Operation.READ) for number in range(20_000)]
    begun_s = time.process_time()
    acls = NO_ACLS.plus(many[:10_000]).plus(many)
    for one in many:
        assert _taken(acls, AclFilter(name=one.name)) == [one]
        assert acls.bits_for(ResourceType.TOPIC, one.name, one.principal, one.host)
    assert acls.minus(many) == NO_ACLS.plus([ORDERS]).minus([ORDERS])
    assert time.process_time() - begun_s < 5


@pytest.mark.parametrize("field", ["resource_type", "pattern", "operation", "permission"])
def test_a_filter_of_an_unknown_kind_is_refused(field: str) -> None:
    values: dict[str, Any] = {field: 99}
    complaint = AclFilter(**values).complaint()
    assert complaint is not None
    assert complaint.error is ErrorCode.invalid_request


def test_a_filter_for_everything_is_fine() -> None:
    assert AclFilter().complaint() is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"resource_type": ResourceType.CLUSTER}, "The only valid name for the CLUSTER resource"),
        ({"name": ""}, "Invalid empty resource name"),
        ({"resource_type": ResourceType.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"pattern": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"operation": Operation.ANY}, "Invalid operation ANY"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        ({"permission": Permission.ANY}, "Invalid permissionType ANY"),
        ({"principal": "alice"}, "Could not parse principal from `alice`"),
    ],
)
def test_a_binding_that_says_nothing_is_refused(changes: dict[str, Any], reason: str) -> None:
    complaint = creation_complaint(msgspec.structs.replace(ORDERS, **changes))
    assert complaint is not None
    assert reason in complaint.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"resource_type": ResourceType.ANY},
        {"pattern": PatternType.ANY},
        {"pattern": PatternType.MATCH},
        {"operation": Operation.ANY},
        {"permission": Permission.ANY},
    ],
)
def test_some_kinds_are_for_filters_only(changes: dict[str, Any]) -> None:
    assert is_for_filters(msgspec.structs.replace(ORDERS, **changes))
    assert not is_for_filters(ORDERS)


def test_a_whole_binding_is_fine() -> None:
    assert creation_complaint(ORDERS) is None
    cluster = acl(ResourceType.CLUSTER, "kafka-cluster", Operation.ALTER)
    assert creation_complaint(cluster) is None
