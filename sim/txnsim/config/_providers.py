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
    return {name: entry for name, entry in properties.items() if _VARIABLE_RE.search(entry.value)}


def without_unopenable(
    listeners: Listeners,
    properties: Mapping[str, Property],
    provided_entries: Mapping[str, Property],
) -> Listeners:
    """The listeners that can be opened without the values of providers."""
    closed_remarks = [
        (listener, entry)
        for listener in listeners.clients
        if (entry := _withheld_properties(listener, properties, provided_entries)) is not None
    ]
    if not closed_remarks:
        return listeners
    withheld_names = frozenset(listener.name for listener, _ in closed_remarks)
    remarks = tuple(
        (entry, f"listener {listener.name} is not opened: {FROM_A_PROVIDER}")
        for listener, entry in closed_remarks
    )
    openable_listeners = tuple(
        listener for listener in listeners.clients if listener.name not in withheld_names
    )
    refused = listeners.refusals
    if not openable_listeners:
        entry = closed_remarks[0][0].entry
        refused += (
            (
                entry,
                "no listener is left that can be opened here: write certificates and passwords in"
                " place of ${…}, or add a listener without them, as PLAINTEXT://:9092",
            ),
        )
    return msgspec.structs.replace(
        listeners,
        clients=openable_listeners,
        closed=remarks,
        closed_names=withheld_names,
        refusals=refused,
    )


def _withheld_properties(
    listener: FileListener,
    properties: Mapping[str, Property],
    provided_entries: Mapping[str, Property],
) -> Property | None:
    """The property whose unknown value prevents a listener from opening; None if it can open.

    Args:
        listener: A listener of the file.
        properties: The properties whose values are known.
        provided_entries: The others (``provided_properties``).
    """
    own_prefix = f"listener.name.{listener.name.lower()}."
    for name, entry in provided_entries.items():
        if not name.startswith(own_prefix) and f"{own_prefix}{name}" in properties:
            continue  # the listener has one of its own
        name_suffix = name.removeprefix(own_prefix)
        if listener.protocol.has_tls and name_suffix.startswith(_TLS_PROPERTIES):
            return entry
        if (
            listener.protocol.has_sasl
            and name_suffix.endswith(_SASL_PROPERTIES)
            and name.startswith(own_prefix)
        ):
            return entry
    return None
