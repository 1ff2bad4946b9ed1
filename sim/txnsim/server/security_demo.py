"""Security for trying out: a user for each way to log in, one with all rights and one with few.

``txnsim serve --security demo`` starts this; from Python it is the ``security`` of
``ClusterOptions``. The passwords are no secret, and protect nothing.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.files import FOR_ITS_OWNER, write_whole
from txnsim.security import sasl
from txnsim.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from txnsim.security.options import (
    ClientAuth,
    SecureListener,
    SecurityOptions,
    SecurityProtocol,
    TlsFiles,
)
from txnsim.security.principals import user
from txnsim.security.sasl import import_library

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

LISTENERS: Final = {"SASL_PLAINTEXT": 200, "SASL_SSL": 300, "SSL": 400}
"""Name (and protocol) of a listener -> distance of its first port from the cluster's."""
ADMIN: Final = "admin"
PLAIN_USER: Final = "plain-user"
SCRAM_USER: Final = "scram-user"
BEARER: Final = "oauth-user"
TLS_USER: Final = "tls-user"
GUEST: Final = "guest"
GUESTS_PREFIX: Final = "public"
"""Prefix of the topics and groups that a guest may read."""


class DemoFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of the files for clients."""

    authority: Path
    """Certificate of the authority that clients trust."""
    certificate: Path
    """Certificate of ``tls-user``."""
    key: Path
    keystore: Path
    """Key and certificate in one file, as Java needs them."""


def password_of(user_name: str) -> str:
    """The password of every user of the demo."""
    return f"{user_name}-secret"


def demo_security(
    directory: Path, *, port: int, hosts: Sequence[str], now_ms: int
) -> tuple[SecurityOptions, DemoFiles]:
    """Make certificates, users and rights.

    Returns:
        The security options, and the paths of files for clients.

    Raises:
        MissingExtraError: the extra ``security`` is not installed.
        ConfigError: A file can't be written.
    """
    authority = Authority(directory, now_ms=now_ms)
    broker_pair = authority.issue("broker", hosts=hosts)
    client_pair = authority.issue(TLS_USER)
    keystore = directory / f"{TLS_USER}.keystore.pem"
    key_and_certificate = client_pair.key.read_bytes() + client_pair.certificate.read_bytes()
    write_whole(keystore, key_and_certificate, mode=FOR_ITS_OWNER)
    password_by_user = {
        listener_name: password_of(listener_name) for listener_name in (ADMIN, GUEST)
    }
    options = SecurityOptions(
        listeners=tuple(
            SecureListener(
                name=listener_name,
                protocol=SecurityProtocol[listener_name],
                port=port and port + port_distance,
                client_auth=ClientAuth.REQUIRED if listener_name == "SSL" else ClientAuth.NONE,
            )
            for listener_name, port_distance in LISTENERS.items()
        ),
        tls=TlsFiles(
            certificate=str(broker_pair.certificate),
            key=str(broker_pair.key),
            authority=str(authority.certificate),
        ),
        plain_users={**password_by_user, PLAIN_USER: password_of(PLAIN_USER)},
        scram_users={**password_by_user, SCRAM_USER: password_of(SCRAM_USER)},
        has_authorizer=True,
        super_users=frozenset({user(ADMIN)}),
        acls=(*_rights_of_users(), *_rights_of_guests()),
    )
    demo_files = DemoFiles(
        authority=authority.certificate,
        certificate=client_pair.certificate,
        key=client_pair.key,
        keystore=keystore,
    )
    return options, demo_files


def mechanism_of(user_name: str) -> str | None:
    """The SASL mechanism by which a user of the demo logs in; None for a certificate."""
    mechanism_by_user = {PLAIN_USER: sasl.PLAIN, BEARER: sasl.OAUTHBEARER, TLS_USER: None}
    return mechanism_by_user.get(user_name, "SCRAM-SHA-256")


def tls_principal() -> str:
    """The principal of the demo's client certificate."""
    return user(f"CN={TLS_USER},O={ORGANIZATION}")


def _rights_of_users() -> list[AclBinding]:
    """ACLs of the users: everything with topics, groups and transactional ids; of the cluster what
    producers and tools need.
    """
    granted_rights = (
        (ResourceType.TOPIC, WILDCARD, AclOperation.ALL),
        (ResourceType.GROUP, WILDCARD, AclOperation.ALL),
        (ResourceType.TRANSACTIONAL_ID, WILDCARD, AclOperation.ALL),
        (ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.CREATE),
        (ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.DESCRIBE),
        (ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE),
    )
    principals = (user(PLAIN_USER), user(SCRAM_USER), user(BEARER), tls_principal())
    return [
        _allow_binding(principal, resource_type, resource_name, operation)
        for principal in principals
        for resource_type, resource_name, operation in granted_rights
    ]


def _rights_of_guests() -> list[AclBinding]:
    return [
        _allow_binding(
            user(GUEST),
            resource_type,
            GUESTS_PREFIX,
            AclOperation.READ,
            pattern=PatternType.PREFIXED,
        )
        for resource_type in (ResourceType.TOPIC, ResourceType.GROUP)
    ]


def _allow_binding(
    principal: str,
    resource_type: ResourceType,
    resource_name: str,
    operation: AclOperation,
    *,
    pattern: PatternType = PatternType.LITERAL,
) -> AclBinding:
    return AclBinding(
        resource_type=resource_type,
        name=resource_name,
        pattern=pattern,
        principal=principal,
        host=WILDCARD,
        operation=operation,
        permission=Permission.ALLOW,
    )


# Certificates

ORGANIZATION: Final = "txnsim"
YEAR: Final = datetime.timedelta(days=365)
BEFORE: Final = datetime.timedelta(days=1)
"""Time by which the start of a certificate's validity is in the past: clocks of clients may be
slow.
"""


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
        import_library("cryptography")
        self._directory = directory
        self._now = datetime.datetime.fromtimestamp(now_ms / 1_000, tz=datetime.UTC)
        self._key = _new_key()
        self._distinguished_name = _distinguished_name("txnsim test authority")
        builder = self._builder(self._distinguished_name, self._key.public_key())
        self._certificate = self._sign(_with_authority_usage(builder))
        self.certificate: Final = directory / "ca.pem"
        """Path of the certificate that clients have to trust."""
        write_whole(self.certificate, _certificate_pem(self._certificate))

    def issue(self, common_name: str, *, hosts: Sequence[str] = ()) -> KeyPair:
        """Make a certificate with ``CN=name,O=txnsim``, in ``name.pem`` and ``name.key``.

        Raises:
            ConfigError: A file can't be written.
        """
        private_key = _new_key()
        builder = self._builder(_distinguished_name(common_name), private_key.public_key())
        if hosts:
            builder = _with_host_names(builder, hosts)
        pair = KeyPair(
            certificate=self._directory / f"{common_name}.pem",
            key=self._directory / f"{common_name}.key",
        )
        write_whole(pair.certificate, _certificate_pem(self._sign(builder)))
        write_whole(pair.key, _key_pem(private_key), mode=FOR_ITS_OWNER)
        return pair

    def _builder(self, subject: x509.Name, public_key: Any) -> x509.CertificateBuilder:
        from cryptography import x509

        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._distinguished_name)
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

    def _sign(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        from cryptography.hazmat.primitives import hashes

        return builder.sign(self._key, hashes.SHA256())


def _new_key() -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _distinguished_name(common_name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _with_authority_usage(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
    from cryptography import x509

    other_usages = dict.fromkeys(
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
    ).add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **other_usages), critical=True)


def _with_host_names(
    builder: x509.CertificateBuilder, hosts: Sequence[str]
) -> x509.CertificateBuilder:
    from cryptography import x509

    alternative_names: list[x509.GeneralName] = []
    for host in dict.fromkeys(hosts):
        try:
            alternative_names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            alternative_names.append(x509.DNSName(host))
    return builder.add_extension(x509.SubjectAlternativeName(alternative_names), critical=False)


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
