"""What clients are told of the demo's security."""

from __future__ import annotations

from pathlib import Path

from txnsim.cli._security_settings import (
    USERS,
    announcement,
    client_settings,
    java_properties,
    write_properties,
)
from txnsim.server.security_demo import DemoFiles

FILES = DemoFiles(
    authority=Path("/d/ca.pem"),
    certificate=Path("/d/c.pem"),
    key=Path("/d/c.key"),
    keystore=Path("/d/k.pem"),
)
SERVERS = {"SASL_PLAINTEXT": "h:1", "SASL_SSL": "h:2", "SSL": "h:3"}


def test_java_is_told_how_each_user_logs_in() -> None:
    modules = {
        name: java_properties(name, FILES, SERVERS).get("sasl.jaas.config", "") for name in USERS
    }
    assert "ScramLoginModule" in modules["scram-user"]
    assert 'password="guest-secret"' in modules["guest"]
    assert "PlainLoginModule" in modules["plain-user"]
    assert 'unsecuredLoginStringClaim_sub="oauth-user"' in modules["oauth-user"]
    mutual = java_properties("tls-user", FILES, SERVERS)
    assert (mutual["bootstrap.servers"], mutual["ssl.keystore.location"]) == ("h:3", "/d/k.pem")


def test_each_user_has_a_file(tmp_path: Path) -> None:
    written = write_properties(tmp_path, FILES, SERVERS)
    assert {path.stem for path in written} == set(USERS)
    assert "bootstrap.servers=h:2\n" in (tmp_path / "admin.properties").read_text()


def test_the_terminal_tells_every_library() -> None:
    text = "\n".join(announcement(SERVERS, FILES))
    for client, lines in client_settings(SERVERS, FILES).items():
        assert f"\n  {client} " in text
        assert all(line in text for line in lines)
    for name in USERS:
        assert name in text
