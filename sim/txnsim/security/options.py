"""The security options of a cluster; by default it has no security.

Kafka's counterparts: SocketServerConfigs, BrokerSecurityConfigs, StandardAuthorizer.configure.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.security.acls import AclBinding, creation_complaint
from txnsim.security.principal_mapping import DEFAULT, PrincipalMapping
from txnsim.security.sasl import MECHANISMS, UNSECURED_TOKEN_RULES, BearerRules

PLAIN_LISTENER: Final = "PLAINTEXT"
"""Name of the listener that every broker has unless it is turned off."""
NO_REAUTH_MS: Final = 0
"""Sessions never expire: Kafka's default of ``connections.max.reauth.ms``."""
FAILURE_DELAY_MS: Final = 100
"""Kafka's default of ``connection.failed.authentication.delay.ms``."""


class SecurityProtocol(Enum):
    """The protocol of a listener: with or without TLS, with or without SASL."""

    PLAINTEXT = "in clear, for every client"
    SSL = "over TLS; a certificate can identify the client"
    SASL_PLAINTEXT = "in clear, after SASL"
    SASL_SSL = "over TLS, after SASL"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class ClientAuth(Enum):
    """Whether clients must show a certificate (``ssl.client.auth``)."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of a broker's PEM files."""

    certificate: str
    """The certificate with its chain up to the authority."""
    key: str
    key_password: str | None = None
    authority: str | None = None
    """The certificate authority that signs clients' certificates (``ssl.truststore``)."""


class TlsPem(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a broker's PEM files, from keystores or from properties that hold PEM."""

    certificate: str
    key: str
    key_password: str | None = None
    authority: str | None = None
    versions: tuple[str, ...] = ()
    """TLS versions (``ssl.enabled.protocols``): TLSv1.2, TLSv1.3; both if empty."""


class ClientTls(msgspec.Struct, frozen=True, kw_only=True):
    """The certificates that a client trusts, and its own certificate, as PEM text."""

    authority: str | None = None
    """Certificate authorities to trust; None for those that the machine trusts."""
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None
    checks_host: bool = True
    """Whether the broker's host name must be in its certificate
    (``ssl.endpoint.identification.algorithm=https``).
    """
    versions: tuple[str, ...] = ()
    """TLS versions (``ssl.enabled.protocols``)."""


class SecureListener(msgspec.Struct, frozen=True, kw_only=True):
    """An additional listener of every broker. A field that is None takes the value of the cluster's
    ``SecurityOptions``.
    """

    name: str
    protocol: SecurityProtocol
    host: str | None = None
    """Host to listen on; the cluster's unless given."""
    advertised_host: str | None = None
    """Host that clients connect to; the cluster's unless given."""
    advertised_port: int | None = None
    """Port that clients connect to, in a cluster of one broker; the listener's own unless given."""
    port: int = 0
    """Port of the first broker's listener; those of the other brokers follow. 0 picks free
    ports.
    """
    mechanisms: tuple[str, ...] = MECHANISMS
    """SASL mechanisms (``sasl.enabled.mechanisms``)."""
    client_auth: ClientAuth = ClientAuth.NONE
    tls: TlsPem | None = None
    """The listener's own certificates, instead of the cluster's."""
    plain_users: Mapping[str, str] | None = None
    bearer: BearerRules = UNSECURED_TOKEN_RULES
    max_reauth_ms: int | None = None
    principal_mapping_rules: str | None = None


class SecurityOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Listeners, users and ACLs of a cluster."""

    listeners: tuple[SecureListener, ...] = ()
    has_plain_listener: bool = True
    """Whether brokers have a plain listener; if not, the first of ``listeners`` is the main one."""
    tls: TlsFiles | TlsPem | None = None
    principal_mapping_rules: str = DEFAULT
    """``ssl.principal.mapping.rules``."""
    plain_users: Mapping[str, str] = {}
    """User -> password for PLAIN."""
    scram_users: Mapping[str, str] = {}
    """User -> password for both SCRAM mechanisms, set before the first start (``kafka-storage
    format --add-scram``).
    """
    scram_users_by_mechanism: Mapping[str, Mapping[str, str]] = {}
    """SASL mechanism -> user -> password for that mechanism alone; it wins over ``scram_users``."""
    max_reauth_ms: int = NO_REAUTH_MS
    """``connections.max.reauth.ms``."""
    failure_delay_ms: int = FAILURE_DELAY_MS
    """``connection.failed.authentication.delay.ms``."""
    has_authorizer: bool = False
    """Whether StandardAuthorizer is the ``authorizer.class.name``; without it every client may do
    everything.
    """
    super_users: frozenset[str] = frozenset()
    """``super.users``."""
    allow_everyone_if_no_acl_found: bool = False
    acls: tuple[AclBinding, ...] = ()
    """ACLs that are created before the first start."""


NO_SECURITY: Final = SecurityOptions()


def check_security(options: SecurityOptions) -> None:
    """Checks that the options are consistent.

    Raises:
        ConfigError: They are not.
    """
    listener_names = [PLAIN_LISTENER] if options.has_plain_listener else []
    if not (listener_names or options.listeners):
        raise ConfigError("there is no listener")
    _check_mapping(options.principal_mapping_rules)
    for listener in options.listeners:
        if listener.name in listener_names:
            raise ConfigError(f"there are two listeners named {listener.name}")
        listener_names.append(listener.name)
        tls = listener.tls or options.tls
        if listener.protocol.has_tls and tls is None:
            raise ConfigError(f"listener {listener.name}: {listener.protocol.name} needs TLS files")
        unknown_mechanisms = set(listener.mechanisms) - {*MECHANISMS}
        if unknown_mechanisms:
            raise ConfigError(
                f"listener {listener.name}: no such SASL mechanism: "
                f"{', '.join(sorted(unknown_mechanisms))}; there are {', '.join(MECHANISMS)}"
            )
        wants_authority = listener.protocol.has_tls and listener.client_auth is not ClientAuth.NONE
        if wants_authority and (tls is None or tls.authority is None):
            raise ConfigError(
                f"listener {listener.name}: certificates of clients need an authority"
            )
        _check_mapping(listener.principal_mapping_rules or DEFAULT)
    for acl in options.acls:
        rejection = creation_complaint(acl)
        if rejection is not None:
            raise ConfigError(f"{acl}: {rejection.reason}")


def _check_mapping(mapping_rules: str) -> None:
    try:
        PrincipalMapping(mapping_rules)
    except ValueError as error:
        raise ConfigError(f"ssl.principal.mapping.rules: {error}") from None
