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

_KEYSTORE_PREFIX: Final = "ssl.keystore."
_TRUSTSTORE_PREFIX: Final = "ssl.truststore."
_PEM_BLOCK_RE: Final = re.compile(
    r"-+BEGIN\s+(?P<kind>[^-]*?)\s*-+\s+(?:[^:\r\n-]*:[^\r\n]*[\r\n]+)*"
    r"(?P<body>[A-Za-z0-9+/=\s]+)-+END\s+[^-]*-+"
)
_JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""First bytes of Java's own store formats (JKS, JCEKS)."""
_STORE_TYPES: Final = {"PEM": "PEM", "PKCS12": "PKCS12", "JKS": "JKS"}
_PEM_LINE_LENGTH: Final = 64
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
    store_type, location_property, password_property = _store_properties(
        properties, _KEYSTORE_PREFIX
    )
    chain_property, key_property = (
        properties.get(_KEYSTORE_PREFIX + "certificate.chain"),
        properties.get(_KEYSTORE_PREFIX + "key"),
    )
    key_password = properties.text("ssl.key.password")
    if key_property is not None:
        _check_inline(
            properties,
            key_property,
            store_type,
            location_property,
            password_property,
            "ssl.keystore",
        )
        if chain_property is None:
            raise WrongPropertyError(key_property, "a key without ssl.keystore.certificate.chain")
        return KeyPem(
            certificate=_pem_blocks(chain_property, chain_property.value, "CERTIFICATE"),
            key=_private_key(key_property, key_property.value),
            key_password=key_password,
        )
    if chain_property is not None:
        raise WrongPropertyError(chain_property, "a certificate without ssl.keystore.key")
    if location_property is None:
        if password_property is not None:
            raise WrongPropertyError(password_property, "a password without ssl.keystore.location")
        return None
    if store_type == "PEM":
        _check_no_password(password_property)
        pem_text = _file_text(location_property)
        return KeyPem(
            certificate=_pem_blocks(location_property, pem_text, "CERTIFICATE"),
            key=_private_key(location_property, pem_text),
            key_password=key_password,
        )
    if password_property is None:
        raise WrongPropertyError(location_property, "a store without ssl.keystore.password")
    private_key, certificates = _read_pkcs12(
        location_property, password_property, store_property="ssl.keystore"
    )
    if private_key is None:
        raise WrongPropertyError(
            location_property, f"{location_property.value}: there is no key in it"
        )
    return KeyPem(certificate=certificates, key=private_key)


def read_truststore(properties: PropertyLookup) -> str | None:
    """``ssl.truststore.*``; None where no store is named.

    Raises:
        WrongPropertyError: The store can't be read, or the properties don't fit together.
    """
    store_type, location_property, password_property = _store_properties(
        properties, _TRUSTSTORE_PREFIX
    )
    certificates = properties.get(_TRUSTSTORE_PREFIX + "certificates")
    if certificates is not None:
        _check_inline(
            properties,
            certificates,
            store_type,
            location_property,
            password_property,
            "ssl.truststore",
        )
        return _pem_blocks(certificates, certificates.value, "CERTIFICATE")
    if location_property is None:
        if password_property is not None:
            raise WrongPropertyError(
                password_property, "a password without ssl.truststore.location"
            )
        return None
    if store_type == "PEM":
        _check_no_password(password_property)
        return _pem_blocks(location_property, _file_text(location_property), "CERTIFICATE")
    return _read_pkcs12(location_property, password_property, store_property="ssl.truststore")[1]


def _store_properties(
    properties: PropertyLookup, name_prefix: str
) -> tuple[str, Property | None, Property | None]:
    """Type, location and password of a store."""
    store_type = properties.choice(name_prefix + "type", _STORE_TYPES, "JKS")
    location_property, password_property = (
        properties.get(name_prefix + "location"),
        properties.get(name_prefix + "password"),
    )
    return store_type, _unless_empty(location_property), _unless_empty(password_property)


def _unless_empty(file_property: Property | None) -> Property | None:
    return file_property if file_property is not None and file_property.value.strip() else None


def _check_inline(
    properties: PropertyLookup,
    file_property: Property,
    store_type: str,
    location_property: Property | None,
    password_property: Property | None,
    store_property: str,
) -> None:
    if store_type != "PEM":
        raise WrongPropertyError(
            properties.get(f"{store_property}.type") or file_property,
            f"{store_property}.type has to be PEM",
        )
    if location_property is not None:
        raise WrongPropertyError(location_property, f"both a location and {file_property.name}")
    _check_no_password(password_property)


def _check_no_password(password_property: Property | None) -> None:
    if password_property is not None:
        raise WrongPropertyError(
            password_property, "PEM has no password but that of the key, ssl.key.password"
        )


def _pem_blocks(store_property: Property, pem_text: str, block_kind: str) -> str:
    """The PEM blocks of a kind, with the line ends that OpenSSL needs."""
    pem_blocks = []
    for block_match in _PEM_BLOCK_RE.finditer(pem_text):
        if block_match["kind"].endswith(block_kind):
            base64_text = "".join(block_match["body"].split())
            body_lines = [
                base64_text[line_start : line_start + _PEM_LINE_LENGTH]
                for line_start in range(0, len(base64_text), _PEM_LINE_LENGTH)
            ]
            name = block_match["kind"]
            pem_blocks.append(
                "\n".join((f"-----BEGIN {name}-----", *body_lines, f"-----END {name}-----"))
            )
    if not pem_blocks:
        raise WrongPropertyError(store_property, f"there is no {block_kind} of PEM in it")
    return "\n".join(pem_blocks) + "\n"


def _private_key(store_property: Property, pem_text: str) -> str:
    pem_block = _pem_blocks(store_property, pem_text, "PRIVATE KEY")
    if pem_block.count("-----BEGIN") > 1:
        raise WrongPropertyError(store_property, "one key is expected, there are several")
    return pem_block


def _file_bytes(location_property: Property) -> bytes:
    store_path = location_property.value.strip()
    try:
        return read_given(Path(store_path))
    except OSError as error:
        raise WrongPropertyError(
            location_property, f"{store_path}: can't be read: {problem_of(error)}"
        ) from None


def _file_text(location_property: Property) -> str:
    return _file_bytes(location_property).decode("latin-1")


def _read_pkcs12(
    file_property: Property, password_property: Property | None, *, store_property: str
) -> tuple[str | None, str]:
    """Key and certificates of a PKCS12 file; since Java 9 the type JKS may be PKCS12 too."""
    store_bytes = _file_bytes(file_property)
    path = file_property.value.strip()
    if store_bytes.startswith(_JKS_MAGIC):
        raise WrongPropertyError(
            file_property,
            f"{path}: Java's own kind of store can't be read here; turn it into PKCS12: keytool "
            f"-importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12, "
            f"and name that with {store_property}.type=PKCS12",
        )
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise WrongPropertyError(file_property, NO_CRYPTOGRAPHY) from None
    try:
        keystore = pkcs12.load_pkcs12(
            store_bytes, None if password_property is None else password_property.value.encode()
        )
    except ValueError as error:
        raise WrongPropertyError(
            file_property, f"{path}: no PKCS12, or another password: {error}"
        ) from None
    certificate_chain = (
        [keystore.cert, *keystore.additional_certs] if keystore.cert else keystore.additional_certs
    )
    if not certificate_chain:
        raise WrongPropertyError(file_property, f"{path}: there is no certificate in it")
    pem_text: Any = serialization.Encoding.PEM
    certificates = "".join(
        certificate.certificate.public_bytes(pem_text).decode()
        for certificate in certificate_chain
        if certificate is not None
    )
    if keystore.key is None:
        return None, certificates
    private_key = keystore.key.private_bytes(
        pem_text, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private_key.decode(), certificates
