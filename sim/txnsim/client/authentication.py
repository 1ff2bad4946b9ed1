"""SASL authentication of a connection: its requests, in order.

It takes answers and returns the next request; ``connection`` sends it. Kafka's counterpart:
SaslClientAuthenticator.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from txnsim.client.errors import AuthenticationError, code_name
from txnsim.client.requests import versioned_request
from txnsim.client.versions import ClientApi, VersionedRequest
from txnsim.errors import ErrorCode
from txnsim.security.login import Credential, Login, LoginError, login
from txnsim.security.options import ClientTls, SecurityProtocol

RENEWAL_FACTOR: Final = 0.85
"""Fraction of a session after which a client authenticates again: the earliest that
SaslClientAuthenticator draws, so that clocks and latency don't matter (KIP-368).
"""


class ClientSecurity(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach and to authenticate with brokers."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: ClientTls = ClientTls()
    mechanism: str = ""
    """SASL mechanism; empty without SASL."""
    credential: Credential | None = None


class Authentication:
    """One authentication, from the handshake to the broker's last answer."""

    def __init__(self, security: ClientSecurity, *, now_ms: int, nonce: str) -> None:
        """Begin.

        Raises:
            MissingExtraError: The mechanism needs a library.
        """
        assert security.credential is not None, "SASL needs a credential"
        self._mechanism = security.mechanism
        self._login: Login = login(
            security.mechanism, security.credential, now_ms=now_ms, nonce=nonce
        )
        self._has_shaken_hands = False
        self.lifetime_ms = 0
        """Lifetime of the session in ms, from the broker's last answer; 0 means unlimited."""

    def handshake(self) -> VersionedRequest:
        """The first request."""
        return versioned_request(ClientApi.SASL_HANDSHAKE, mechanism=self._mechanism)

    def take(self, answer: Any) -> VersionedRequest | None:
        """Take an answer and return the next request; None once we are authenticated.

        Raises:
            AuthenticationError: The broker refused.
        """
        if not self._has_shaken_hands:
            self._has_shaken_hands = True
            if answer.error_code != ErrorCode.none:
                raise self._unsupported_mechanism(answer)
            return _token(self._login.first_token())
        if answer.error_code != ErrorCode.none:
            raise AuthenticationError(
                answer.error_message or code_name(answer.error_code), error=answer.error_code
            )
        try:
            token = self._login.next(answer.auth_bytes)
        except LoginError as error:
            raise AuthenticationError(str(error)) from error
        if token is not None:
            return _token(token)
        lifetime_ms = getattr(answer, "session_lifetime", None)
        if lifetime_ms is not None:
            self.lifetime_ms = round(lifetime_ms.total_seconds() * 1_000)
        return None

    def _unsupported_mechanism(self, answer: Any) -> AuthenticationError:
        if answer.error_code != ErrorCode.unsupported_sasl_mechanism:
            error_name = code_name(answer.error_code)
            return AuthenticationError(f"the broker answers SaslHandshake with {error_name}")
        enabled_mechanisms = ", ".join(answer.mechanisms)
        return AuthenticationError(
            f"Client SASL mechanism '{self._mechanism}' not enabled in the server, enabled "
            f"mechanisms are [{enabled_mechanisms}]",
            error=answer.error_code,
        )


def _token(token: bytes) -> VersionedRequest:
    return versioned_request(ClientApi.SASL_AUTHENTICATE, auth_bytes=token)
