"""Keystores and truststores of property files, read into PEM text.

PEM comes from a file or is in the property itself, where Java allows blanks instead of line ends;
PKCS12 is read with ``cryptography``. The rules for combinations are those of Kafka's
DefaultSslEngineFactory (createKeystore, createTruststore, PemParser).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import msgspec

from txnsim.config.lookup import PropertyLookup, WrongPropertyError
from txnsim.config.properties import Property
from txnsim.errors import MissingExtraError
from txnsim.files import problem_of, read_given

_KEYSTORE: Final = "ssl.keystore."
_TRUSTSTORE: Final = "ssl.truststore."
_BLOCK: Final = re.compile(
    r"-+BEGIN\s+(?P<kind>[^-]*?)\s*-+\s+(?:[^:\r\n-]*:[^\r\n]*[\r\n]+)*"
    r"(?P<body>[A-Za-z0-9+/=\s]+)-+END\s+[^-]*-+"
)
_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""First bytes of Java's own store formats (JKS, JCEKS)."""
_TYPES: Final = {"PEM": "PEM", "PKCS12": "PKCS12", "JKS": "JKS"}
_LINE: Final = 64
NO_CRYPTOGRAPHY: Final = f"PKCS12 needs cryptography: {MissingExtraError.pip_line('security')}"


class KeyPem(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a client or broker: key and certificates."""

    certificate: str
    key: str
    key_password: str | None = None


def read_keystore(properties: PropertyLookup) -> KeyPem | None:
    """``ssl.keystore.*`` and ``ssl.key.password``; None where no store is named.

    Raises:
        WrongPropertyError: A store can't be read, or the properties don't fit together.
    """
    kind, location, password = _store(properties, _KEYSTORE)
    chain, key = properties.get(_KEYSTORE + "certificate.chain"), properties.get(_KEYSTORE + "key")
    key_password = properties.text("ssl.key.password")
    if key is not None:
        _check_inline(properties, key, kind, location, password, "ssl.keystore")
        if chain is None:
            raise WrongPropertyError(key, "a key without ssl.keystore.certificate.chain")
        return KeyPem(
            certificate=_blocks(chain, chain.value, "CERTIFICATE"),
            key=_key(key, key.value),
            key_password=key_password,
        )
    if chain is not None:
        raise WrongPropertyError(chain, "a certificate without ssl.keystore.key")
    if location is None:
        if password is not None:
            raise WrongPropertyError(password, "a password without ssl.keystore.location")
        return None
    if kind == "PEM":
        _check_no_password(password)
        text = _text(location)
        return KeyPem(
            certificate=_blocks(location, text, "CERTIFICATE"),
            key=_key(location, text),
            key_password=key_password,
        )
    if password is None:
        raise WrongPropertyError(location, "a store without ssl.keystore.password")
    private, certificates = _pkcs12(location, password, store="ssl.keystore")
    if private is None:
        raise WrongPropertyError(location, f"{location.value}: there is no key in it")
    return KeyPem(certificate=certificates, key=private)


def read_truststore(properties: PropertyLookup) -> str | None:
    """``ssl.truststore.*``; None where no store is named.

    Raises:
        WrongPropertyError: The store can't be read, or the properties don't fit together.
    """
    kind, location, password = _store(properties, _TRUSTSTORE)
    certificates = properties.get(_TRUSTSTORE + "certificates")
    if certificates is not None:
        _check_inline(properties, certificates, kind, location, password, "ssl.truststore")
        return _blocks(certificates, certificates.value, "CERTIFICATE")
    if location is None:
        if password is not None:
            raise WrongPropertyError(password, "a password without ssl.truststore.location")
        return None
    if kind == "PEM":
        _check_no_password(password)
        return _blocks(location, _text(location), "CERTIFICATE")
    return _pkcs12(location, password, store="ssl.truststore")[1]


def _store(properties: PropertyLookup, family: str) -> tuple[str, Property | None, Property | None]:
    """Type, location and password of a store."""
    kind = properties.choice(family + "type", _TYPES, "JKS")
    location, password = properties.get(family + "location"), properties.get(family + "password")
    return kind, _unless_empty(location), _unless_empty(password)


def _unless_empty(entry: Property | None) -> Property | None:
    return entry if entry is not None and entry.value.strip() else None


def _check_inline(
    properties: PropertyLookup,
    entry: Property,
    kind: str,
    location: Property | None,
    password: Property | None,
    store: str,
) -> None:
    if kind != "PEM":
        raise WrongPropertyError(
            properties.get(f"{store}.type") or entry, f"{store}.type has to be PEM"
        )
    if location is not None:
        raise WrongPropertyError(location, f"both a location and {entry.name}")
    _check_no_password(password)


def _check_no_password(password: Property | None) -> None:
    if password is not None:
        raise WrongPropertyError(
            password, "PEM has no password but that of the key, ssl.key.password"
        )


def _blocks(entry: Property, text: str, kind: str) -> str:
    """The PEM blocks of a kind, with the line ends that OpenSSL needs."""
    pem_blocks = []
    for match in _BLOCK.finditer(text):
        if match["kind"].endswith(kind):
            body = "".join(match["body"].split())
            lines = [body[start : start + _LINE] for start in range(0, len(body), _LINE)]
            name = match["kind"]
            pem_blocks.append(
                "\n".join((f"-----BEGIN {name}-----", *lines, f"-----END {name}-----"))
            )
    if not pem_blocks:
        raise WrongPropertyError(entry, f"there is no {kind} of PEM in it")
    return "\n".join(pem_blocks) + "\n"


def _key(entry: Property, text: str) -> str:
    pem_block = _blocks(entry, text, "PRIVATE KEY")
    if pem_block.count("-----BEGIN") > 1:
        raise WrongPropertyError(entry, "one key is expected, there are several")
    return pem_block


def _bytes(entry: Property) -> bytes:
    path = entry.value.strip()
    try:
        return read_given(Path(path))
    except OSError as error:
        raise WrongPropertyError(entry, f"{path}: can't be read: {problem_of(error)}") from None


def _text(entry: Property) -> str:
    return _bytes(entry).decode("latin-1")


def _pkcs12(entry: Property, password: Property | None, *, store: str) -> tuple[str | None, str]:
    """Key and certificates of a PKCS12 file; since Java 9 the type JKS may be PKCS12 too."""
    data = _bytes(entry)
    path = entry.value.strip()
    if data.startswith(_JKS):
        raise WrongPropertyError(
            entry,
            f"{path}: Java's own kind of store can't be read here; turn it into PKCS12: keytool "
            f"-importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12, "
            f"and name that with {store}.type=PKCS12",
        )
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise WrongPropertyError(entry, NO_CRYPTOGRAPHY) from None
    try:
        keystore = pkcs12.load_pkcs12(data, None if password is None else password.value.encode())
    except ValueError as error:
        raise WrongPropertyError(
            entry, f"{path}: no PKCS12, or another password: {error}"
        ) from None
    everyone = (
        [keystore.cert, *keystore.additional_certs] if keystore.cert else keystore.additional_certs
    )
    if not everyone:
        raise WrongPropertyError(entry, f"{path}: there is no certificate in it")
    pem: Any = serialization.Encoding.PEM
    certificates = "".join(
        certificate.certificate.public_bytes(pem).decode()
        for certificate in everyone
        if certificate is not None
    )
    if keystore.key is None:
        return None, certificates
    private = keystore.key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private.decode(), certificates
