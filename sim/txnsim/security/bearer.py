"""The first message of an OAUTHBEARER client (RFC 7628), as Apache Kafka reads it.

The message is cut at its separators, so that reading takes time in proportion to its length.
Kafka's counterpart: OAuthBearerClientInitialResponse.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

_SEPARATOR: Final = "\x01"
_AUTH: Final = "auth"
_NAME: Final = re.compile(r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+")
"""RFC 5801's saslname, with the separator in it, as Kafka has it."""
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
_CREDENTIALS: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.~+/a-zA-Z0-9]+=*)", re.ASCII)


class BearerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says first."""

    token: str
    authorization_id: str = ""


def read_message(text: str) -> BearerMessage | None:
    """The message in ``text``; None where it is none.

    The header is ``n,[a=NAME],``. Pairs of key and value follow, each between separators. One more
    separator is the end. Of a key that comes several times the last value counts.
    """
    header, comma, rest = text.removeprefix("n,").partition(",")
    if not text.startswith("n,") or not comma:
        return None
    name = header.removeprefix("a=")
    if header and (name == header or not _NAME.fullmatch(name)):
        return None
    parts = rest.split(_SEPARATOR)
    if len(parts) < 3 or parts[0] or parts[-1] or parts[-2]:
        return None
    values: dict[str, str] = {}
    for part in parts[1:-2]:
        key, sign, value = part.partition("=")
        if not sign or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            return None
        values[key] = value
    credentials = _CREDENTIALS.fullmatch(values.get(_AUTH, ""))
    if credentials is None or credentials["scheme"].lower() != "bearer":
        return None
    return BearerMessage(token=credentials["token"], authorization_id=name)
