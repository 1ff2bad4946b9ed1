"""What a cluster's security is made of; by default there is none.

Kafka's counterparts: SocketServerConfigs, BrokerSecurityConfigs, StandardAuthorizer.configure.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from sim.errors import ConfigError
from sim.security.acls import AclBinding, creation_complaint
from sim.security.sasl import MECHANISMS

PLAIN_LISTENER: Final = "PLAINTEXT"
"""The name of the listener that every broker has."""
NO_REAUTH_MS: Final = 0
"""Sessions without an end, Kafka's default of ``connections.max.reauth.ms``."""
FAILURE_DELAY_MS: Final = 100
"""Kafka's default of ``connection.failed.authentication.delay.ms``."""


class SecurityProtocol(Enum):
    """How a listener is spoken to."""

    PLAINTEXT = "in clear, by anybody"
    SSL = "over TLS; who it is can be told by a certificate"
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


class SecureListener(msgspec.Struct, frozen=True, kw_only=True):
    """A further listener of every broker."""

    name: str
    protocol: SecurityProtocol
    port: int = 0
    """The first broker's; the others' follow. 0 picks free ones."""
    mechanisms: tuple[str, ...] = MECHANISMS
    """Those of SASL (``sasl.enabled.mechanisms``)."""
    client_auth: ClientAuth = ClientAuth.NONE


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """PEM files of a broker."""

    certificate: str
    """Its certificate, and those up to the authority."""
    key: str
    authority: str | None = None
    """Who has signed the certificates of clients (``ssl.truststore``)."""


class SecurityOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Listeners, users and rights of a cluster."""

    listeners: tuple[SecureListener, ...] = ()
    tls: TlsFiles | None = None
    plain_users: Mapping[str, str] = {}
    """User -> password of PLAIN."""
    scram_users: Mapping[str, str] = {}
    """User -> password of both SCRAM mechanisms, set before the first start (``kafka-storage
    format --add-scram``).
    """
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
    names = [PLAIN_LISTENER]
    for listener in options.listeners:
        if listener.name in names:
            raise ConfigError(f"there are two listeners named {listener.name}")
        names.append(listener.name)
        if listener.protocol.has_tls and options.tls is None:
            raise ConfigError(f"listener {listener.name}: {listener.protocol.name} needs TLS files")
        unknown = set(listener.mechanisms) - {*MECHANISMS}
        if unknown:
            raise ConfigError(
                f"listener {listener.name}: no such SASL mechanism: {', '.join(sorted(unknown))}; "
                f"there are {', '.join(MECHANISMS)}"
            )
        wants_authority = listener.protocol.has_tls and listener.client_auth is not ClientAuth.NONE
        if wants_authority and (options.tls is None or options.tls.authority is None):
            raise ConfigError(
                f"listener {listener.name}: certificates of clients need an authority"
            )
    for acl in options.acls:
        complaint = creation_complaint(acl)
        if complaint is not None:
            raise ConfigError(f"{acl}: {complaint.reason}")
