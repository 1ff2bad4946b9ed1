"""Values that a real broker gets from a config provider, as operators and images write them:
``${strimzidir:/opt/kafka/init:rack.id}``, ``${file:/etc/secrets.properties:password}``.

A provider is a Java class that reads files of the broker's machine. So such a value is unknown
here: its property has no effect, and a listener that needs it is not opened. Kafka's counterpart:
AbstractConfig.resolveConfigVariables, ConfigTransformer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.config._listeners import FileListener, Listeners
from txnsim.config.properties import Property

FROM_A_PROVIDER: Final = "a config provider has its value, a Java class that can't be loaded"
_VARIABLE_RE: Final = re.compile(r"\$\{[\w.-]+:[^}]*\}")
"""ConfigTransformer.DEFAULT_PATTERN."""
_TLS_PROPERTIES: Final = ("ssl.keystore.", "ssl.key.password", "ssl.truststore.")
_SASL_PROPERTIES: Final = "sasl.jaas.config"


def provided_properties(properties: Mapping[str, Property]) -> dict[str, Property]:
    """Properties whose values come from a provider, whether or not ``config.providers`` names it:
    no property of Kafka contains a literal ``${name:key}``.
    """
    return {
        name: file_property
        for name, file_property in properties.items()
        if _VARIABLE_RE.search(file_property.value)
    }


def without_unopenable(
    listeners: Listeners,
    properties: Mapping[str, Property],
    provider_properties: Mapping[str, Property],
) -> Listeners:
    """The listeners that can be opened without the values of providers."""
    closed_remarks = [
        (listener, file_property)
        for listener in listeners.clients
        if (file_property := _withheld_properties(listener, properties, provider_properties))
        is not None
    ]
    if not closed_remarks:
        return listeners
    withheld_names = frozenset(listener.name for listener, _ in closed_remarks)
    remarks = tuple(
        (file_property, f"listener {listener.name} is not opened: {FROM_A_PROVIDER}")
        for listener, file_property in closed_remarks
    )
    openable_listeners = tuple(
        listener for listener in listeners.clients if listener.name not in withheld_names
    )
    refused_properties = listeners.refusals
    if not openable_listeners:
        file_property = closed_remarks[0][0].entry
        refused_properties += (
            (
                file_property,
                "no listener is left that can be opened here: write certificates and passwords in"
                " place of ${…}, or add a listener without them, as PLAINTEXT://:9092",
            ),
        )
    return msgspec.structs.replace(
        listeners,
        clients=openable_listeners,
        closed=remarks,
        closed_names=withheld_names,
        refusals=refused_properties,
    )


def _withheld_properties(
    listener: FileListener,
    properties: Mapping[str, Property],
    provider_properties: Mapping[str, Property],
) -> Property | None:
    """The property whose unknown value prevents a listener from opening; None if it can open.

    Args:
        listener: A listener of the file.
        properties: The properties whose values are known.
        provider_properties: The others (``provided_properties``).
    """
    own_prefix = f"listener.name.{listener.name.lower()}."
    for name, file_property in provider_properties.items():
        if not name.startswith(own_prefix) and f"{own_prefix}{name}" in properties:
            continue  # the listener has one of its own
        name_suffix = name.removeprefix(own_prefix)
        if listener.protocol.has_tls and name_suffix.startswith(_TLS_PROPERTIES):
            return file_property
        if (
            listener.protocol.has_sasl
            and name_suffix.endswith(_SASL_PROPERTIES)
            and name.startswith(own_prefix)
        ):
            return file_property
    return None
