"""Principals, and the names that certificates have."""

from __future__ import annotations

import pytest

from txnsim.errors import ConfigError
from txnsim.security.principals import distinguished_name, parse_principals, user


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ([[("organizationName", "Shop")], [("commonName", "alice")]], "CN=alice,O=Shop"),
        ([[("commonName", "a"), ("userId", "7")]], "CN=a+UID=7"),
        ([[("commonName", 'a,b+c"d\\e<f>g;h')]], 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h'),
        ([[("commonName", " a ")]], "CN=\\ a\\ "),
        ([[("commonName", "#a")]], "CN=\\#a"),
        ([[("emailAddress", "a@b")]], "emailAddress=a@b"),
        ([], ""),
    ],
)
def test_a_distinguished_name_is_written_as_java_does(subject: list[object], name: str) -> None:
    assert distinguished_name(subject) == name  # type: ignore[arg-type]


def test_super_users_are_separated_by_semicolons() -> None:
    assert parse_principals("User:a; User:CN=b,O=c ;") == {"User:a", "User:CN=b,O=c"}
    with pytest.raises(ConfigError, match="'a': expected TYPE:NAME"):
        parse_principals("a")


def test_a_user_is_a_principal() -> None:
    assert user("alice") == "User:alice"
