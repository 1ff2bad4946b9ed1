"""What clients are told of the demo's security."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.cli._security_settings import (
    USERS,
    announcement,
    client_settings,
    java_properties,
    write_properties,
)
from txnsim.cli.client_properties import read_client_properties
from txnsim.errors import ConfigError
from txnsim.security.login import Password
from txnsim.server.security_demo import DemoFiles


def test_what_a_client_has_a_use_for_is_taken_and_the_rest_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "client.id=me\nrequest.timeout.ms=1\ndefault.api.timeout.ms=2\nbootstrap.servers=h:1\n"
        "security.protocol=PLAINTEXT\nmetrics.num.samples=3\n"
    )
    settings, bootstrap, ignored = read_client_properties(file)
    assert (settings.client_id, settings.request_timeout_ms, settings.api_timeout_ms) == (
        "me",
        1,
        2,
    )
    assert bootstrap == "h:1"
    assert ignored == ("metrics.num.samples",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b\nrequest.timeout.ms=soon", ":2: request.timeout.ms: milliseconds are expected"),
        (
            "security.protocol=SASL_SSL",
            ":1: security.protocol: the mechanism GSSAPI, the default, is not spoken here",
        ),
    ],
)
def test_what_cannot_be_obeyed_is_refused_with_its_line(
    text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    with pytest.raises(ConfigError) as error_info:
        read_client_properties(file)
    assert message in str(error_info.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_client_properties(tmp_path / "nothing")


def test_who_logs_in_is_taken_from_them(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nssl.protocol=TLSv1.3\n"
        'sasl.jaas.config=a.PlainLoginModule required username="alice" password="secret";\n'
    )
    settings, _, ignored = read_client_properties(file)
    assert settings.security.credential == Password(user="alice", password="secret")
    assert ignored == ("ssl.protocol",)


# What clients are told of the demo's security.


FILES = DemoFiles(
    authority=Path("/d/ca.pem"),
    certificate=Path("/d/c.pem"),
    key=Path("/d/c.key"),
    keystore=Path("/d/k.pem"),
)
SERVERS = {"SASL_PLAINTEXT": "h:1", "SASL_SSL": "h:2", "SSL": "h:3"}


def test_java_is_told_how_each_user_logs_in() -> None:
    modules = {
        user_name: java_properties(user_name, FILES, SERVERS).get("sasl.jaas.config", "")
        for user_name in USERS
    }
    assert "ScramLoginModule" in modules["scram-user"]
    assert 'password="guest-secret"' in modules["guest"]
    assert "PlainLoginModule" in modules["plain-user"]
    assert 'unsecuredLoginStringClaim_sub="oauth-user"' in modules["oauth-user"]
    mutual = java_properties("tls-user", FILES, SERVERS)
    assert (mutual["bootstrap.servers"], mutual["ssl.keystore.location"]) == ("h:3", "/d/k.pem")


def test_each_user_has_a_file(tmp_path: Path) -> None:
    written_files = write_properties(tmp_path, FILES, SERVERS)
    assert {path.stem for path in written_files} == set(USERS)
    assert "bootstrap.servers=h:2\n" in (tmp_path / "admin.properties").read_text()


def test_the_terminal_tells_every_library() -> None:
    text = "\n".join(announcement(SERVERS, FILES))
    for client, lines in client_settings(SERVERS, FILES).items():
        assert f"\n  {client} " in text
        assert all(line in text for line in lines)
    for user_name in USERS:
        assert user_name in text
