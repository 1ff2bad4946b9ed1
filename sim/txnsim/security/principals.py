"""Principals: ``User:alice``, as ACLs and super users name them.

A principal is a string ``Type:name`` here, because that is what ACLs compare. Kafka's counterparts:
KafkaPrincipal, DefaultKafkaPrincipalBuilder.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from txnsim.errors import ConfigError

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client without a login (KafkaPrincipal.ANONYMOUS)."""
EVERYBODY: Final = "User:*"
"""In an ACL: every user."""

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
"""What RFC 2253 calls the attributes that Python's ``ssl`` names in full."""
_SPECIAL: Final = frozenset(',+"\\<>;')

Subject = Iterable[Iterable[tuple[str, str]]]
"""A certificate's subject as ``ssl`` has it: relative names, first the outermost."""


def user(name: str) -> str:
    """The principal of a user."""
    return f"User:{name}"


def distinguished_name(subject: Subject) -> str:
    """A certificate's subject as Java prints it, the innermost name first
    (X500Principal.getName, RFC 2253): what mutual TLS makes the name of a user.
    """
    return ",".join(
        "+".join(
            f"{_ATTRIBUTES.get(name, name)}={_escape_value(value)}" for name, value in relative
        )
        for relative in reversed(list(subject))
    )


def parse_principals(text: str) -> frozenset[str]:
    """The principals of ``super.users``, which are separated by semicolons because
    distinguished names have commas.

    Raises:
        ConfigError: One of them has no type.
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
