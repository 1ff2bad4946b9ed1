"""TLS and SASL of a listener: what a client passes before its requests are handled.

Kafka's counterparts: ChannelBuilders, SslChannelBuilder, SaslChannelBuilder.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from txnsim.runtime.tls import server_context
from txnsim.security import sasl
from txnsim.security.authorizer import Authorizer
from txnsim.security.options import ClientAuth, SecureListener, SecurityOptions
from txnsim.security.principal_mapping import PrincipalMapping
from txnsim.security.principals import ANONYMOUS, distinguished_name, user
from txnsim.security.scram import MECHANISM_BY_SASL_NAME, Credentials, credential_of
from txnsim.server._sasl import SaslRules, SaslSession

if TYPE_CHECKING:
    from txnsim.runtime.environment import Environment

SALT_BYTES: Final = 20
NONCE_BYTES: Final = 18


class ChannelBuilder:
    """Builds TLS and SASL for the connections of a listener (Kafka's ChannelBuilder)."""

    __slots__ = ("_environment", "_mapping", "_security", "failure_delay_ms", "listener", "tls")

    def __init__(
        self, listener: SecureListener, security: SecurityOptions, environment: Environment
    ) -> None:
        """Read the certificates, and check that the necessary libraries are installed.

        Raises:
            ConfigError: A file can't be read, or does not have the expected kind of content.
            MissingExtraError: A mechanism needs a library.
        """
        self.listener = listener
        self.failure_delay_ms = security.failure_delay_ms
        self.tls: ssl.SSLContext | None = None
        if listener.protocol.has_tls:
            tls_files = listener.tls or security.tls
            assert tls_files is not None
            self.tls = server_context(tls_files, listener.client_auth)
        self._mapping = PrincipalMapping(
            listener.principal_mapping_rules or security.principal_mapping_rules
        )
        self._security = security
        self._environment = environment
        if listener.protocol.has_sasl:
            for mechanism in listener.mechanisms:
                self._new_exchange(dict, mechanism)

    def new_session(self, read_credentials: Callable[[], Credentials]) -> SaslSession | None:
        """A new SASL session for a connection; None if the listener has no SASL.

        Args:
            read_credentials: Returns the SCRAM credentials in the broker's current image.
        """
        if not self.listener.protocol.has_sasl:
            return None
        clock = self._environment.clock
        max_reauth_ms = self.listener.max_reauth_ms
        if max_reauth_ms is None:
            max_reauth_ms = self._security.max_reauth_ms
        return SaslSession(
            SaslRules(
                mechanisms=self.listener.mechanisms,
                max_reauth_ms=max_reauth_ms,
                begin_exchange=partial(self._new_exchange, read_credentials),
                now_ms=clock.now_ms,
                monotonic_ms=clock.monotonic_ms,
            )
        )

    def principal_of(self, transport: asyncio.BaseTransport) -> str | None:
        """The principal of a new connection by its certificate, else ANONYMOUS; None if no mapping
        rule applies to the certificate: a client without a name is not served.
        """
        if self.listener.protocol.has_sasl or self.listener.client_auth is ClientAuth.NONE:
            return ANONYMOUS
        certificate = transport.get_extra_info("peercert")
        if not certificate:
            return ANONYMOUS
        principal_name = self._mapping.name(distinguished_name(certificate["subject"]))
        return None if principal_name is None else user(principal_name)

    def _new_exchange(
        self, read_credentials: Callable[[], Credentials], mechanism: str
    ) -> sasl.SaslExchange:
        nonce_rng = self._environment.rng.stream("sasl.nonces")
        plain_users = self.listener.plain_users
        return sasl.exchange(
            mechanism,
            plain_users=self._security.plain_users if plain_users is None else plain_users,
            credentials=read_credentials(),
            make_nonce=lambda: nonce_rng.randbytes(NONCE_BYTES).hex(),
            now_ms=self._environment.clock.now_ms(),
            bearer_rules=self.listener.bearer,
        )


def first_credentials(security: SecurityOptions, draw_bytes: Callable[[int], bytes]) -> Credentials:
    """The SCRAM credentials that a cluster is formatted with; ``draw_bytes`` returns that many
    random bytes.
    """
    return {
        (user_name, mechanism): credential_of(
            password, mechanism=mechanism, salt=draw_bytes(SALT_BYTES)
        )
        for sasl_name, mechanism in MECHANISM_BY_SASL_NAME.items()
        for user_name, password in {
            **security.scram_users,
            **security.scram_users_by_mechanism.get(sasl_name, {}),
        }.items()
    }


def authorizer_of(security: SecurityOptions) -> Authorizer | None:
    if not security.has_authorizer:
        return None
    return Authorizer(
        super_users=security.super_users,
        allow_everyone_if_no_acl_found=security.allow_everyone_if_no_acl_found,
    )
