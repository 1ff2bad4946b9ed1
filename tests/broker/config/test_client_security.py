"""How a client is told to reach brokers, in Java's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.client.authentication import ClientSecurity
from txnsim.config._client_security import read_client_security
from txnsim.config.lookup import WrongValueError
from txnsim.config.properties import parse_properties
from txnsim.security.login import Bearer, Password
from txnsim.security.options import ClientTls, SecurityProtocol
from txnsim.server.security_demo import Authority

NOW_MS = 1_800_000_000_000
ALICE = 'sasl.jaas.config=a.ScramLoginModule required username="alice" password="secret";\n'


def read(text: str) -> tuple[ClientSecurity, set[str]]:
    entries = parse_properties(text.encode(), file="f")
    return read_client_security({entry.name: entry for entry in entries})


def test_nothing_said_is_in_clear() -> None:
    assert read("client.id=x\n") == (ClientSecurity(), set())


def test_a_password_over_tls() -> None:
    found, used = read(
        "security.protocol=sasl_ssl\nsasl.mechanism=SCRAM-SHA-256\n"
        "ssl.endpoint.identification.algorithm=\nssl.enabled.protocols=TLSv1.3\n" + ALICE
    )
    assert found == ClientSecurity(
        protocol=SecurityProtocol.SASL_SSL,
        tls=ClientTls(checks_host=False, versions=("TLSv1.3",)),
        mechanism="SCRAM-SHA-256",
        credential=Password(user="alice", password="secret"),
    )
    assert used == {
        *("security.protocol", "sasl.mechanism", "sasl.jaas.config"),
        *("ssl.endpoint.identification.algorithm", "ssl.enabled.protocols"),
    }


def test_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path, now_ms=NOW_MS)
    pair = authority.issue("alice")
    store = tmp_path / "alice.keystore.pem"
    store.write_text(pair.key.read_text() + pair.certificate.read_text())
    found, _ = read(
        "security.protocol=SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.certificate}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={store}\nssl.key.password=x\n"
    )
    assert found.tls == ClientTls(
        authority=authority.certificate.read_text(),
        certificate=pair.certificate.read_text(),
        key=pair.key.read_text(),
        key_password="x",
    )


def test_a_token() -> None:
    found, _ = read(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        'sasl.jaas.config=a.B required unsecuredLoginStringClaim_sub="alice";\n'
    )
    assert found.credential == Bearer(claims={"sub": "alice"})
    assert not found.protocol.has_tls


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        ("security.protocol=TLS", "security.protocol", "expected PLAINTEXT, SSL"),
        ("security.protocol=SASL_SSL", "security.protocol", "GSSAPI, the default, is not spoken"),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI",
            "sasl.mechanism",
            "the mechanism GSSAPI is not spoken here",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN",
            "security.protocol",
            "needs sasl.jaas.config",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=a.B required;",
            "sasl.jaas.config",
            "username is missing",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=a.B;",
            "sasl.jaas.config",
            "a flag is expected",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.oauthbearer.token.endpoint.url=https://a",
            "sasl.oauthbearer.token.endpoint.url",
            "from sasl.jaas.config alone",
        ),
        (
            "security.protocol=SSL\nssl.enabled.protocols=TLSv1.2,TLSv1.1",
            "ssl.enabled.protocols",
            "TLSv1.1 is not spoken here",
        ),
        (
            "security.protocol=SSL\nssl.endpoint.identification.algorithm=ldaps",
            "ssl.endpoint.identification.algorithm",
            "expected https",
        ),
    ],
)
def test_what_cannot_be_obeyed_is_refused(text: str, name: str, why: str) -> None:
    with pytest.raises(WrongValueError, match=why) as wrong:
        read(text)
    assert wrong.value.entry.name == name
