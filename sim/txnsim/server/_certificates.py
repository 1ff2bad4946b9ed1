"""Certificates for a cluster to try out: an authority, its brokers, its clients.

They are made anew each time and good for a year; nothing outside trusts them. Keys are elliptic
(P-256), files are PEM, which every client reads.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.files import FOR_ITS_OWNER, write_whole
from txnsim.security.sasl import imported

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

ORGANIZATION: Final = "txnsim"
YEAR: Final = datetime.timedelta(days=365)
BEFORE: Final = datetime.timedelta(days=1)
"""How far a certificate is antedated: clocks of clients may be slow."""


class KeyPair(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Signs the certificates of one cluster."""

    def __init__(self, directory: Path, *, now_ms: int) -> None:
        """Make the authority and write its certificate to ``ca.pem``.

        Raises:
            MissingExtraError: ``cryptography`` is not installed.
            ConfigError: A file can't be written.
        """
        imported("cryptography")
        self._directory = directory
        self._now = datetime.datetime.fromtimestamp(now_ms / 1_000, tz=datetime.UTC)
        self._key = _new_key()
        self._name = _name("txnsim test authority")
        builder = self._builder(self._name, self._key.public_key())
        self._certificate = self._signed(_as_authority(builder))
        self.certificate: Final = directory / "ca.pem"
        """Whom clients have to trust."""
        write_whole(self.certificate, _pem(self._certificate))

    def issue(self, name: str, *, hosts: Sequence[str] = ()) -> KeyPair:
        """A certificate with ``CN=name,O=txnsim``, in ``name.pem`` and ``name.key``.

        Raises:
            ConfigError: A file can't be written.
        """
        key = _new_key()
        builder = self._builder(_name(name), key.public_key())
        if hosts:
            builder = _for_hosts(builder, hosts)
        pair = KeyPair(
            certificate=self._directory / f"{name}.pem", key=self._directory / f"{name}.key"
        )
        write_whole(pair.certificate, _pem(self._signed(builder)))
        write_whole(pair.key, _key_pem(key), mode=FOR_ITS_OWNER)
        return pair

    def _builder(self, subject: x509.Name, public_key: Any) -> x509.CertificateBuilder:
        from cryptography import x509

        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - BEFORE)
            .not_valid_after(self._now + YEAR)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )

    def _signed(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        from cryptography.hazmat.primitives import hashes

        return builder.sign(self._key, hashes.SHA256())


def _new_key() -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _as_authority(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
    from cryptography import x509

    usage = dict.fromkeys(
        (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    ).add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)


def _for_hosts(builder: x509.CertificateBuilder, hosts: Sequence[str]) -> x509.CertificateBuilder:
    from cryptography import x509

    names: list[x509.GeneralName] = []
    for host in dict.fromkeys(hosts):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return builder.add_extension(x509.SubjectAlternativeName(names), critical=False)


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
