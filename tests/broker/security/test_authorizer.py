"""ACLs and principals: what they cover, and who is who."""

from __future__ import annotations

import time  # noqa: TID251 - measures CPU time
from typing import Any

import msgspec
import pytest

from tests.support.security import acl
from txnsim.errors import ConfigError, ErrorCode
from txnsim.security.acls import (
    NO_ACLS,
    AclBinding,
    AclFilter,
    AclOperation,
    Acls,
    PatternType,
    Permission,
    ResourceType,
    bit_of,
    creation_complaint,
    has_filter_only_value,
)
from txnsim.security.authorizer import Authorizer
from txnsim.security.principal_mapping import PrincipalMapping
from txnsim.security.principals import distinguished_name, parse_principals, user

# ACL bindings: what they cover, which filters take them, which can't be created.


ORDERS = acl(ResourceType.TOPIC, "orders", AclOperation.READ)
ALL_TOPICS = acl(ResourceType.TOPIC, "*", AclOperation.DESCRIBE, principal="User:*")
SHOP = acl(
    ResourceType.TOPIC,
    "ord",
    AclOperation.WRITE,
    pattern=PatternType.PREFIXED,
    permission=Permission.DENY,
    host="10.0.0.1",
)
GROUP = acl(ResourceType.GROUP, "orders", AclOperation.READ)
EVERY = NO_ACLS.plus([ORDERS, ALL_TOPICS, SHOP, GROUP])


def test_a_set_has_each_binding_once_and_tells_when_nothing_changes() -> None:
    assert len(list(EVERY.all_bindings())) == 4
    assert EVERY.plus([ORDERS]) is EVERY
    assert list(NO_ACLS.plus([ORDERS, ORDERS]).all_bindings()) == [ORDERS]
    assert (NO_ACLS.count, EVERY.count) == (0, 4)
    assert sorted(EVERY.minus([ORDERS]).all_bindings()) == sorted([ALL_TOPICS, SHOP, GROUP])
    assert EVERY.minus(EVERY.all_bindings()) == NO_ACLS
    assert NO_ACLS.minus([ORDERS]) is NO_ACLS


@pytest.mark.parametrize(
    ("criteria", "expected"),
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
        ({"operation": AclOperation.READ}, [ORDERS, GROUP]),
        ({"permission": Permission.DENY}, [SHOP]),
    ],
)
def test_a_filter_takes_what_it_names(criteria: dict[str, Any], expected: list[object]) -> None:
    assert sorted(_matching_acls(EVERY, AclFilter(**criteria))) == sorted(expected)  # type: ignore[type-var]


RESOURCE_NAMES = ("", "*", "o", "or", "ord", "orders", "orders-1", "p")
SOME = [
    acl(resource_type, name, AclOperation.READ, pattern=pattern)
    for resource_type in (ResourceType.TOPIC, ResourceType.GROUP)
    for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
    for name in RESOURCE_NAMES[1:]
]


@pytest.mark.parametrize("resource_name", RESOURCE_NAMES)
def test_what_covers_a_name_and_what_a_filter_takes_is_found_by_name(resource_name: str) -> None:
    acls = NO_ACLS.plus(SOME)
    topic = ResourceType.TOPIC
    is_covered = any(
        binding.resource_type == topic and binding.covers(resource_name) for binding in SOME
    )
    allowed = bit_of(AclOperation.READ, Permission.ALLOW) if is_covered else None
    assert acls.bits_for(topic, resource_name, SOME[0].principal, "10.0.0.1") == allowed
    assert acls.bits_for(topic, resource_name, "User:somebody-else", "10.0.0.1") == (
        0 if is_covered else None
    )
    for pattern in (PatternType.ANY, PatternType.MATCH, *PatternType):
        for resource_type in (ResourceType.ANY, topic):
            acl_filter = AclFilter(resource_type=resource_type, name=resource_name, pattern=pattern)
            assert sorted(_matching_acls(acls, acl_filter)) == sorted(
                filter(acl_filter.takes, acls.all_bindings())
            )


def test_what_is_said_of_somebody_is_of_the_resources_of_one_type() -> None:
    literal, prefixed = int(PatternType.LITERAL), int(PatternType.PREFIXED)
    bits_of_user = EVERY.bits_by_resource(ResourceType.TOPIC, ORDERS.principal, "10.0.0.1")
    assert sorted(bits_of_user) == [
        (literal, "*", bit_of(AclOperation.DESCRIBE, Permission.ALLOW)),
        (literal, "orders", bit_of(AclOperation.READ, Permission.ALLOW)),
        (prefixed, "ord", bit_of(AclOperation.WRITE, Permission.DENY)),
    ]
    bits_of_stranger = EVERY.bits_by_resource(ResourceType.GROUP, "User:somebody-else", "10.0.0.1")
    assert list(bits_of_stranger) == [(literal, "orders", 0)]


def _matching_acls(acls: Acls, acl_filter: AclFilter) -> list[AclBinding]:
    return [acl for acl in acls.candidates(acl_filter) if acl_filter.takes(acl)]


def test_many_bindings_take_no_time_squared() -> None:
    many_acls = [
        acl(ResourceType.TOPIC, f"topic-{topic_number}", AclOperation.READ)
        for topic_number in range(20_000)
    ]
    begun_s = time.process_time()
    acls = NO_ACLS.plus(many_acls[:10_000]).plus(many_acls)
    for binding in many_acls:
        assert _matching_acls(acls, AclFilter(name=binding.name)) == [binding]
        assert acls.bits_for(ResourceType.TOPIC, binding.name, binding.principal, binding.host)
    assert acls.minus(many_acls) == NO_ACLS.plus([ORDERS]).minus([ORDERS])
    assert time.process_time() - begun_s < 5


@pytest.mark.parametrize("field_name", ["resource_type", "pattern", "operation", "permission"])
def test_a_filter_of_an_unknown_kind_is_refused(field_name: str) -> None:
    values: dict[str, Any] = {field_name: 99}
    rejection = AclFilter(**values).complaint()
    assert rejection is not None
    assert rejection.error is ErrorCode.invalid_request


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
        ({"operation": AclOperation.ANY}, "Invalid operation ANY"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        ({"permission": Permission.ANY}, "Invalid permissionType ANY"),
        ({"principal": "alice"}, "Could not parse principal from `alice`"),
    ],
)
def test_a_binding_that_says_nothing_is_refused(changes: dict[str, Any], reason: str) -> None:
    rejection = creation_complaint(msgspec.structs.replace(ORDERS, **changes))
    assert rejection is not None
    assert reason in rejection.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"resource_type": ResourceType.ANY},
        {"pattern": PatternType.ANY},
        {"pattern": PatternType.MATCH},
        {"operation": AclOperation.ANY},
        {"permission": Permission.ANY},
    ],
)
def test_some_kinds_are_for_filters_only(changes: dict[str, Any]) -> None:
    assert has_filter_only_value(msgspec.structs.replace(ORDERS, **changes))
    assert not has_filter_only_value(ORDERS)


def test_a_whole_binding_is_fine() -> None:
    assert creation_complaint(ORDERS) is None
    cluster = acl(ResourceType.CLUSTER, "kafka-cluster", AclOperation.ALTER)
    assert creation_complaint(cluster) is None


# Who may do what, as StandardAuthorizer decides.


TOPIC, READ, WRITE = ResourceType.TOPIC, AclOperation.READ, AclOperation.WRITE
DENY: dict[str, Any] = {"permission": Permission.DENY}
PREFIX: dict[str, Any] = {"pattern": PatternType.PREFIXED}


def allows(
    *acls: AclBinding, operation: AclOperation = READ, resource_name: str = "orders", **options: Any
) -> bool:
    return Authorizer(**options).allows(
        NO_ACLS.plus(acls),
        principal="User:alice",
        host="10.0.0.1",
        operation=operation,
        resource_type=TOPIC,
        resource_name=resource_name,
    )


@pytest.mark.parametrize(
    ("acls", "is_expected"),
    [
        ([], False),
        ([acl(TOPIC, "orders", READ)], True),
        ([acl(TOPIC, "orders", AclOperation.ALL)], True),
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
        ([acl(TOPIC, "orders", READ), acl(TOPIC, "o", AclOperation.ALL, **DENY, **PREFIX)], False),
        ([acl(TOPIC, "orders", READ), acl(TOPIC, "orders", WRITE, **DENY)], True),
    ],
)
def test_a_deny_beats_an_allow_and_both_have_to_match(
    acls: list[AclBinding], *, is_expected: bool
) -> None:
    assert allows(*acls) is is_expected


@pytest.mark.parametrize(
    ("granted_operation", "operation", "is_expected"),
    [
        (READ, AclOperation.DESCRIBE, True),
        (WRITE, AclOperation.DESCRIBE, True),
        (AclOperation.DELETE, AclOperation.DESCRIBE, True),
        (AclOperation.ALTER, AclOperation.DESCRIBE, True),
        (AclOperation.CREATE, AclOperation.DESCRIBE, False),
        (AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS, True),
        (AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS, False),
        (AclOperation.DESCRIBE, READ, False),
    ],
)
def test_some_operations_imply_others(
    granted_operation: AclOperation, operation: AclOperation, *, is_expected: bool
) -> None:
    assert allows(acl(TOPIC, "orders", granted_operation), operation=operation) is is_expected


def test_a_denied_operation_implies_nothing() -> None:
    acls = (acl(TOPIC, "orders", AclOperation.DESCRIBE), acl(TOPIC, "orders", READ, **DENY))
    assert allows(*acls, operation=AclOperation.DESCRIBE)


def test_a_super_user_is_not_denied() -> None:
    denied_binding = acl(TOPIC, "orders", READ, **DENY)
    assert allows(denied_binding, super_users=frozenset({"User:alice"}))


def test_without_any_acl_of_the_resource_a_setting_decides() -> None:
    binding_of_bob = acl(TOPIC, "orders", READ, principal="User:bob")
    assert allows(allow_everyone_if_no_acl_found=True)
    assert not allows(binding_of_bob, allow_everyone_if_no_acl_found=True)


@pytest.mark.parametrize(
    ("acls", "is_expected"),
    [
        ([], False),
        ([acl(TOPIC, "orders", WRITE), acl(TOPIC, "hardcode", READ)], True),
        ([acl(TOPIC, "*", WRITE), acl(TOPIC, "hardcode", WRITE, **DENY)], True),
        ([acl(TOPIC, "orders", WRITE)], True),
        ([acl(TOPIC, "*", AclOperation.ALL)], True),
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
def test_any_resource_of_a_type_will_do(acls: list[AclBinding], *, is_expected: bool) -> None:
    assert (
        Authorizer().allows_any(
            NO_ACLS.plus(acls),
            principal="User:alice",
            host="10.0.0.1",
            operation=WRITE,
            resource_type=TOPIC,
        )
        is is_expected
    )


# The cases of Kafka's SslPrincipalMapper: which rule makes which name.


RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_fits_makes_the_name(subject: str, name: str) -> None:
    assert PrincipalMapping(RULES).name(subject) == name


@pytest.mark.parametrize(
    ("rules_text", "name"),
    [
        ("DEFAULT", "CN=Duke,O=x"),
        ("", None),
        (" , ,", None),
        ("RULE:^CN=Ann.*$/ann/", None),
        ("RULE:^CN=(.*?),O=(.*?)$/$2:$1:$0/", "x:Duke:CN=Duke,O=x"),
        ("RULE:^CN=(.*?),O=(.*?)$/$1$4$12/", "Duke$4Duke2"),
        ("RULE:^CN=(?<who>.*?),.*$/${who}/", "Duke"),
        ("RULE:(C)(N)(=)(D)(u)(k)(e)(,)(O)(=)(x)/$11$10$12/", "x=C2"),
        (r"RULE:^CN=(.*?),.*$/\$1\/$1/U", r"$1/DUKE"),
        ("RULE:^CN=(Duke|(Ann)),.*$/$1-$2/", "Duke-"),
        ("RULE:^CN=(?<who>Ann)?.*$/a${who}/", "a"),
        ("RULE:.*/user/", "useruser"),  # String.replaceAll meets the empty end as well
        # A replacement that Java fails at: nobody is let in.
        ("RULE:^.*$/$1/", None),
        ("RULE:^.*$/$/", None),
        ("RULE:^.*$/${who}/", None),
    ],
)
def test_what_a_replacement_says(rules_text: str, name: str | None) -> None:
    assert PrincipalMapping(rules_text).name("CN=Duke,O=x") == name


@pytest.mark.parametrize(
    ("rules_text", "expected_reason"),
    [
        ("NONSENSE", "is no rule"),
        ("DEFAULTS", "is no rule"),
        ("RULE:^CN=(.*?),OU=(.*)$/$1/X", "is no rule"),
        ("RULE:^CN=(.*?)$/$1", "is no rule"),
        ("RULE:(/x/", "is no regular expression"),
    ],
)
def test_what_is_no_rule_is_refused(rules_text: str, expected_reason: str) -> None:
    with pytest.raises(ValueError, match=expected_reason):
        PrincipalMapping(rules_text)


# Principals, and the names that certificates have.


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ([[("organizationName", "Shop")], [("commonName", "alice")]], "CN=alice,O=Shop"),
        ([[("commonName", "a"), ("userId", "7")]], "CN=a+UID=7"),
        ([[("commonName", 'a,b+c"d\\e<f>g;h')]], 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h'),
        ([[("commonName", " a ")]], "CN=\\ a\\ "),
        ([[("commonName", "#a")]], "CN=\\#a"),
        ([[("emailAddress", "a@b")]], "emailAddress=a@b"),
        ([], ""),
    ],
)
def test_a_distinguished_name_is_written_as_java_does(subject: list[object], name: str) -> None:
    assert distinguished_name(subject) == name  # type: ignore[arg-type]


def test_super_users_are_separated_by_semicolons() -> None:
    assert parse_principals("User:a; User:CN=b,O=c ;") == {"User:a", "User:CN=b,O=c"}
    with pytest.raises(ConfigError, match="'a': expected TYPE:NAME"):
        parse_principals("a")


def test_a_user_is_a_principal() -> None:
    assert user("alice") == "User:alice"
