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

_OPTION_PREFIX: Final = "unsecuredLogin"
_RESERVED_CLAIMS: Final = frozenset({"iat", "exp"})
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
        return _bearer_from_options(module.options)
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
        extensions_text = "".join(
            f"{extension_name}={value}\x01"
            for extension_name, value in self._bearer.extensions.items()
        )
        token = _unsigned_token(self._bearer, now_ms=self._now_ms)
        return f"n,,\x01auth=Bearer {token}\x01{extensions_text}\x01".encode()

    def next(self, token: bytes) -> bytes | None:
        # The broker's token has the reason; it waits for this answer before it refuses (RFC 7628).
        return b"\x01" if token else None


def _unsigned_token(bearer: Bearer, *, now_ms: int) -> str:
    """Encode a token without a signature (RFC 7515, appendix A.5)."""
    now_s = now_ms / 1_000
    time_claims = {"exp": now_s + bearer.lifetime_seconds, "iat": now_s}
    return f"{_token_part({'alg': 'none'})}.{_token_part({**time_claims, **bearer.claims})}."


def _token_part(json_object: Mapping[str, object]) -> str:
    json_bytes = json.dumps(json_object, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(json_bytes).rstrip(b"=").decode()


def _bearer_from_options(options: Mapping[str, str]) -> Bearer:
    claims: dict[str, str | float | list[str]] = {}
    extensions: dict[str, str] = {}
    for option, value in options.items():
        option_kind, _, field_name = option.removeprefix(_OPTION_PREFIX).partition("_")
        if not option.startswith(_OPTION_PREFIX) or not field_name:
            continue
        if field_name in _RESERVED_CLAIMS and option_kind != "Extension":
            raise ValueError(f"{option}: the claim {field_name} is made, not set")
        match option_kind:
            case "StringClaim":
                claims[field_name] = value
            case "NumberClaim":
                claims[field_name] = _parse_number(option, value)
            case "ListClaim":
                claims[field_name] = _parse_list(value)
            case "Extension":
                extensions[field_name] = value
            case _:
                pass
    principal_claim = options.get(f"{_OPTION_PREFIX}PrincipalClaimName", "").strip() or "sub"
    user = claims.get(principal_claim)
    if not isinstance(user, str) or not user.strip():
        raise ValueError(
            f"the token has no name: {_OPTION_PREFIX}StringClaim_{principal_claim} is missing"
        )
    for field_name, value in extensions.items():
        if field_name == "auth" or not (
            _EXTENSION_NAME.fullmatch(field_name) and _EXTENSION_VALUE.fullmatch(value)
        ):
            raise ValueError(
                f"{_OPTION_PREFIX}Extension_{field_name}: no such extension can be sent"
            )
    lifetime_text = options.get(f"{_OPTION_PREFIX}LifetimeSeconds", str(LIFETIME_SECONDS))
    return Bearer(
        claims=claims,
        lifetime_seconds=int(_parse_number(f"{_OPTION_PREFIX}LifetimeSeconds", lifetime_text)),
        extensions=extensions,
    )


def _parse_number(option: str, number_text: str) -> float:
    try:
        return float(number_text)
    except ValueError:
        raise ValueError(f"{option}: expected a number, found {number_text!r}") from None


def _parse_list(list_text: str) -> list[str]:
    """The elements of a list claim, which the first character separates. Empty elements become a
    single one at the end, as in Java's split and the code after it.
    """
    delimiter, joined_elements = list_text[:1], list_text[1:]
    if not joined_elements:
        return []
    elements = joined_elements.split(delimiter)
    filled_elements = [element for element in elements if element]
    return [*filled_elements, ""] if len(filled_elements) < len(elements) else filled_elements
