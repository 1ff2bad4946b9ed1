"""SASL on one connection: Kafka's frames around the mechanisms' tokens.

Until a client is authenticated, its frames are handled here; afterwards only its handshake to
authenticate again (KIP-368) and the end of its session are. A session only decides what is to be
done; the connection does it. Kafka's counterpart: SaslServerAuthenticator, with the same states.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from typing import Any, Final

import msgspec

from txnsim.api.nodes import api_versions
from txnsim.api.request import Request
from txnsim.errors import ErrorCode
from txnsim.security import sasl
from txnsim.security.principals import ANONYMOUS, user
from txnsim.wire import codec
from txnsim.wire.apis import API_VERSIONS, api_name
from txnsim.wire.registry import version_range

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
HANDSHAKE_VERSIONS: Final = version_range(SASL_HANDSHAKE)
AUTHENTICATE_VERSIONS: Final = version_range(SASL_AUTHENTICATE)
SESSION_MS_MAX: Final = (2**63 - 1) // 1_000_000
"""Longest session: a longer one does not fit into the nanoseconds in which Kafka counts."""
REAUTHENTICATION_PAUSE_MS: Final = 1_000
"""Least time between two authentications of a session
(KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS).
"""


class SaslState(Enum):
    """The requests that are accepted next."""

    FIRST = "ApiVersions or SaslHandshake"
    HANDSHAKE = "SaslHandshake; ApiVersions is answered once"
    TOKENS = "SaslAuthenticate requests"
    RAW_TOKENS = "tokens without a header (SaslHandshake v0)"
    OTHER_MECHANISM = "nothing: a client may not come back with another mechanism"
    COMPLETE = "requests"


class FrameTreatment(Enum):
    """What a connection does with a frame, before or after authentication."""

    HANDLE = "it is an ordinary request"
    SEND = "it is answered"
    REFUSE = "it is a request that its API answers with ILLEGAL_SASL_STATE, then as FAIL"
    FAIL = "it is answered after a pause, then the connection is closed"


class SaslStep(msgspec.Struct, frozen=True, kw_only=True):
    """What the connection has to do with a frame."""

    treatment: FrameTreatment
    answer: bytes = b""
    """A response with its size in front; empty for none."""
    reason: str = ""
    """Why the authentication failed, for the log."""


HANDLE_STEP: Final = SaslStep(treatment=FrameTreatment.HANDLE)
ENDLESS_TOKEN: Final = "the token ends later than a session can"


class SaslRules(msgspec.Struct, frozen=True, kw_only=True):
    """Settings and clocks that the connections of a listener share."""

    mechanisms: tuple[str, ...]
    """The enabled mechanisms (``sasl.enabled.mechanisms``)."""
    max_reauth_ms: int
    """``connections.max.reauth.ms``; with 0, a session has no end."""
    begin_exchange: Callable[[str], sasl.SaslExchange]
    """Starts an exchange of a mechanism."""
    now_ms: Callable[[], int]
    """Wall time, for the end of tokens."""
    monotonic_ms: Callable[[], int]
    """Monotonic time, for the end of sessions."""


class SaslSession(msgspec.Struct, eq=False):
    """The authentication of one connection."""

    _rules: SaslRules
    state: SaslState = SaslState.FIRST
    principal: str = ANONYMOUS
    _mechanism: str = ""
    _exchange: sasl.SaslExchange | None = None
    _session_ends_ms: int | None = None
    _previous_login: tuple[str, str] | None = None
    """Mechanism and principal of the previous authentication, while a client authenticates
    again.
    """
    _reauthentication_began_ms: int | None = None

    def treat_frame(self, frame: bytes) -> SaslStep:
        """Decide what to do with a frame.

        Raises:
            BadInputError: The frame is not a Kafka request.
        """
        if self.state is SaslState.COMPLETE:
            return self._treat_authenticated(frame)
        if self.state is SaslState.RAW_TOKENS:
            return self._treat_raw_token(frame)
        if self.state is SaslState.OTHER_MECHANISM:
            return _failure_step(f"another mechanism than {self._mechanism} to authenticate again")
        header = codec.read_request_header(frame)
        if self.state is SaslState.TOKENS:
            return self._treat_token(header, frame)
        if header.api_key == SASL_HANDSHAKE:
            return self._treat_handshake(header, frame)
        if header.api_key == API_VERSIONS and self.state is SaslState.FIRST:
            return HANDLE_STEP
        return _failure_step(f"{api_name(header.api_key)} during the SASL handshake")

    def expect_handshake(self, request: Request) -> None:
        """Note that a valid ApiVersions was answered: a handshake has to come next."""
        if self.state is SaslState.FIRST and api_versions.is_valid(request):
            self.state = SaslState.HANDSHAKE

    # States

    def _treat_authenticated(self, frame: bytes) -> SaslStep:
        """Decide about a request of an authenticated client
        (Processor.processCompletedReceives).
        """
        if self._session_ends_ms is None:
            return HANDLE_STEP
        now_ms = self._rules.monotonic_ms()
        if int.from_bytes(frame[:2], "big") != SASL_HANDSHAKE:
            if now_ms > self._session_ends_ms:
                return _failure_step(
                    "the session has ended and the client did not authenticate again"
                )
            return HANDLE_STEP
        last_began_ms = self._reauthentication_began_ms
        if last_began_ms is not None and now_ms - last_began_ms < REAUTHENTICATION_PAUSE_MS:
            return HANDLE_STEP  # the handler answers ILLEGAL_SASL_STATE
        self._reauthentication_began_ms = now_ms
        self._previous_login = (self._mechanism, self.principal)
        self.state = SaslState.HANDSHAKE
        return self._treat_handshake(codec.read_request_header(frame), frame)

    def _treat_handshake(self, header: codec.RequestHeader, frame: bytes) -> SaslStep:
        if not HANDSHAKE_VERSIONS[0] <= header.api_version <= HANDSHAKE_VERSIONS[1]:
            return _failure_step(f"SaslHandshake v{header.api_version} is not supported")
        mechanism = codec.decode_request(header, frame).mechanism
        is_known = mechanism in self._rules.mechanisms
        answer = _response_frame(
            header,
            error_code=ErrorCode.none if is_known else ErrorCode.unsupported_sasl_mechanism,
            mechanisms=self._rules.mechanisms,
        )
        if not is_known:
            return _failure_step(f"unsupported SASL mechanism {mechanism}", answer)
        if self._previous_login is not None and self._previous_login[0] != mechanism:
            self.state = SaslState.OTHER_MECHANISM
            return SaslStep(treatment=FrameTreatment.SEND, answer=answer)
        self._mechanism = mechanism
        self._exchange = self._rules.begin_exchange(mechanism)
        self.state = SaslState.TOKENS if header.api_version >= 1 else SaslState.RAW_TOKENS
        return SaslStep(treatment=FrameTreatment.SEND, answer=answer)

    def _treat_raw_token(self, token: bytes) -> SaslStep:
        exchange_step = self._feed_exchange(token)
        if isinstance(exchange_step, sasl.SaslRefusal):
            return _failure_step(self._refusal_text(exchange_step))
        if self._is_endless(exchange_step):
            return _failure_step(ENDLESS_TOKEN)
        if isinstance(exchange_step, sasl.Authenticated):
            self._complete(exchange_step)
        return SaslStep(
            treatment=FrameTreatment.SEND,
            answer=len(exchange_step.token).to_bytes(4, "big") + exchange_step.token,
        )

    def _treat_token(self, header: codec.RequestHeader, frame: bytes) -> SaslStep:
        api_key, api_version = header.api_key, header.api_version
        if api_key != SASL_AUTHENTICATE:
            return SaslStep(
                treatment=FrameTreatment.REFUSE,
                reason=f"{api_name(api_key)} during SASL authentication",
            )
        if not AUTHENTICATE_VERSIONS[0] <= api_version <= AUTHENTICATE_VERSIONS[1]:
            return _failure_step(f"SaslAuthenticate v{api_version} is not supported")
        exchange_step = self._feed_exchange(codec.decode_request(header, frame).auth_bytes)
        if isinstance(exchange_step, sasl.SaslRefusal):
            refusal_text = self._refusal_text(exchange_step)
            return _failure_step(
                refusal_text,
                _response_frame(
                    header,
                    error_code=ErrorCode.sasl_authentication_failed,
                    error_message=refusal_text,
                    auth_bytes=b"",
                    session_lifetime=timedelta(0),
                ),
            )
        if self._is_endless(exchange_step):
            return _failure_step(ENDLESS_TOKEN)
        lifetime_ms = (
            self._complete(exchange_step) if isinstance(exchange_step, sasl.Authenticated) else 0
        )
        return SaslStep(
            treatment=FrameTreatment.SEND,
            answer=_response_frame(
                header,
                error_code=ErrorCode.none,
                error_message="",
                auth_bytes=exchange_step.token,
                session_lifetime=timedelta(milliseconds=lifetime_ms),
            ),
        )

    # Parts

    def _feed_exchange(self, token: bytes) -> sasl.Step:
        assert self._exchange is not None
        exchange_step = self._exchange.feed(token)
        if isinstance(exchange_step, sasl.Authenticated) and self._previous_login is not None:
            _, principal = self._previous_login
            if user(exchange_step.user) != principal:
                old_principal, new_principal = (
                    principal.replace(":", "."),
                    user(exchange_step.user).replace(":", "."),
                )
                return sasl.SaslRefusal(
                    message="Cannot change principals during re-authentication from "
                    f"{old_principal}: {new_principal}"
                )
        return exchange_step

    def _is_endless(self, exchange_step: sasl.Step) -> bool:
        """Whether the session would be too long to count: a real broker then closes without an
        answer.
        """
        return (
            isinstance(exchange_step, sasl.Authenticated)
            and self._lifetime_ms(exchange_step, default=0) > SESSION_MS_MAX
        )

    def _lifetime_ms(self, authenticated: sasl.Authenticated, *, default: int) -> int:
        """Lifetime of the session in ms; ``default`` if it has no end."""
        limits_ms = [self._rules.max_reauth_ms] if self._rules.max_reauth_ms > 0 else []
        if authenticated.expires_ms is not None:
            limits_ms.append(max(0, authenticated.expires_ms - self._rules.now_ms()))
        return min(limits_ms, default=default)

    def _complete(self, authenticated: sasl.Authenticated) -> int:
        """Note that the client is authenticated; returns the session lifetime in ms, 0 for no
        end.
        """
        self.principal = user(authenticated.user)
        self.state = SaslState.COMPLETE
        self._exchange = self._previous_login = None
        lifetime_ms = self._lifetime_ms(authenticated, default=-1)
        self._session_ends_ms = (
            None if lifetime_ms < 0 else self._rules.monotonic_ms() + lifetime_ms
        )
        return max(0, lifetime_ms)

    def _refusal_text(self, refusal: sasl.SaslRefusal) -> str:
        phase = "re-authentication" if self._previous_login is not None else "authentication"
        return refusal.message or (
            f"Authentication failed during {phase} due to invalid credentials with SASL "
            f"mechanism {self._mechanism}"
        )


def _failure_step(reason: str, answer: bytes = b"") -> SaslStep:
    return SaslStep(treatment=FrameTreatment.FAIL, answer=answer, reason=reason)


def _response_frame(header: codec.RequestHeader, **fields: Any) -> bytes:
    api_key, api_version = header.api_key, header.api_version
    body = codec.encode_body(codec.build(codec.response_class(api_key, api_version), **fields))
    return codec.frame_response(api_key, api_version, header.correlation_id, body)
