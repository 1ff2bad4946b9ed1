"""The properties of a real broker, and why some have no effect here.

``known_properties()`` is the list of ``KafkaConfig.configDef()`` in the releases that read the file
(``txnsim.metadata.settings_table``). It distinguishes a property that we do not need from a
misspelt one. Our settings, and properties of listeners and security, have an effect; of all others
the table says why they have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from txnsim.metadata.settings_table import NO_EFFECT_REASONS, SettingRow, setting_rows
from txnsim.releases import Rules, releases_in

AUTHORIZER_PROPERTIES: Final = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""Properties of StandardAuthorizer, which KafkaConfig does not list."""

ONE_PROCESS: Final = NO_EFFECT_REASONS["one-process"]
OF_OLD_RELEASE: Final = NO_EFFECT_REASONS["unused"]
"""Of a property that the file's release has, and no longer the reference."""
NOT_OPENED: Final = "its listener is not opened"
NO_LISTENER_FOR_IT: Final = "no listener has a use for it"
OF_PLUGINS: Final = "Java classes can't be loaded, and it is for one of them"
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


class FileReaders(msgspec.Struct, frozen=True):
    """The releases of the brokers that read a file: several where a cluster has several."""

    names: tuple[str, ...]
    """Their names, the oldest first."""
    rules: tuple[Rules, ...]

    def have(self, row: SettingRow) -> bool:
        """Whether at least one of the brokers' releases has the setting."""
        return any(row.is_in(release_rules) for release_rules in self.rules)

    @property
    def without_it(self) -> str:
        """The warning about an unknown property, which a broker ignores with a warning too
        (AbstractConfig.logUnused).
        """
        return f"a broker of Apache Kafka {' or '.join(self.names)} has no such property"

    @property
    def unknown_name(self) -> str:
        """The error about a name that is most likely misspelt."""
        return f"no such setting here, nor property of a Kafka {' or '.join(self.names)} broker"


def file_readers(version_texts: Sequence[str] = ()) -> FileReaders:
    """The brokers that read a configuration file, by their releases.

    Args:
        version_texts: The values of ``--as-version``.

    Raises:
        ConfigError: There is no such release.
    """
    releases = releases_in(version_texts)
    return FileReaders(
        names=tuple(release.name for release in releases),
        rules=tuple(release.rules for release in releases),
    )


REFERENCE_READERS: Final = file_readers()
"""Brokers of the reference release."""


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
def known_properties(readers: FileReaders = REFERENCE_READERS) -> frozenset[str]:
    """Names of all properties that the brokers know."""
    return frozenset(row.name for row in setting_rows("broker").values() if readers.have(row))


def why_without_effect(property_name: str, readers: FileReaders = REFERENCE_READERS) -> str | None:
    """Why a Kafka property has no effect; None if it has one or is unknown."""
    row = setting_rows("broker").get(property_name)
    if row is None:
        return BEFORE_4 if property_name.startswith(ZOOKEEPER) else None
    if not readers.have(row):
        is_gone = all(row.is_gone_in(release_rules) for release_rules in readers.rules)
        return BEFORE_4 if is_gone else readers.without_it
    if row.read_by:
        return None
    return NO_EFFECT_REASONS[row.no_effect] if row.no_effect else OF_OLD_RELEASE


def plugin_prefixes(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Prefixes of plugins' properties, as a file sets them."""
    named_prefixes = (
        properties.get(property_name, "").strip() or default
        for property_name, default in _IDLE_PREFIXES.items()
    )
    return (*named_prefixes, *_IDLE_PREFIXES.values(), _PROVIDER_PROPERTIES)


def nearest(
    name: str, other_names: Iterable[str] = (), *, readers: FileReaders = REFERENCE_READERS
) -> str | None:
    """The property that a misspelt name most likely means; None if none is similar. Similar names
    have a typing error, the same words in another order, or lack the last words.
    """
    from difflib import get_close_matches  # seldom needed

    candidate_names = sorted({*known_properties(readers), *AUTHORIZER_PROPERTIES, *other_names})
    close_matches = get_close_matches(name, candidate_names, n=1, cutoff=_SIMILARITY_MIN)
    if close_matches:
        return close_matches[0]
    name_words = _words_of_name(name)
    for candidate_name in candidate_names:
        candidate_words = _words_of_name(candidate_name)
        if sorted(candidate_words) == sorted(name_words) or (
            len(name_words) >= _SHARED_WORDS_MIN
            and candidate_words[: len(name_words)] == name_words
        ):
            return candidate_name
    return None


def _words_of_name(name: str) -> list[str]:
    return re.split(r"[._-]", name)
