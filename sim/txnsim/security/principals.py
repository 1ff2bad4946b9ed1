"""Principals such as ``User:alice``, as ACLs and super users name them.

A principal is a string ``Type:name`` here, because ACLs compare strings. Kafka's counterparts:
KafkaPrincipal, DefaultKafkaPrincipalBuilder.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from txnsim.errors import ConfigError

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client without a login (KafkaPrincipal.ANONYMOUS)."""
EVERYBODY: Final = "User:*"
"""The principal of an ACL for every user."""

_ATTRIBUTES: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
"""Attribute name in Python's ``ssl`` -> short name in RFC 2253."""
_SPECIAL: Final = frozenset(',+"\\<>;')

Subject = Iterable[Iterable[tuple[str, str]]]
"""A certificate's subject as Python's ``ssl`` has it: relative distinguished names, the outermost
first.
"""


def user(name: str) -> str:
    """The principal of a user."""
    return f"User:{name}"


def distinguished_name(subject: Subject) -> str:
    """A certificate's subject as Java prints it, the innermost name first (X500Principal.getName,
    RFC 2253). With mutual TLS it is the user's name by default.
    """
    return ",".join(
        "+".join(
            f"{_ATTRIBUTES.get(name, name)}={_escape_value(value)}" for name, value in relative
        )
        for relative in reversed(list(subject))
    )


def parse_principals(text: str) -> frozenset[str]:
    """Parse ``super.users``; semicolons separate the principals, because distinguished names have
    commas.

    Raises:
        ConfigError: A principal has no type.
    """
    names = [name.strip() for name in text.split(";") if name.strip()]
    for name in names:
        if ":" not in name:
            raise ConfigError(f"super user {name!r}: expected TYPE:NAME, as in User:admin")
    return frozenset(names)


def _escape_value(value: str) -> str:
    text = "".join(f"\\{char}" if char in _SPECIAL else char for char in value)
    if text.startswith((" ", "#")):
        text = "\\" + text
    if text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1] + "\\ "
    return text
