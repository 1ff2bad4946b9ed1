"""The properties of a real broker, and why some have no effect here.

``known_properties()`` is the list of ``KafkaConfig.configDef()`` in the reference release. It
distinguishes a property that we do not need from a misspelt one. Our settings, and properties of
listeners and security, have an effect. ``kafka_properties.txt`` lists all others below the reason
why they have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from txnsim.releases import REFERENCE
from txnsim.settings import documentation

LISTENER_PROPERTIES: Final = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "listener.security.protocol.map",
        "listeners",
    }
)
"""Read by ``txnsim.config._listeners``: where clients connect."""

AUTHORIZER_PROPERTIES: Final = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""Properties of StandardAuthorizer, which KafkaConfig does not list."""

SECURITY_PROPERTIES: Final = AUTHORIZER_PROPERTIES | {
    "authorizer.class.name",
    "connection.failed.authentication.delay.ms",
    "connections.max.reauth.ms",
    "principal.builder.class",
    "sasl.enabled.mechanisms",
    "sasl.server.callback.handler.class",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
}
"""Read by ``txnsim.config._broker_security``."""

ONE_PROCESS: Final = "brokers and controller share one process; brokers are numbered from 1"
NOT_OPENED: Final = "its listener is not opened"
NO_LISTENER_FOR_IT: Final = "no listener has a use for it"
OF_PLUGINS: Final = "Java classes can't be loaded, and it is for one of them"
OF_NOBODY: Final = f"a broker of Apache Kafka {REFERENCE.name} has no such property"
"""The warning for an unknown property, which a broker ignores with a warning too
(AbstractConfig.logUnused).
"""
BEFORE_4: Final = "Kafka 4 has no such property any more"
"""The warning for properties that an old server.properties may still have."""

CONFLUENT: Final = "confluent."
"""Prefix of the many properties of Confluent's own server."""
_IDLE_PREFIXES: Final = {
    "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
    "remote.log.storage.manager.impl.prefix": "rsm.config.",
}
"""The property that sets the prefix of a plugin's properties -> Kafka's default prefix
(RemoteLogManagerConfig).
"""
_PROVIDER_PROPERTIES: Final = "config.providers."
_SIMILARITY_MIN: Final = 0.85
"""Least similarity of a misspelt name."""
_SHARED_WORDS_MIN: Final = 3
"""Least number of words for matching a property by its first words."""

ZOOKEEPER: Final = "zookeeper."


@cache
def without_effect() -> dict[str, str]:
    """Property -> the reason why it has no effect in the simulator."""
    reasons: dict[str, str] = {}
    reason = ""
    for line in Path(__file__).with_name("kafka_properties.txt").read_text().splitlines():
        if line.startswith(" "):
            reasons[line.strip()] = reason
        elif not line.startswith("#"):
            reason = line
    return reasons


@cache
def known_properties() -> frozenset[str]:
    """Names of all properties that a broker of the simulator knows."""
    idle_names = {
        property_name
        for property_name, idle_reason in without_effect().items()
        if idle_reason != BEFORE_4
    }
    own_settings = {
        setting.kafka for setting in documentation().values() if setting.kafka is not None
    }
    return frozenset(
        idle_names
        | LISTENER_PROPERTIES
        | (SECURITY_PROPERTIES - AUTHORIZER_PROPERTIES)
        | own_settings
    )


def why_without_effect(property_name: str) -> str | None:
    """Why a Kafka property has no effect; None if it has one or is unknown."""
    return BEFORE_4 if property_name.startswith(ZOOKEEPER) else without_effect().get(property_name)


def plugin_prefixes(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Prefixes of plugins' properties, as a file sets them."""
    named_prefixes = (
        properties.get(property_name, "").strip() or default
        for property_name, default in _IDLE_PREFIXES.items()
    )
    return (*named_prefixes, *_IDLE_PREFIXES.values(), _PROVIDER_PROPERTIES)


def nearest(name: str, other_names: Iterable[str] = ()) -> str | None:
    """The property that a misspelt name most likely means; None if none is similar. Similar names
    have a typing error, the same words in another order, or lack the last words.
    """
    from difflib import get_close_matches  # seldom needed

    names = sorted({*known_properties(), *AUTHORIZER_PROPERTIES, *other_names})
    close_matches = get_close_matches(name, names, n=1, cutoff=_SIMILARITY_MIN)
    if close_matches:
        return close_matches[0]
    name_words = _words_of_name(name)
    for candidate_name in names:
        candidate_words = _words_of_name(candidate_name)
        if sorted(candidate_words) == sorted(name_words) or (
            len(name_words) >= _SHARED_WORDS_MIN
            and candidate_words[: len(name_words)] == name_words
        ):
            return candidate_name
    return None


def _words_of_name(name: str) -> list[str]:
    return re.split(r"[._-]", name)
