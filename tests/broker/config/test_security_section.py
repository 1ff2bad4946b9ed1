"""The section ``security`` of our YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.security import acl
from txnsim.config._model import SecuritySection
from txnsim.config._security_section import read_section
from txnsim.config.yaml_bounds import read_mapping
from txnsim.errors import ConfigError
from txnsim.security.acls import CLUSTER_NAME, AclOperation, PatternType, Permission, ResourceType
from txnsim.security.options import (
    ClientAuth,
    SecureListener,
    SecurityOptions,
    SecurityProtocol,
    TlsFiles,
)
from txnsim.security.sasl import BearerRules

EVERYTHING = """
listeners:
  SASL_SSL: {port: 9392, mechanisms: [PLAIN], host: 0.0.0.0, advertised_host: kafka.test}
  outside: {protocol: SSL, client_auth: required}
plain_listener: false
tls: {certificate: broker.pem, key: /keys/broker.key, key_password: x, authority: ca.pem}
principal_mapping_rules: RULE:^CN=(.*?),.*$/$1/,DEFAULT
plain_users: {alice: a}
scram_users: {bob: b}
unsecured_tokens: {principal_claim: name, required_scope: [read], clock_skew_ms: 5}
max_reauth_ms: 1000
failure_delay_ms: 0
authorizer: true
super_users: [User:admin]
allow_everyone_if_no_acl_found: true
acls:
  - {principal: User:alice, operation: READ, topic: orders}
  - {principal: User:*, operation: ALL, group: pay, prefixed: true, permission: DENY, host: "::1"}
  - {principal: User:bob, operation: WRITE, transactional_id: "*"}
  - {principal: User:bob, operation: IDEMPOTENT_WRITE, cluster: true}
"""


def read_options(text: str) -> SecurityOptions:
    content, _ = read_mapping(text.encode(), file="f")
    return read_section(SecuritySection.model_validate(content), directory=Path("/etc"))


def test_nothing_said_is_no_security() -> None:
    assert read_options("") == SecurityOptions()


def test_all_that_there_is() -> None:
    options = read_options(EVERYTHING)
    bearer = BearerRules(principal_claim="name", required_scope=("read",), clock_skew_ms=5)
    assert options == SecurityOptions(
        listeners=(
            SecureListener(
                name="SASL_SSL",
                protocol=SecurityProtocol.SASL_SSL,
                port=9392,
                host="0.0.0.0",
                advertised_host="kafka.test",
                mechanisms=("PLAIN",),
                bearer=bearer,
            ),
            SecureListener(
                name="OUTSIDE",
                protocol=SecurityProtocol.SSL,
                client_auth=ClientAuth.REQUIRED,
                bearer=bearer,
            ),
        ),
        has_plain_listener=False,
        tls=TlsFiles(
            certificate="/etc/broker.pem",
            key="/keys/broker.key",
            key_password="x",
            authority="/etc/ca.pem",
        ),
        principal_mapping_rules="RULE:^CN=(.*?),.*$/$1/,DEFAULT",
        plain_users={"alice": "a"},
        scram_users={"bob": "b"},
        max_reauth_ms=1_000,
        failure_delay_ms=0,
        has_authorizer=True,
        super_users=frozenset({"User:admin"}),
        allow_everyone_if_no_acl_found=True,
        acls=(
            acl(ResourceType.TOPIC, "orders", AclOperation.READ),
            acl(
                ResourceType.GROUP,
                "pay",
                AclOperation.ALL,
                principal="User:*",
                pattern=PatternType.PREFIXED,
                permission=Permission.DENY,
                host="::1",
            ),
            acl(ResourceType.TRANSACTIONAL_ID, "*", AclOperation.WRITE, principal="User:bob"),
            acl(
                ResourceType.CLUSTER,
                CLUSTER_NAME,
                AclOperation.IDEMPOTENT_WRITE,
                principal="User:bob",
            ),
        ),
    )


def test_certificates_of_clients_need_no_authority_where_none_are_asked_for() -> None:
    options = read_options("{listeners: {SSL: {}}, tls: {certificate: a, key: b}}")
    assert options.tls == TlsFiles(certificate="/etc/a", key="/etc/b")


@pytest.mark.parametrize(
    ("text", "expected_reason"),
    [
        ("listeners: {OUTSIDE: {}}", "its name is no protocol"),
        ("listeners: {SSL: {}}", "needs TLS files"),
        ("acls: [{principal: User:a, operation: READ, topic: t}]", "without authorizer: true"),
        ("{authorizer: true, acls: [{principal: User:a, operation: READ}]}", "names 0 resources"),
        (
            "{authorizer: true, acls: [{principal: User:a, operation: READ, topic: t, group: g}]}",
            "names 2 resources",
        ),
        ("plain_listener: false", "there is no listener"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, expected_reason: str) -> None:
    with pytest.raises(ConfigError, match=expected_reason):
        read_options(text)
