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

_ATTRIBUTE_KEYWORDS: Final = {
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
_SPECIAL_CHARACTERS: Final = frozenset(',+"\\<>;')

Subject = Iterable[Iterable[tuple[str, str]]]
"""A certificate's subject as Python's ``ssl`` has it: relative distinguished names, the outermost
first.
"""


def user(user_name: str) -> str:
    """The principal of a user."""
    return f"User:{user_name}"


def distinguished_name(subject: Subject) -> str:
    """A certificate's subject as Java prints it, the innermost name first (X500Principal.getName,
    RFC 2253). With mutual TLS it is the user's name by default.
    """
    return ",".join(
        "+".join(
            f"{_ATTRIBUTE_KEYWORDS.get(attribute, attribute)}={_escape_value(attribute_value)}"
            for attribute, attribute_value in attributes
        )
        for attributes in reversed(list(subject))
    )


def parse_principals(text: str) -> frozenset[str]:
    """Parse ``super.users``; semicolons separate the principals, because distinguished names have
    commas.

    Raises:
        ConfigError: A principal has no type.
    """
    principals = [principal.strip() for principal in text.split(";") if principal.strip()]
    for principal in principals:
        if ":" not in principal:
            raise ConfigError(f"super user {principal!r}: expected TYPE:NAME, as in User:admin")
    return frozenset(principals)


def _escape_value(attribute_value: str) -> str:
    escaped_value = "".join(
        f"\\{char}" if char in _SPECIAL_CHARACTERS else char for char in attribute_value
    )
    if escaped_value.startswith((" ", "#")):
        escaped_value = "\\" + escaped_value
    if escaped_value.endswith(" ") and not escaped_value.endswith("\\ "):
        escaped_value = escaped_value[:-1] + "\\ "
    return escaped_value
