"""The properties of a real broker, and why some have no effect here.

``known_properties()`` is the list of ``KafkaConfig.configDef()`` in the reference release
(``txnsim.metadata.settings_table``). It distinguishes a property that we do not need from a
misspelt one. Our settings, and properties of listeners and security, have an effect; of all others
the table says why they have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from txnsim.metadata.settings_table import NO_EFFECT_REASONS, setting_rows
from txnsim.releases import REFERENCE
from txnsim.releases.rules import LATEST

AUTHORIZER_PROPERTIES: Final = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""Properties of StandardAuthorizer, which KafkaConfig does not list."""

ONE_PROCESS: Final = NO_EFFECT_REASONS["one-process"]
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
def listener_properties() -> frozenset[str]:
    """Properties that ``txnsim.config._listeners`` reads: where clients connect."""
    return _read_by("listeners")


@cache
def security_properties() -> frozenset[str]:
    """Properties that ``txnsim.config._broker_security`` reads."""
    return _read_by("security") | AUTHORIZER_PROPERTIES


def _read_by(reader: str) -> frozenset[str]:
    return frozenset(row.name for row in setting_rows("broker").values() if row.read_by == reader)


@cache
def known_properties() -> frozenset[str]:
    """Names of all properties that a broker of the reference release knows."""
    return frozenset(row.name for row in setting_rows("broker").values() if row.is_in(LATEST))


def why_without_effect(property_name: str) -> str | None:
    """Why a Kafka property has no effect; None if it has one or is unknown."""
    if property_name.startswith(ZOOKEEPER):
        return BEFORE_4
    row = setting_rows("broker").get(property_name)
    if row is None:
        return None
    if not row.is_in(LATEST):
        return BEFORE_4 if row.until else OF_NOBODY
    return None if row.read_by else NO_EFFECT_REASONS[row.no_effect]


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
