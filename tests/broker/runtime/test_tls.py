"""TLS contexts from files and from text: two memory buffers shake hands, or don't."""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from txnsim.errors import ConfigError
from txnsim.runtime.tls import client_context, server_context
from txnsim.security.options import ClientAuth, ClientTls, TlsFiles, TlsPem
from txnsim.server.security_demo import Authority, KeyPair

HOST = "127.0.0.1"


class Pki:
    """An authority, a broker and a client."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory, now_ms=round(time.time() * 1_000))
        self.authority = authority.certificate
        self.broker = authority.issue("broker", hosts=(HOST,))
        self.client = authority.issue("client")

    def files(self) -> TlsFiles:
        return TlsFiles(
            certificate=str(self.broker.certificate),
            key=str(self.broker.key),
            authority=str(self.authority),
        )

    def pem(self) -> TlsPem:
        return TlsPem(authority=self.authority.read_text(), **texts(self.broker))

    def trust(self, **more: object) -> ClientTls:
        return msgspec.structs.replace(ClientTls(authority=self.authority.read_text()), **more)


def texts(pair: KeyPair) -> dict[str, Any]:
    return {"certificate": pair.certificate.read_text(), "key": pair.key.read_text()}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


def shaken(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = HOST
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after the handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=host),
    )
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends


@pytest.mark.parametrize("kind", ["files", "pem"])
def test_a_certificate_of_the_client_is_asked_for_and_handed_on(pki: Pki, kind: str) -> None:
    context = server_context(getattr(pki, kind)(), ClientAuth.REQUIRED)
    server, _ = shaken(context, client_context(pki.trust(**texts(pki.client))))
    told = server.getpeercert()
    assert told is not None
    assert told["subject"] == ((("organizationName", "txnsim"),), (("commonName", "client"),))


def test_without_one_there_is_no_entry(pki: Pki) -> None:
    context = server_context(pki.pem(), ClientAuth.REQUIRED)
    with pytest.raises(ssl.SSLError):
        shaken(context, client_context(pki.trust()))
    server, _ = shaken(server_context(pki.pem(), ClientAuth.NONE), client_context(pki.trust()))
    assert server.getpeercert() is None


def test_the_name_in_the_certificate_counts_only_where_it_is_asked_for(pki: Pki) -> None:
    context = server_context(pki.pem(), ClientAuth.NONE)
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(context, client_context(pki.trust()), "elsewhere")
    shaken(context, client_context(pki.trust(checks_host=False)), "elsewhere")


def test_an_authority_that_is_not_trusted_is_refused(pki: Pki) -> None:
    context = server_context(pki.pem(), ClientAuth.NONE)
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(context, client_context(ClientTls()))


def test_versions_can_be_chosen(pki: Pki) -> None:
    one = ("TLSv1.2",)
    old = server_context(msgspec.structs.replace(pki.pem(), versions=one), ClientAuth.NONE)
    server, _ = shaken(old, client_context(pki.trust()))
    assert server.version() == "TLSv1.2"
    both = ("TLSv1.3", "TLSv1.2")
    server, _ = shaken(
        server_context(pki.pem(), ClientAuth.NONE), client_context(pki.trust(versions=both))
    )
    assert server.version() == "TLSv1.3"


def test_a_key_may_be_locked(pki: Pki) -> None:
    from cryptography.hazmat.primitives import serialization as pem

    key = pem.load_pem_private_key(pki.broker.key.read_bytes(), None)
    locked = key.private_bytes(
        pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.BestAvailableEncryption(b"secret")
    ).decode()
    tls = msgspec.structs.replace(pki.pem(), key=locked, key_password="secret")
    shaken(server_context(tls, ClientAuth.NONE), client_context(pki.trust()))
    with pytest.raises(ConfigError, match="of the keystore"):
        server_context(msgspec.structs.replace(tls, key_password=None), ClientAuth.NONE)


def test_what_is_no_certificate_is_refused(pki: Pki) -> None:
    with pytest.raises(ConfigError, match="TLS files nowhere, nothing"):
        server_context(TlsFiles(certificate="nowhere", key="nothing"), ClientAuth.NONE)
    with pytest.raises(ConfigError, match="of the keystore"):
        server_context(TlsPem(certificate="a", key="b"), ClientAuth.NONE)
    with pytest.raises(ConfigError, match="of the client"):
        client_context(ClientTls(authority="a"))
    alone = TlsFiles(certificate=str(pki.broker.certificate), key=str(pki.broker.key))
    shaken(server_context(alone, ClientAuth.NONE), client_context(pki.trust()))
    bare = TlsPem(**texts(pki.broker))
    shaken(server_context(bare, ClientAuth.NONE), client_context(pki.trust()))
