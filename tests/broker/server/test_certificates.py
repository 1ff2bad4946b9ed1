"""Certificates to try out: who trusts the authority trusts its brokers and clients."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from cryptography import x509

from txnsim.errors import MissingExtraError
from txnsim.server.security_demo import Authority

NOW_MS = 1_700_000_000_000


def test_a_broker_is_good_for_its_hosts_and_signed_by_the_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path, now_ms=NOW_MS)
    pair = authority.issue("broker", hosts=("127.0.0.1", "localhost", "localhost"))
    own = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    signer = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    own.verify_directly_issued_by(signer)
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600


def test_a_client_has_its_name_and_no_hosts(tmp_path: Path) -> None:
    pair = Authority(tmp_path, now_ms=NOW_MS).issue("alice")
    own = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    assert own.subject.rfc4514_string() == "CN=alice,O=txnsim"
    with pytest.raises(x509.ExtensionNotFound):
        own.extensions.get_extension_for_class(x509.SubjectAlternativeName)


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[security\]'"):
        Authority(tmp_path, now_ms=NOW_MS)
