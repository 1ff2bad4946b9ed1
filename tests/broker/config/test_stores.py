"""Keystores and truststores of property files: which are read, which combinations are refused."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    NoEncryption,
    load_pem_private_key,
    pkcs12,
)

from txnsim.config._stores import read_keystore, read_truststore
from txnsim.config.lookup import Lookup, WrongValueError
from txnsim.config.properties import Property
from txnsim.server.security_demo import Authority

NOW_MS = 1_800_000_000_000


class Files:
    """The same certificates in each kind of store."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory, now_ms=NOW_MS)
        pair = authority.issue("alice")
        self.directory = directory
        self.authority = authority.certificate.read_text()
        self.certificate = pair.certificate.read_text()
        self.key = pair.key.read_text()
        self.write("store.pem", self.key + self.certificate)
        key: Any = load_pem_private_key(self.key.encode(), None)
        own = x509.load_pem_x509_certificate(self.certificate.encode())
        ca = x509.load_pem_x509_certificate(self.authority.encode())
        locked = BestAvailableEncryption(b"secret")
        self.write("store.p12", pkcs12.serialize_key_and_certificates(b"a", key, own, [ca], locked))
        self.write(
            "trust.p12",
            pkcs12.serialize_key_and_certificates(None, None, None, [ca], NoEncryption()),
        )
        self.write(
            "keyless.p12", pkcs12.serialize_key_and_certificates(None, None, None, [ca], locked)
        )
        self.write("bare.p12", pkcs12.serialize_key_and_certificates(b"a", key, None, [], locked))
        self.write("store.jks", b"\xfe\xed\xfe\xed\0\0\0\2")

    def write(self, name: str, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        (self.directory / name).write_bytes(data)

    def path(self, name: str) -> str:
        return str(self.directory / name)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("stores"))


def given(store: str = "keystore", **values: str) -> Lookup:
    entries = {}
    for line, (key, value) in enumerate(values.items(), start=1):
        name = (
            f"ssl.{store}.{key.replace('_', '.')}" if key != "key_password" else "ssl.key.password"
        )
        entries[name] = Property(line=line, name=name, value=value)
    return Lookup(entries)


def test_nothing_named_is_no_store() -> None:
    assert read_keystore(given()) is None
    assert read_keystore(given(location=" ", password="")) is None
    assert read_truststore(given("truststore")) is None


def test_a_pem_file_has_key_and_certificates(files: Files) -> None:
    found = read_keystore(
        given(type="pem", location=files.path("store.pem"), key_password="secret")
    )
    assert found is not None
    assert (found.certificate, found.key) == (files.certificate, files.key)
    assert found.key_password == "secret"
    files.write("ca2.pem", files.authority * 2)
    trusted = given("truststore", type="PEM", location=files.path("ca2.pem"))
    assert read_truststore(trusted) == files.authority * 2


def test_pem_may_stand_in_the_property_with_blanks_for_line_ends(files: Files) -> None:
    found = read_keystore(
        given(
            type="PEM",
            certificate_chain=files.certificate.replace("\n", " "),
            key=files.key.replace("\n", " \n "),
        )
    )
    assert found is not None
    assert (found.certificate, found.key) == (files.certificate, files.key)
    trusted = given("truststore", type="PEM", certificates=files.authority.replace("\n", " "))
    assert read_truststore(trusted) == files.authority


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_pkcs12_is_read_under_either_name(files: Files, kind: str) -> None:
    # keytool makes PKCS12 since Java 9, and the type JKS reads both.
    found = read_keystore(given(type=kind, location=files.path("store.p12"), password="secret"))
    assert found is not None
    assert (found.certificate, found.key) == (files.certificate + files.authority, files.key)
    store = given("truststore", type=kind, location=files.path("trust.p12"))
    assert read_truststore(store) == files.authority


@pytest.mark.parametrize(
    ("values", "line", "why"),
    [
        ({"key": "k"}, 1, "keystore.type has to be PEM"),
        ({"key": "k", "type": "PKCS12"}, 2, "keystore.type has to be PEM"),
        ({"type": "PEM", "key": "KEY"}, 2, "a key without"),
        ({"type": "PEM", "certificate_chain": "c"}, 2, "a certificate without"),
        ({"type": "PEM", "key": "KEY", "location": "x"}, 3, "both a location and"),
        ({"type": "PEM", "key": "KEY", "password": "x"}, 3, "PEM has no password"),
        ({"type": "PEM", "key": "KEY", "certificate_chain": "c"}, 3, "no CERTIFICATE of PEM"),
        ({"type": "PEM", "location": "STORE", "password": "x"}, 3, "PEM has no password"),
        ({"type": "PEM", "location": "/nowhere"}, 2, "/nowhere: can't be read: No such file"),
        ({"type": "PEM", "location": "CA"}, 2, "no PRIVATE KEY of PEM"),
        ({"type": "PEM", "location": "TWICE"}, 2, "one key is expected"),
        ({"password": "x"}, 1, "a password without ssl.keystore.location"),
        ({"location": "P12"}, 1, "a store without ssl.keystore.password"),
        ({"location": "P12", "password": "wrong"}, 1, "no PKCS12, or another password"),
        ({"location": "KEYLESS", "password": "secret"}, 1, "there is no key in it"),
        ({"location": "BARE", "password": "secret"}, 1, "there is no certificate in it"),
        ({"location": "JKS", "password": "x"}, 1, "keytool -importkeystore -srckeystore"),
        ({"type": "BCFKS"}, 1, "expected PEM, PKCS12, JKS, found 'BCFKS'"),
    ],
)
def test_what_is_no_keystore_is_refused(
    files: Files, values: dict[str, str], line: int, why: str
) -> None:
    files.write("ca.pem", files.authority)
    files.write("twice.pem", files.key * 2 + files.certificate)
    names = {
        "KEY": files.key,
        "STORE": files.path("store.pem"),
        "CA": files.path("ca.pem"),
        "TWICE": files.path("twice.pem"),
        "P12": files.path("store.p12"),
        "KEYLESS": files.path("keyless.p12"),
        "BARE": files.path("bare.p12"),
        "JKS": files.path("store.jks"),
    }
    lookup = given(**{name: names.get(value, value) for name, value in values.items()})
    with pytest.raises(WrongValueError, match=why) as wrong:
        read_keystore(lookup)
    assert wrong.value.entry.line == line


def test_a_trusted_store_has_no_password_in_pem_and_needs_a_location(files: Files) -> None:
    with pytest.raises(WrongValueError, match="a password without"):
        read_truststore(given("truststore", password="x"))
    with pytest.raises(WrongValueError, match="PEM has no password"):
        read_truststore(
            given("truststore", type="PEM", location=files.path("store.pem"), password="x")
        )


def test_a_missing_library_is_named(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    importlib.invalidate_caches()
    with pytest.raises(WrongValueError, match="pip install"):
        read_truststore(given("truststore", type="PKCS12", location=files.path("trust.p12")))
