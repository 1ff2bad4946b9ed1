"""The client's side of SASL, token by token: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.

A ``Login`` gives the first token, then answers each token of the broker until it has nothing more
to send. The Kafka requests that carry the tokens are in ``client.authentication``. Kafka's
counterparts: PlainSaslClient, ScramSaslClient, OAuthBearerSaslClient,
OAuthBearerUnsecuredLoginCallbackHandler.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from txnsim.security.jaas import LoginModule
from txnsim.security.sasl import OAUTHBEARER, PLAIN, import_library

_PREFIX: Final = "unsecuredLogin"
_RESERVED: Final = frozenset({"iat", "exp"})
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
LIFETIME_SECONDS: Final = 3_600
"""Default lifetime of a token, in seconds."""


class Password(msgspec.Struct, frozen=True, kw_only=True):
    """A user name and password for PLAIN or SCRAM."""

    user: str
    password: str


class Bearer(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an unsecured OAUTHBEARER token."""

    claims: Mapping[str, str | float | list[str]]
    lifetime_seconds: int = LIFETIME_SECONDS
    extensions: Mapping[str, str] = {}
    """SASL extensions that are sent with the token (KIP-342)."""


Credential = Password | Bearer


class LoginError(Exception):
    """The broker failed to prove its identity, or its token is malformed."""


class Login(Protocol):
    """One exchange of a mechanism, on the client's side."""

    def first_token(self) -> bytes:
        """The first token of the client."""

    def next(self, token: bytes) -> bytes | None:
        """The client's answer to a token of the broker; None if the client has nothing more to
        send.

        Raises:
            LoginError: The broker's token is wrong.
        """


def login(mechanism: str, credential: Credential, *, now_ms: int, nonce: str) -> Login:
    """Start an exchange of one of ``sasl.MECHANISMS``.

    Raises:
        MissingExtraError: The mechanism needs a library that is not installed.
    """
    if isinstance(credential, Bearer):
        return _BearerLogin(credential, now_ms=now_ms)
    if mechanism == PLAIN:
        return _PlainLogin(credential)
    return _ScramLogin(mechanism, credential, nonce=nonce)


def credential_from(mechanism: str, module: LoginModule) -> Credential:
    """The credential from the options of a login module.

    Raises:
        ValueError: An option is missing or wrong.
    """
    if mechanism == OAUTHBEARER:
        return _bearer(module.options)
    for option in ("username", "password"):
        if option not in module.options:
            raise ValueError(f"the option {option} is missing")
    return Password(user=module.options["username"], password=module.options["password"])


class _PlainLogin:
    def __init__(self, credential: Password) -> None:
        self._credential = credential

    def first_token(self) -> bytes:
        return f"\0{self._credential.user}\0{self._credential.password}".encode()

    def next(self, token: bytes) -> bytes | None:
        if token:
            raise LoginError("the broker answers PLAIN with a token")
        return None


class _ScramLogin:
    def __init__(self, mechanism: str, credential: Password, *, nonce: str) -> None:
        scramp = import_library("scramp")
        self._error: type[Exception] = scramp.ScramException
        self._client = scramp.ScramClient(
            [mechanism], credential.user, credential.password, c_nonce=nonce
        )
        self._is_last = False

    def first_token(self) -> bytes:
        return str(self._client.get_client_first()).encode()

    def next(self, token: bytes) -> bytes | None:
        try:
            if self._is_last:
                # The signature proves that the broker knows the password as well.
                self._client.set_server_final(token.decode())
                return None
            self._is_last = True
            self._client.set_server_first(token.decode())
            return str(self._client.get_client_final()).encode()
        except (self._error, UnicodeDecodeError) as error:
            raise LoginError(f"the broker's token is wrong: {error}") from error


class _BearerLogin:
    def __init__(self, bearer: Bearer, *, now_ms: int) -> None:
        self._bearer = bearer
        self._now_ms = now_ms

    def first_token(self) -> bytes:
        extensions = "".join(
            f"{name}={value}\x01" for name, value in self._bearer.extensions.items()
        )
        token = _unsigned_token(self._bearer, now_ms=self._now_ms)
        return f"n,,\x01auth=Bearer {token}\x01{extensions}\x01".encode()

    def next(self, token: bytes) -> bytes | None:
        # The broker's token has the reason; it waits for this answer before it refuses (RFC 7628).
        return b"\x01" if token else None


def _unsigned_token(bearer: Bearer, *, now_ms: int) -> str:
    """Encode a token without a signature (RFC 7515, appendix A.5)."""
    now_seconds = now_ms / 1_000
    times = {"exp": now_seconds + bearer.lifetime_seconds, "iat": now_seconds}
    return f"{_part({'alg': 'none'})}.{_part({**times, **bearer.claims})}."


def _part(value: Mapping[str, object]) -> str:
    text = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _bearer(options: Mapping[str, str]) -> Bearer:
    claims: dict[str, str | float | list[str]] = {}
    extensions: dict[str, str] = {}
    for option, value in options.items():
        kind, _, name = option.removeprefix(_PREFIX).partition("_")
        if not option.startswith(_PREFIX) or not name:
            continue
        if name in _RESERVED and kind != "Extension":
            raise ValueError(f"{option}: the claim {name} is made, not set")
        match kind:
            case "StringClaim":
                claims[name] = value
            case "NumberClaim":
                claims[name] = _number(option, value)
            case "ListClaim":
                claims[name] = _list(value)
            case "Extension":
                extensions[name] = value
            case _:
                pass
    principal = options.get(f"{_PREFIX}PrincipalClaimName", "").strip() or "sub"
    user = claims.get(principal)
    if not isinstance(user, str) or not user.strip():
        raise ValueError(f"the token has no name: {_PREFIX}StringClaim_{principal} is missing")
    for name, value in extensions.items():
        if name == "auth" or not (
            _EXTENSION_NAME.fullmatch(name) and _EXTENSION_VALUE.fullmatch(value)
        ):
            raise ValueError(f"{_PREFIX}Extension_{name}: no such extension can be sent")
    lifetime = options.get(f"{_PREFIX}LifetimeSeconds", str(LIFETIME_SECONDS))
    return Bearer(
        claims=claims,
        lifetime_seconds=int(_number(f"{_PREFIX}LifetimeSeconds", lifetime)),
        extensions=extensions,
    )


def _number(option: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{option}: expected a number, found {value!r}") from None


def _list(value: str) -> list[str]:
    """The elements of a list claim, which the first character separates. Empty elements become a
    single one at the end, as in Java's split and the code after it.
    """
    delimiter, text = value[:1], value[1:]
    if not text:
        return []
    elements = text.split(delimiter)
    filled = [element for element in elements if element]
    return [*filled, ""] if len(filled) < len(elements) else filled
