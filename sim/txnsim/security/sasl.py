"""The broker's side of SASL, token by token: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.

An exchange gets the client's tokens and answers each with a ``Challenge``, ``Authenticated`` or
``SaslRefusal``. The Kafka requests that carry the tokens are in ``server._sasl``. The library
``scramp`` computes SCRAM; PyJWT decodes the tokens of OAUTHBEARER. Kafka's counterparts:
PlainSaslServer, ScramSaslServer, OAuthBearerSaslServer,
OAuthBearerUnsecuredValidatorCallbackHandler.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeGuard

import msgspec

from txnsim.errors import MissingExtraError
from txnsim.security.scram import MECHANISM_BY_SASL_NAME, Credentials

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, *MECHANISM_BY_SASL_NAME, OAUTHBEARER)
"""All supported mechanisms."""

PIP_LINE: Final = MissingExtraError.pip_line("security")
"""Command that installs the libraries."""
_ESCAPE_LENGTH: Final = len("=2C")
"""Length of an escaped comma in a SCRAM user name."""
_LONG_MAX: Final = 2**63 - 1
"""Latest expiration time: Java's largest long."""


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """The exchange goes on: the client has to answer this token."""

    token: bytes


class Authenticated(msgspec.Struct, frozen=True, kw_only=True):
    """The client has proved its identity."""

    user: str
    token: bytes = b""
    expires_ms: int | None = None
    """When the credential expires, in wall time; None if it never does."""


class SaslRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """The client failed to prove its identity, or its token is malformed."""

    message: str | None = None
    """The text for the client; None says only that its credentials are invalid, because more would
    reveal which users exist.
    """


class BearerRules(msgspec.Struct, frozen=True, kw_only=True):
    """How an unsecured token is checked: the options ``unsecuredValidator…`` of
    OAuthBearerUnsecuredValidatorCallbackHandler.
    """

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0


UNSECURED_TOKEN_RULES: Final = BearerRules()
"""The default checks of a token."""

Step = Challenge | Authenticated | SaslRefusal


class SaslExchange(Protocol):
    """One exchange of a mechanism, on the broker's side."""

    def feed(self, token: bytes) -> Step:
        """Answer the client's next token."""


class PlainExchange:
    """PLAIN (RFC 4616): the client sends its password as plain text."""

    def __init__(self, password_by_user: Mapping[str, str]) -> None:
        self._users = password_by_user

    def feed(self, token: bytes) -> Step:
        """Check the only token: authorization id, user, password, separated by NUL."""
        # PlainSaslServer only looks for one token more than there should be.
        token_parts = token.decode(errors="replace").split("\0", 4)[:4]
        if len(token_parts) != 3:
            return SaslRefusal(
                message="Invalid SASL/PLAIN response: expected 3 tokens, got "
                + str(len(token_parts))
            )
        authorization_id, user, password = token_parts
        if not user:
            return SaslRefusal(message="Authentication failed: username not specified")
        if not password:
            return SaslRefusal(message="Authentication failed: password not specified")
        if self._users.get(user) != password:
            return SaslRefusal(message="Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            return SaslRefusal(
                message="Authentication failed: Client requested an authorization id that is "
                "different from username"
            )
        return Authenticated(user=user)


class ScramExchange:
    """SCRAM (RFC 5802), without channel binding."""

    def __init__(self, mechanism: str, credentials: Credentials, *, nonce: str) -> None:
        """Start an exchange.

        Raises:
            MissingExtraError: The library is not installed.
        """
        scramp = import_library("scramp")
        self._error: type[Exception] = scramp.ScramException
        self._mechanism = MECHANISM_BY_SASL_NAME[mechanism]
        self._credentials = credentials
        self._server = scramp.ScramMechanism(mechanism).make_server(self._credential, s_nonce=nonce)
        self._has_begun = False
        self._user = ""

    def feed(self, token: bytes) -> Step:
        """Answer the client's first message, then its final one."""
        try:
            client_message = token.decode()
            if not self._has_begun:
                self._has_begun = True
                if self._name_is_too_long(client_message):
                    return SaslRefusal()
                self._server.set_client_first(client_message)
                return Challenge(token=self._server.get_server_first().encode())
            self._server.set_client_final(client_message)
            final_message = self._server.get_server_final().encode()
        except (self._error, UnicodeDecodeError):
            return SaslRefusal()
        return Authenticated(user=self._user, token=final_message)

    def _name_is_too_long(self, first_message: str) -> bool:
        """Whether the name in the first message is too long for any user.

        The library normalises every name first, which takes seconds for a long one.
        """
        name_fields = first_message.split(",", 3)[2:3]
        longest_name = max((len(user) for user, _ in self._credentials), default=0)
        return bool(name_fields) and len(name_fields[0]) > _ESCAPE_LENGTH * (
            longest_name + len("n=")
        )

    def _credential(self, user: str) -> tuple[bytes, bytes, bytes, int] | None:
        credential = self._credentials.get((user, self._mechanism))
        if credential is None:
            return None
        self._user = user
        return credential.salt, credential.stored_key, credential.server_key, credential.iterations


class BearerExchange:
    """OAUTHBEARER (RFC 7628) with unsigned tokens: for tests. Kafka's broker accepts them by
    default, too.
    """

    def __init__(self, *, now_ms: int, bearer_rules: BearerRules = UNSECURED_TOKEN_RULES) -> None:
        """Start an exchange.

        Raises:
            MissingExtraError: The library is not installed.
        """
        self._jwt = import_library("jwt")
        self._now_ms = now_ms
        self._rules = bearer_rules
        self._failure: str | None = None

    def feed(self, token: bytes) -> Step:
        """Check the client's token; after a bad one, take the client's byte 0x01, which ends the
        exchange.
        """
        if self._failure is not None:
            return SaslRefusal(message=self._failure)
        message = read_message(token.decode(errors="replace"))
        if message is None:
            return SaslRefusal()
        claims = self._decode_claims(message.token)
        if _claims_complaint(claims, self._rules, now_ms=self._now_ms) is not None:
            return self._fail_with_challenge('{"status":"invalid_token"}')
        required_scopes = self._rules.required_scope
        if not _scope_of(claims.get(self._rules.scope_claim)) >= {*required_scopes}:
            return self._fail_with_challenge(
                f'{{"status":"insufficient_scope", "scope":"[{", ".join(required_scopes)}]"}}'
            )
        user = claims[self._rules.principal_claim]
        if message.authorization_id not in ("", user):
            return SaslRefusal(
                message="Authentication failed: Client requested an authorization id "
                f"({message.authorization_id}) that is different from the token's principal name "
                f"({user})"
            )
        return Authenticated(user=user, expires_ms=int(min(claims["exp"] * 1_000, _LONG_MAX)))

    def _fail_with_challenge(self, failure_json: str) -> Challenge:
        # RFC 7628, 3.2.2: the reason travels as a challenge, and the client says that it has seen
        # it.
        self._failure = failure_json
        return Challenge(token=failure_json.encode())

    def _decode_claims(self, token: str) -> dict[str, Any]:
        """The claims of an unsecured token; empty if the token is of another kind."""
        try:
            # Without a signature there is nothing to verify; the times are compared below.
            decoded_token = self._jwt.decode_complete(
                token, options={"verify_signature": False, "verify_exp": False}
            )
        except (self._jwt.PyJWTError, RecursionError):
            # Some releases of the library let JSON through that is nested too deep.
            return {}
        if decoded_token["header"].get("alg") != "none" or decoded_token["signature"]:
            return {}
        claims: dict[str, Any] = decoded_token["payload"]
        return claims


def exchange(
    mechanism: str,
    *,
    plain_users: Mapping[str, str],
    credentials: Credentials,
    make_nonce: Callable[[], str],
    now_ms: int,
    bearer_rules: BearerRules = UNSECURED_TOKEN_RULES,
) -> SaslExchange:
    """Start an exchange of one of ``MECHANISMS``.

    Raises:
        MissingExtraError: The mechanism needs a library that is not installed.
    """
    if mechanism == PLAIN:
        return PlainExchange(plain_users)
    if mechanism == OAUTHBEARER:
        return BearerExchange(now_ms=now_ms, bearer_rules=bearer_rules)
    return ScramExchange(mechanism, credentials, nonce=make_nonce())


def _claims_complaint(
    claims: Mapping[str, Any], bearer_rules: BearerRules, *, now_ms: int
) -> str | None:
    """What is wrong with a token's claims (OAuthBearerUnsecuredValidatorCallbackHandler); None if
    nothing is.
    """
    subject: object = claims.get(bearer_rules.principal_claim)
    expires_seconds: object = claims.get("exp")
    issued_seconds: object = claims.get("iat")
    if not isinstance(subject, str) or not subject.strip():
        return f"no principal name in the claim {bearer_rules.principal_claim}"
    if not _is_number(expires_seconds):
        return "no expiration time"
    if now_ms - bearer_rules.clock_skew_ms >= expires_seconds * 1_000:
        return "expired"
    if issued_seconds is None:
        return None
    if not _is_number(issued_seconds):
        return "issued at no time"
    if (
        issued_seconds * 1_000 > now_ms + bearer_rules.clock_skew_ms
        or expires_seconds <= issued_seconds
    ):
        return "issued in the future, or after its end"
    return None


def _scope_of(claim: object) -> frozenset[str]:
    """The scope of a token (OAuthBearerUnsecuredJws.calculateScope)."""
    claim_values = claim if isinstance(claim, list) else [claim]
    return frozenset(
        claim_value.strip()
        for claim_value in claim_values
        if isinstance(claim_value, str) and claim_value.strip()
    )


def _is_number(value: object) -> TypeGuard[float]:
    """Whether the value is a JSON number; Python's parser also accepts NaN."""
    if isinstance(value, float):
        return not math.isnan(value)
    return isinstance(value, int) and not isinstance(value, bool)


def import_library(library_name: str) -> Any:
    """Import a library of the extra ``security``.

    Raises:
        MissingExtraError: The library is not installed.
    """
    import importlib

    try:
        return importlib.import_module(library_name)
    except ImportError as error:
        raise MissingExtraError(f"{library_name} is not installed: {PIP_LINE}") from error


_SEPARATOR: Final = "\x01"
_AUTH_KEY: Final = "auth"
_NAME_PATTERN: Final = re.compile(r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+")
"""RFC 5801's saslname, which in Kafka may contain the separator."""
_KEY_PATTERN: Final = re.compile(r"[A-Za-z]+")
_VALUE_PATTERN: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
_CREDENTIALS_PATTERN: Final = re.compile(
    r"(?P<scheme>\w+) +(?P<token>[-_.~+/a-zA-Z0-9]+=*)", re.ASCII
)


class BearerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The first message of an OAUTHBEARER client (RFC 7628). Kafka's counterpart:
    OAuthBearerClientInitialResponse.
    """

    token: str
    authorization_id: str = ""


def read_message(message_text: str) -> BearerMessage | None:
    """Parse the first message of an OAUTHBEARER client; None if it is malformed.

    The text is cut at its separators, so that parsing takes time in proportion to its length. The
    header is ``n,[a=NAME],``. Key-value pairs follow, each between separators. One more separator
    is the end. If a key comes several times, its last value counts.
    """
    header, comma, pairs_text = message_text.removeprefix("n,").partition(",")
    if not message_text.startswith("n,") or not comma:
        return None
    authorization_id = header.removeprefix("a=")
    if header and (authorization_id == header or not _NAME_PATTERN.fullmatch(authorization_id)):
        return None
    pair_texts = pairs_text.split(_SEPARATOR)
    if len(pair_texts) < 3 or pair_texts[0] or pair_texts[-1] or pair_texts[-2]:
        return None
    value_by_key: dict[str, str] = {}
    for pair_text in pair_texts[1:-2]:
        key, equals_sign, value = pair_text.partition("=")
        if (
            not equals_sign
            or not _KEY_PATTERN.fullmatch(key)
            or not _VALUE_PATTERN.fullmatch(value)
        ):
            return None
        value_by_key[key] = value
    credentials_match = _CREDENTIALS_PATTERN.fullmatch(value_by_key.get(_AUTH_KEY, ""))
    if credentials_match is None or credentials_match["scheme"].lower() != "bearer":
        return None
    return BearerMessage(token=credentials_match["token"], authorization_id=authorization_id)
