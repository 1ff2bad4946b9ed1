"""What the jars of each release say of settings: of brokers, topics, groups and client metrics.

``python -m tests.support.kafka_settings`` records ``kafka_settings.jsonl`` again (Java 17, Maven),
a line per setting: scope, name, and release line -> facts, where they changed; null where the
setting is gone. The table of settings is held against it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.support.apache_kafka import kafka_libs, tool
from txnsim.metadata.settings_table import SCOPES, setting_rows
from txnsim.releases import RELEASES, Release

Facts = dict[str, Any]
FactsByName = dict[tuple[str, str], Facts]
"""(scope, name) -> facts."""

RECORDED: Final = Path(__file__).with_name("kafka_settings.jsonl")
OTHER_VALUES: Final = "other"
"""Stands for valid values that Kafka tells as a sentence, or as a list of all of its versions."""
_SOURCE: Final = Path(__file__).with_name("java") / "settings" / "KafkaSettings.java"
_VALID_VALUES_MAX: Final = 100


def facts_of_jars(version: str) -> FactsByName:
    """The settings of a release, from the classes in its jars."""
    command = [tool("java", "Kafka's classes need it"), "-cp", f"{kafka_libs(version)}/*"]
    process = subprocess.run(
        [*command, str(_SOURCE)], capture_output=True, text=True, check=True, timeout=300
    )
    facts_by_name = {}
    for row in map(json.loads, process.stdout.splitlines()):
        scope, name = row.pop("scope"), row.pop("name")
        facts_by_name[scope, name] = _tidy_facts(row)
    return facts_by_name


def _tidy_facts(row: Facts) -> Facts:
    """The facts of a setting without a single synonym, which is the setting itself."""
    valid_values = row.pop("valid")
    if valid_values is not None and len(valid_values) > _VALID_VALUES_MAX:
        valid_values = OTHER_VALUES
    synonyms = row.pop("synonyms", ())
    row.pop("required")
    return {
        **row,
        "valid": "no duplicates" if valid_values == "" else valid_values or "",
        "importance": row["importance"].lower(),
        "update": row.pop("update", "read-only"),
        "synonyms": synonyms if len(synonyms) > 1 else [],
    }


def recorded_facts(line: str) -> FactsByName:
    """The recorded settings of a release line."""
    lines = [release.name for release in RELEASES.values() if release.is_released]
    facts_by_name = {}
    for row in map(json.loads, RECORDED.read_text("utf-8").splitlines()):
        facts = None
        for known_line in lines[: lines.index(line) + 1]:
            facts = row["facts"].get(known_line, facts)
        if facts is not None:
            facts_by_name[row["scope"], row["name"]] = facts
    return facts_by_name


def table_facts(release: Release) -> FactsByName:
    """The settings of a release, from our table."""
    return {
        (scope, row.name): {
            "type": setting_row.type,
            "default": setting_row.default,
            "internal": setting_row.internal,
            "valid": setting_row.valid,
            "importance": setting_row.importance,
            "update": setting_row.update.value,
            "synonyms": [*setting_row.synonyms],
        }
        for scope in SCOPES
        for row in setting_rows(scope).values()
        if row.is_in(release.rules)
        for setting_row in [row.facts_in(release.rules)]
    }


def differences(ours: FactsByName, theirs: FactsByName) -> Iterator[str]:
    """A line for each difference between the table and the jars."""
    for scope, name in sorted(ours.keys() ^ theirs.keys()):
        has_it = "the table" if (scope, name) in ours else "Kafka"
        yield f"{scope} {name}: only {has_it} has it"
    for scope, name in sorted(ours.keys() & theirs.keys()):
        for field_name, their_fact in theirs[scope, name].items():
            our_fact = ours[scope, name][field_name]
            if our_fact != their_fact and their_fact != OTHER_VALUES:
                yield f"{scope} {name}: {field_name} is {their_fact!r}, the table has {our_fact!r}"


def _recording(facts_by_line: Mapping[str, FactsByName]) -> Iterator[str]:
    names = dict.fromkeys(name for facts in facts_by_line.values() for name in facts)
    for scope, name in sorted(names):
        changes: dict[str, Facts | None] = {}
        facts_before: Facts | None = None
        for line, facts_by_name in facts_by_line.items():
            facts = facts_by_name.get((scope, name))
            if facts != facts_before:
                changes[line] = facts_before = facts
        yield json.dumps({"scope": scope, "name": name, "facts": changes})


if __name__ == "__main__":
    recording = _recording(
        {
            release.name: facts_of_jars(release.patch_release)
            for release in RELEASES.values()
            if release.is_released
        }
    )
    RECORDED.write_text("".join(f"{line}\n" for line in recording), "utf-8")
