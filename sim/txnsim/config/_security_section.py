"""The section ``security`` of our YAML, turned into the options of a cluster.

It uses the same model as the properties of a broker (``broker_security``). It adds SCRAM users and
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

_RESOURCES: Final = {
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
    tokens = section.unsecured_tokens
    bearer = BearerRules(
        principal_claim=tokens.principal_claim,
        scope_claim=tokens.scope_claim,
        required_scope=tuple(tokens.required_scope),
        clock_skew_ms=tokens.clock_skew_ms,
    )
    options = SecurityOptions(
        listeners=tuple(
            _listener(name.upper(), listener, bearer)
            for name, listener in section.listeners.items()
        ),
        has_plain_listener=section.plain_listener,
        tls=None if section.tls is None else _tls(section.tls, directory),
        principal_mapping_rules=section.principal_mapping_rules,
        plain_users=section.plain_users,
        scram_users=section.scram_users,
        max_reauth_ms=section.max_reauth_ms,
        failure_delay_ms=section.failure_delay_ms,
        has_authorizer=section.authorizer,
        super_users=frozenset(section.super_users),
        allow_everyone_if_no_acl_found=section.allow_everyone_if_no_acl_found,
        acls=tuple(_acl(acl) for acl in section.acls),
    )
    check_security(options)
    return options


def _listener(name: str, section: ListenerSection, bearer: BearerRules) -> SecureListener:
    protocol = section.protocol or name
    if protocol not in SecurityProtocol.__members__:
        raise ConfigError(f"listener {name}: its name is no protocol; say protocol: SASL_SSL")
    return SecureListener(
        name=name,
        protocol=SecurityProtocol[protocol],
        host=section.host,
        advertised_host=section.advertised_host,
        port=section.port,
        mechanisms=tuple(section.mechanisms),
        client_auth=ClientAuth(section.client_auth),
        bearer=bearer,
    )


def _tls(section: TlsSection, directory: Path) -> TlsFiles:
    authority = section.authority
    return TlsFiles(
        certificate=str(directory / section.certificate),
        key=str(directory / section.key),
        key_password=section.key_password,
        authority=None if authority is None else str(directory / authority),
    )


def _acl(section: AclSection) -> AclBinding:
    resources = [
        (kind, name)
        for field, kind in _RESOURCES.items()
        if (name := getattr(section, field)) is not None
    ]
    if section.cluster is not None:
        resources.append((ResourceType.CLUSTER, CLUSTER_NAME))
    if len(resources) != 1:
        raise ConfigError(
            f"acls: the rule of {section.principal} names {len(resources)} resources; one of "
            f"{', '.join(_RESOURCES)}, cluster is expected"
        )
    ((kind, name),) = resources
    return AclBinding(
        resource_type=kind,
        name=name,
        pattern=PatternType.PREFIXED if section.prefixed else PatternType.LITERAL,
        principal=section.principal,
        host=section.host,
        operation=AclOperation[section.operation],
        permission=Permission[section.permission],
    )
