"""The security options of a cluster; by default it has none.

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
from txnsim.security.sasl import MECHANISMS, UNSECURED, BearerRules

PLAIN_LISTENER: Final = "PLAINTEXT"
"""The name of the listener that every broker has."""
NO_REAUTH_MS: Final = 0
"""Sessions without an end, Kafka's default of ``connections.max.reauth.ms``."""
FAILURE_DELAY_MS: Final = 100
"""Kafka's default of ``connection.failed.authentication.delay.ms``."""


class SecurityProtocol(Enum):
    """How a listener is spoken to."""

    PLAINTEXT = "in clear, for every client"
    SSL = "over TLS; a certificate can identify the client"
    SASL_PLAINTEXT = "in clear, after SASL"
    SASL_SSL = "over TLS, after SASL"

    @property
    def has_tls(self) -> bool:
        """Whether the socket is encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class ClientAuth(Enum):
    """Whether a client shows a certificate (``ssl.client.auth``)."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """PEM files of a broker."""

    certificate: str
    """The certificate, and its chain up to the authority."""
    key: str
    key_password: str | None = None
    authority: str | None = None
    """The authority that signs the certificates of clients (``ssl.truststore``)."""


class TlsPem(msgspec.Struct, frozen=True, kw_only=True):
    """The same as text: what keystores held, or properties that hold PEM."""

    certificate: str
    key: str
    key_password: str | None = None
    authority: str | None = None
    versions: tuple[str, ...] = ()
    """``ssl.enabled.protocols``: TLSv1.2, TLSv1.3; both unless named."""


class ClientTls(msgspec.Struct, frozen=True, kw_only=True):
    """What a client trusts, and who it is, as PEM text."""

    authority: str | None = None
    """Whom to trust; None: those that this machine trusts."""
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None
    checks_host: bool = True
    """``ssl.endpoint.identification.algorithm=https``: the broker's name has to be in its
    certificate.
    """
    versions: tuple[str, ...] = ()
    """``ssl.enabled.protocols``."""


class SecureListener(msgspec.Struct, frozen=True, kw_only=True):
    """A further listener of every broker. None: as the cluster's ``SecurityOptions`` say."""

    name: str
    protocol: SecurityProtocol
    host: str | None = None
    """Where it listens; the cluster's host unless given."""
    advertised_host: str | None = None
    """The host that clients connect to; the cluster's unless given."""
    advertised_port: int | None = None
    """The port likewise, of a cluster of one broker."""
    port: int = 0
    """The first broker's; the others' follow. 0 picks free ones."""
    mechanisms: tuple[str, ...] = MECHANISMS
    """Those of SASL (``sasl.enabled.mechanisms``)."""
    client_auth: ClientAuth = ClientAuth.NONE
    tls: TlsPem | None = None
    """Its own keystore and truststore."""
    plain_users: Mapping[str, str] | None = None
    bearer: BearerRules = UNSECURED
    max_reauth_ms: int | None = None
    principal_mapping_rules: str | None = None


class SecurityOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Listeners, users and rights of a cluster."""

    listeners: tuple[SecureListener, ...] = ()
    has_plain_listener: bool = True
    """Whether brokers have a plain listener; else the first of ``listeners`` is the main one."""
    tls: TlsFiles | TlsPem | None = None
    principal_mapping_rules: str = DEFAULT
    """``ssl.principal.mapping.rules``."""
    plain_users: Mapping[str, str] = {}
    """User -> password of PLAIN."""
    scram_users: Mapping[str, str] = {}
    """User -> password of both SCRAM mechanisms, set before the first start (``kafka-storage
    format --add-scram``).
    """
    scram_users_of: Mapping[str, Mapping[str, str]] = {}
    """SASL mechanism -> user -> password of that mechanism alone, before ``scram_users``."""
    max_reauth_ms: int = NO_REAUTH_MS
    """``connections.max.reauth.ms``."""
    failure_delay_ms: int = FAILURE_DELAY_MS
    """``connection.failed.authentication.delay.ms``."""
    has_authorizer: bool = False
    """StandardAuthorizer as ``authorizer.class.name``; without it everybody may do everything."""
    super_users: frozenset[str] = frozenset()
    """``super.users``."""
    allow_everyone_if_no_acl_found: bool = False
    acls: tuple[AclBinding, ...] = ()
    """Set before the first start."""


NO_SECURITY: Final = SecurityOptions()


def check_security(options: SecurityOptions) -> None:
    """Whether the options make sense together.

    Raises:
        ConfigError: They don't.
    """
    names = [PLAIN_LISTENER] if options.has_plain_listener else []
    if not (names or options.listeners):
        raise ConfigError("there is no listener")
    _check_mapping(options.principal_mapping_rules)
    for listener in options.listeners:
        if listener.name in names:
            raise ConfigError(f"there are two listeners named {listener.name}")
        names.append(listener.name)
        tls = listener.tls or options.tls
        if listener.protocol.has_tls and tls is None:
            raise ConfigError(f"listener {listener.name}: {listener.protocol.name} needs TLS files")
        unknown = set(listener.mechanisms) - {*MECHANISMS}
        if unknown:
            raise ConfigError(
                f"listener {listener.name}: no such SASL mechanism: {', '.join(sorted(unknown))}; "
                f"there are {', '.join(MECHANISMS)}"
            )
        wants_authority = listener.protocol.has_tls and listener.client_auth is not ClientAuth.NONE
        if wants_authority and (tls is None or tls.authority is None):
            raise ConfigError(
                f"listener {listener.name}: certificates of clients need an authority"
            )
        _check_mapping(listener.principal_mapping_rules or DEFAULT)
    for acl in options.acls:
        complaint = creation_complaint(acl)
        if complaint is not None:
            raise ConfigError(f"{acl}: {complaint.reason}")


def _check_mapping(rules: str) -> None:
    try:
        PrincipalMapping(rules)
    except ValueError as error:
        raise ConfigError(f"ssl.principal.mapping.rules: {error}") from None
