"""Who may do what, as StandardAuthorizer decides."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.security import acl
from txnsim.security.acls import (
    NO_ACLS,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from txnsim.security.authorizer import Authorizer

TOPIC, READ, WRITE = ResourceType.TOPIC, Operation.READ, Operation.WRITE
DENY: dict[str, Any] = {"permission": Permission.DENY}
PREFIX: dict[str, Any] = {"pattern": PatternType.PREFIXED}


def allows(
    *acls: AclBinding, operation: Operation = READ, name: str = "orders", **options: Any
) -> bool:
    return Authorizer(**options).allows(
        NO_ACLS.plus(acls),
        principal="User:alice",
        host="10.0.0.1",
        operation=operation,
        resource_type=TOPIC,
        name=name,
    )


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl(TOPIC, "orders", READ)], True),
        ([acl(TOPIC, "orders", Operation.ALL)], True),
        ([acl(TOPIC, "*", READ)], True),
        ([acl(TOPIC, "ord", READ, **PREFIX)], True),
        ([acl(TOPIC, "ord", READ)], False),
        ([acl(TOPIC, "other", READ)], False),
        ([acl(TOPIC, "orders", WRITE)], False),
        ([acl(ResourceType.GROUP, "orders", READ)], False),
        ([acl(TOPIC, "orders", READ, principal="User:*")], True),
        ([acl(TOPIC, "orders", READ, principal="User:bob")], False),
        ([acl(TOPIC, "orders", READ, host="10.0.0.1")], True),
        ([acl(TOPIC, "orders", READ, host="10.0.0.2")], False),
        ([acl(TOPIC, "orders", READ), acl(TOPIC, "*", READ, **DENY)], False),
        ([acl(TOPIC, "orders", READ), acl(TOPIC, "o", Operation.ALL, **DENY, **PREFIX)], False),
        ([acl(TOPIC, "orders", READ), acl(TOPIC, "orders", WRITE, **DENY)], True),
    ],
)
def test_a_deny_beats_an_allow_and_both_have_to_match(
    acls: list[AclBinding], *, expected: bool
) -> None:
    assert allows(*acls) is expected


@pytest.mark.parametrize(
    ("granted", "asked", "expected"),
    [
        (READ, Operation.DESCRIBE, True),
        (WRITE, Operation.DESCRIBE, True),
        (Operation.DELETE, Operation.DESCRIBE, True),
        (Operation.ALTER, Operation.DESCRIBE, True),
        (Operation.CREATE, Operation.DESCRIBE, False),
        (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS, True),
        (Operation.ALTER, Operation.DESCRIBE_CONFIGS, False),
        (Operation.DESCRIBE, READ, False),
    ],
)
def test_some_operations_imply_others(
    granted: Operation, asked: Operation, *, expected: bool
) -> None:
    assert allows(acl(TOPIC, "orders", granted), operation=asked) is expected


def test_a_denied_operation_implies_nothing() -> None:
    acls = (acl(TOPIC, "orders", Operation.DESCRIBE), acl(TOPIC, "orders", READ, **DENY))
    assert allows(*acls, operation=Operation.DESCRIBE)


def test_a_super_user_is_not_denied() -> None:
    denied = acl(TOPIC, "orders", READ, **DENY)
    assert allows(denied, super_users=frozenset({"User:alice"}))


def test_without_any_acl_of_the_resource_a_setting_decides() -> None:
    others = acl(TOPIC, "orders", READ, principal="User:bob")
    assert allows(allow_everyone_if_no_acl_found=True)
    assert not allows(others, allow_everyone_if_no_acl_found=True)


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl(TOPIC, "orders", WRITE), acl(TOPIC, "hardcode", READ)], True),
        ([acl(TOPIC, "*", WRITE), acl(TOPIC, "hardcode", WRITE, **DENY)], True),
        ([acl(TOPIC, "orders", WRITE)], True),
        ([acl(TOPIC, "*", Operation.ALL)], True),
        ([acl(TOPIC, "ord", WRITE, **PREFIX)], True),
        ([acl(TOPIC, "orders", READ)], False),
        ([acl(TOPIC, "orders", WRITE, principal="User:bob")], False),
        ([acl(TOPIC, "orders", WRITE), acl(TOPIC, "*", WRITE, **DENY)], False),
        ([acl(ResourceType.GROUP, "orders", WRITE)], False),
        ([acl(TOPIC, "*", WRITE), acl(TOPIC, "orders", WRITE, **DENY)], True),
        ([acl(TOPIC, "orders", WRITE), acl(TOPIC, "orders", WRITE, **DENY)], False),
        ([acl(TOPIC, "orders", WRITE), acl(TOPIC, "o", WRITE, **DENY, **PREFIX)], False),
        ([acl(TOPIC, "or", WRITE, **PREFIX), acl(TOPIC, "o", WRITE, **DENY, **PREFIX)], False),
        ([acl(TOPIC, "or", WRITE, **PREFIX), acl(TOPIC, "ord", WRITE, **DENY, **PREFIX)], True),
    ],
)
def test_any_resource_of_a_type_will_do(acls: list[AclBinding], *, expected: bool) -> None:
    assert (
        Authorizer().allows_any(
            NO_ACLS.plus(acls),
            principal="User:alice",
            host="10.0.0.1",
            operation=WRITE,
            resource_type=TOPIC,
        )
        is expected
    )
