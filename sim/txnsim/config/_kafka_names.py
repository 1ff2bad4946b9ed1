"""The properties of a real broker, and why some have no effect here.

``known()`` is what ``KafkaConfig.configDef()`` of the reference lists. It tells a property that
we do without from a typing error. Settings of ours and the properties that name listeners have an
effect, and so do those of security. Every other one stands in ``kafka_properties.txt`` below the
reason why it has none.
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
"""Read by ``txnsim.config._listeners``: where clients find us."""

AUTHORIZER_PROPERTIES: Final = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""StandardAuthorizer's own, which KafkaConfig does not list."""

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
"""It passes it by with a warning, as we do (AbstractConfig.logUnused)."""
BEFORE_4: Final = "Kafka 4 has no such property any more"
"""An old server.properties is read, and what it has of these is named."""

CONFLUENT: Final = "confluent."
"""What the many properties of Confluent's own server begin with."""
_PREFIXES: Final = {
    "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
    "remote.log.storage.manager.impl.prefix": "rsm.config.",
}
"""Under whose value the properties of a plugin stand, and Kafka's defaults
(RemoteLogManagerConfig).
"""
_PROVIDERS: Final = "config.providers."
_NEAR: Final = 0.85
"""How alike a misspelt name is."""
_WORDS_MIN: Final = 3
"""Minimum number of words for a match by the first words of a property."""

ZOOKEEPER: Final = "zookeeper."


@cache
def without_effect() -> dict[str, str]:
    """Property -> the reason why it has no effect in the simulator."""
    reasons: dict[str, str] = {}
    why = ""
    for line in Path(__file__).with_name("kafka_properties.txt").read_text().splitlines():
        if line.startswith(" "):
            reasons[line.strip()] = why
        elif not line.startswith("#"):
            why = line
    return reasons


@cache
def known_properties() -> frozenset[str]:
    """Names of all properties that a broker of the simulator knows."""
    idle = {name for name, why in without_effect().items() if why != BEFORE_4}
    own_settings = {
        setting.kafka for setting in documentation().values() if setting.kafka is not None
    }
    return frozenset(
        idle | LISTENER_PROPERTIES | (SECURITY_PROPERTIES - AUTHORIZER_PROPERTIES) | own_settings
    )


def why_without_effect(name: str) -> str | None:
    """Why a Kafka property has no effect; None if it has one or is unknown."""
    return BEFORE_4 if name.startswith(ZOOKEEPER) else without_effect().get(name)


def plugin_prefixes(properties: Mapping[str, str]) -> tuple[str, ...]:
    """What the names of plugins' properties begin with, by the properties of a file."""
    named = (properties.get(name, "").strip() or default for name, default in _PREFIXES.items())
    return (*named, *_PREFIXES.values(), _PROVIDERS)


def nearest(name: str, other_names: Iterable[str] = ()) -> str | None:
    """The property that was meant by a name that is nearly one; None where it is near nothing.

    Near is a name with a slip of the pen, with the words of another one in another order, or that
    ends too early.
    """
    from difflib import get_close_matches  # seldom needed

    names = sorted({*known_properties(), *AUTHORIZER_PROPERTIES, *other_names})
    matches = get_close_matches(name, names, n=1, cutoff=_NEAR)
    if matches:
        return matches[0]
    words = _words(name)
    for candidate in names:
        candidate_words = _words(candidate)
        if sorted(candidate_words) == sorted(words) or (
            len(words) >= _WORDS_MIN and candidate_words[: len(words)] == words
        ):
            return candidate
    return None


def _words(name: str) -> list[str]:
    return re.split(r"[._-]", name)
