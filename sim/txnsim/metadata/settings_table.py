"""The table of Kafka's settings: a row each, for brokers, topics, groups and client metrics.

``settings/SCOPE.jsonl`` has the rows. A row says what a release of Apache Kafka knows of a setting
(type, default, valid values, how it is updated), which releases have it, and what it means here:
who reads it, or why it has no effect. Parsing, DescribeConfigs, AlterConfigs, refusals,
``--config`` and docs/settings.md follow from it. A file is read once, when the first setting of its
scope is asked for.

Kafka's counterparts: AbstractKafkaConfig, LogConfig, GroupConfig, ClientMetricsConfigs,
DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from txnsim.releases.rules import Rules, numbers

Scope = Literal["broker", "topic", "group", "client-metrics"]
SCOPES: Final[tuple[Scope, ...]] = ("broker", "topic", "group", "client-metrics")

NO_EFFECT_REASONS: Final[Mapping[str, str]] = {
    "delegation-tokens": "there are no delegation tokens",
    "event-loop": "one event loop serves every connection",
    "fetchers": "followers fetch by one fetcher per leader",
    "group-defaults": "groups keep their defaults",
    "in-memory": "partitions are kept in memory",
    "inner-login": "brokers ask each other within the process and log in nowhere",
    "jaas": "it needs listener and mechanism: listener.name.NAME.plain.sasl.jaas.config",
    "kerberos": "Kerberos is not spoken",
    "metrics": "metrics are those of the HTTP port",
    "one-process": "brokers and controller share one process; brokers are numbered from 1",
    "openssl": "OpenSSL decides on that",
    "plugin": "Java classes can't be loaded",
    "stores": "stores are read once, at the start",
    "tiered-storage": "there is no tiered storage",
    "unsecured-tokens": "tokens of OAUTHBEARER are unsecured: they have no signature",
    "unused": "nothing here depends on it",
}
"""The word in ``no_effect`` -> why a setting of brokers has no effect here."""

DISTINCT_ELEMENTS: Final = "no duplicates"
"""The valid values of a list that takes any element, but none twice (ConfigDef.ValidList)."""


class UpdateMode(Enum):
    """How a setting of brokers can be changed (DynamicBrokerConfig.dynamicConfigUpdateModes)."""

    READ_ONLY = "read-only"
    """By a restart alone."""
    PER_BROKER = "per-broker"
    """While it runs, for one broker."""
    CLUSTER_WIDE = "cluster-wide"
    """While it runs, for one broker or for all."""


class SettingFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs in earlier releases; unset fields are as in the row."""

    type: str | msgspec.UnsetType = msgspec.UNSET
    default: str | msgspec.UnsetType | None = msgspec.UNSET
    valid: str | msgspec.UnsetType = msgspec.UNSET
    importance: str | msgspec.UnsetType = msgspec.UNSET
    update: UpdateMode | msgspec.UnsetType = msgspec.UNSET
    internal: bool | msgspec.UnsetType = msgspec.UNSET


class SettingRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting of Kafka."""

    name: str
    type: str
    """ConfigDef.Type."""
    default: str | None = None
    """As Kafka prints it; None: there is none."""
    valid: str = ""
    """Valid values as Kafka prints them, such as ``[1,...]``; empty: any of the type."""
    importance: str
    update: UpdateMode = UpdateMode.READ_ONLY
    """Of a broker's."""
    internal: bool = False
    """Whether Kafka describes it only where it is set."""
    since: str = ""
    """The oldest release line that has it, among those that are emulated, or the switch of
    ``Rules`` that is on where it is; empty: all have it.
    """
    until: str = ""
    """The last release line that has it; empty: it is still there."""
    before: Mapping[str, SettingFacts] = {}
    """Release line, or switch of ``Rules`` -> what differs before it, or while the switch is off;
    the newest first.
    """
    broker: str | None = None
    """The setting of brokers that a topic's or a group's falls back to."""
    synonyms: tuple[str, ...] = ()
    """Of a broker's: names that stand for the same, the one with precedence first
    (DynamicBrokerConfig.brokerConfigSynonyms).
    """
    read_by: Literal["", "settings", "listeners", "security"] = ""
    """Who reads a broker's setting: ``txnsim.settings``, or the part of ``txnsim.config`` for
    listeners or security. Empty if nobody reads it.
    """
    no_effect: str = ""
    """Why a broker's setting has no effect: a key of ``NO_EFFECT_REASONS``."""
    about: str = ""
    """What it is for, in our words; empty where ``txnsim.settings`` or ``broker`` says it."""

    def is_in(self, release_rules: Rules) -> bool:
        """Whether the release with these rules has the setting."""
        return _is_reached(self.since, release_rules) and not self.is_gone_in(release_rules)

    def is_gone_in(self, release_rules: Rules) -> bool:
        """Whether an earlier release was the last one that had the setting."""
        return bool(self.until) and numbers(release_rules.version)[:2] > numbers(self.until)

    def facts_in(self, release_rules: Rules) -> SettingRow:
        """The row with the facts of a release. Of a release that lacks the setting it has those of
        the nearest release that has it.
        """
        changed_facts: dict[str, object] = {}
        for line_or_switch, earlier_facts in self.before.items():
            if not _is_reached(line_or_switch, release_rules):
                changed_facts |= {
                    field: value
                    for field, value in msgspec.structs.asdict(earlier_facts).items()
                    if value is not msgspec.UNSET
                }
        return msgspec.structs.replace(self, **changed_facts) if changed_facts else self


def _is_reached(line_or_switch: str, release_rules: Rules) -> bool:
    if not line_or_switch:
        return True
    if line_or_switch[0].isdigit():
        return numbers(release_rules.version) >= numbers(line_or_switch)
    is_on: bool = getattr(release_rules, line_or_switch)
    return is_on


@cache
def setting_rows(scope: Scope) -> Mapping[str, SettingRow]:
    """Name -> row of every setting of a scope that any release has, in the order of the file."""
    text = (Path(__file__).with_name("settings") / f"{scope}.jsonl").read_bytes()
    rows = msgspec.json.Decoder(SettingRow).decode_lines(text)
    return MappingProxyType({row.name: row for row in rows})
