"""The section ``security`` of our YAML, turned into the options of a cluster.

It uses the same model as the properties of a broker (``_broker_security``). It adds SCRAM users and
ACLs, which in Kafka are in the cluster's metadata.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.errors import ConfigError
from txnsim.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from txnsim.security.options import (
    ClientAuth,
    SecureListener,
    SecurityOptions,
    SecurityProtocol,
    TlsFiles,
    check_security,
)
from txnsim.security.sasl import BearerRules

if TYPE_CHECKING:
    from txnsim.config._model import AclSection, ListenerSection, SecuritySection, TlsSection

_RESOURCE_TYPE_BY_FIELD: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}


def read_section(section: SecuritySection, *, directory: Path) -> SecurityOptions:
    """The options that the section describes.

    Raises:
        ConfigError: They contradict each other.
    """
    if section.acls and not section.authorizer:
        raise ConfigError("acls decide nothing without authorizer: true")
    token_section = section.unsecured_tokens
    bearer_rules = BearerRules(
        principal_claim=token_section.principal_claim,
        scope_claim=token_section.scope_claim,
        required_scope=tuple(token_section.required_scope),
        clock_skew_ms=token_section.clock_skew_ms,
    )
    security_options = SecurityOptions(
        listeners=tuple(
            _secure_listener(name.upper(), listener, bearer_rules)
            for name, listener in section.listeners.items()
        ),
        has_plain_listener=section.plain_listener,
        tls=None if section.tls is None else _tls_settings(section.tls, directory),
        principal_mapping_rules=section.principal_mapping_rules,
        plain_users=section.plain_users,
        scram_users=section.scram_users,
        max_reauth_ms=section.max_reauth_ms,
        failure_delay_ms=section.failure_delay_ms,
        has_authorizer=section.authorizer,
        super_users=frozenset(section.super_users),
        allow_everyone_if_no_acl_found=section.allow_everyone_if_no_acl_found,
        acls=tuple(_acl_binding(acl) for acl in section.acls),
    )
    check_security(security_options)
    return security_options


def _secure_listener(
    listener_name: str, listener_section: ListenerSection, bearer: BearerRules
) -> SecureListener:
    protocol = listener_section.protocol or listener_name
    if protocol not in SecurityProtocol.__members__:
        raise ConfigError(
            f"listener {listener_name}: its name is no protocol; say protocol: SASL_SSL"
        )
    return SecureListener(
        name=listener_name,
        protocol=SecurityProtocol[protocol],
        host=listener_section.host,
        advertised_host=listener_section.advertised_host,
        port=listener_section.port,
        mechanisms=tuple(listener_section.mechanisms),
        client_auth=ClientAuth(listener_section.client_auth),
        bearer=bearer,
    )


def _tls_settings(section: TlsSection, directory: Path) -> TlsFiles:
    authority = section.authority
    return TlsFiles(
        certificate=str(directory / section.certificate),
        key=str(directory / section.key),
        key_password=section.key_password,
        authority=None if authority is None else str(directory / authority),
    )


def _acl_binding(section: AclSection) -> AclBinding:
    resource_fields = [
        (resource_type, resource_name)
        for field, resource_type in _RESOURCE_TYPE_BY_FIELD.items()
        if (resource_name := getattr(section, field)) is not None
    ]
    if section.cluster is not None:
        resource_fields.append((ResourceType.CLUSTER, CLUSTER_NAME))
    if len(resource_fields) != 1:
        raise ConfigError(
            f"acls: the rule of {section.principal} names {len(resource_fields)} resources; one of "
            f"{', '.join(_RESOURCE_TYPE_BY_FIELD)}, cluster is expected"
        )
    ((resource_type, resource_name),) = resource_fields
    return AclBinding(
        resource_type=resource_type,
        name=resource_name,
        pattern=PatternType.PREFIXED if section.prefixed else PatternType.LITERAL,
        principal=section.principal,
        host=section.host,
        operation=AclOperation[section.operation],
        permission=Permission[section.permission],
    )
