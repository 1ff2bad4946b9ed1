"""How a client reaches brokers, in Java's properties: ``security.protocol`` and the rest.

Unsupported settings are refused: a client that asks for TLS must not connect in plaintext. Kafka's
counterparts: CommonClientConfigs, SaslConfigs, SslConfigs, ChannelBuilders.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.client.authentication import ClientSecurity
from txnsim.config._stores import read_keystore, read_truststore
from txnsim.config.lookup import PropertyLookup, WrongPropertyError
from txnsim.config.properties import Property
from txnsim.security.jaas import parse_login
from txnsim.security.login import Credential, credential_from
from txnsim.security.options import ClientTls, SecurityProtocol
from txnsim.security.sasl import MECHANISMS

PROTOCOLS: Final = {protocol.name: protocol for protocol in SecurityProtocol}
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_GSSAPI: Final = "GSSAPI"
_FOREIGN_CLASSES: Final = (
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.token.endpoint.url",
)
"""Callback handlers, with which a client gets its credentials from other programs; not
supported.
"""


def read_client_security(
    property_by_name: Mapping[str, Property],
) -> tuple[ClientSecurity, set[str]]:
    """Protocol, certificates and credentials of a client, and the properties that were used.

    Raises:
        WrongPropertyError: A property is not supported.
    """
    properties = PropertyLookup(property_by_name)
    protocol = properties.choice("security.protocol", PROTOCOLS, SecurityProtocol.PLAINTEXT)
    tls = _tls_settings(properties) if protocol.has_tls else ClientTls()
    if not protocol.has_sasl:
        return ClientSecurity(protocol=protocol, tls=tls), properties.used_names
    mechanism, credential = _login_credential(properties)
    return (
        ClientSecurity(protocol=protocol, tls=tls, mechanism=mechanism, credential=credential),
        properties.used_names,
    )


def read_tls_versions(properties: PropertyLookup) -> tuple[str, ...]:
    """The versions in ``ssl.enabled.protocols``; empty if it is not set.

    Raises:
        WrongPropertyError: A version is not supported.
    """
    file_property = properties.get("ssl.enabled.protocols")
    version_names = properties.names("ssl.enabled.protocols")
    for version in version_names:
        if file_property is not None and version not in TLS_VERSIONS:
            versions_spoken = " and ".join(TLS_VERSIONS)
            raise WrongPropertyError(
                file_property, f"{version} is not spoken here, only {versions_spoken}"
            )
    return version_names


def _tls_settings(properties: PropertyLookup) -> ClientTls:
    identification_algorithm = properties.choice(
        "ssl.endpoint.identification.algorithm", {"https": "https", "": ""}, "https"
    )
    trusted_certificates, own_key = read_truststore(properties), read_keystore(properties)
    tls_versions = read_tls_versions(properties)
    tls = ClientTls(
        authority=trusted_certificates,
        checks_host=bool(identification_algorithm),
        versions=tls_versions,
    )
    return (
        tls if own_key is None else msgspec.structs.replace(tls, **msgspec.structs.asdict(own_key))
    )


def _login_credential(properties: PropertyLookup) -> tuple[str, Credential]:
    """The SASL mechanism and the credential."""
    for mechanism_property in _FOREIGN_CLASSES:
        file_property = properties.get(mechanism_property)
        if file_property is not None and file_property.value.strip():
            raise WrongPropertyError(
                file_property,
                "credentials come from sasl.jaas.config alone here; a token is unsecured",
            )
    protocol_property = properties.get("security.protocol")
    assert protocol_property is not None, "SASL was asked for"
    mechanism = properties.text("sasl.mechanism") or _GSSAPI
    if mechanism not in MECHANISMS:
        default_mechanism = ", the default," if properties.text("sasl.mechanism") is None else ""
        raise WrongPropertyError(
            properties.get("sasl.mechanism") or protocol_property,
            f"the mechanism {mechanism}{default_mechanism} is not spoken here; name one of"
            f" sasl.mechanism=" + ", ".join(MECHANISMS),
        )
    jaas_module = properties.get("sasl.jaas.config")
    if jaas_module is None:
        raise WrongPropertyError(
            protocol_property, "it needs sasl.jaas.config, which says who logs in"
        )
    try:
        return mechanism, credential_from(mechanism, parse_login(jaas_module.value))
    except ValueError as error:
        raise WrongPropertyError(jaas_module, str(error)) from None
