"""The table of settings: held against what Kafka's jars say, and whole in itself."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.kafka_settings import FactsByName, differences, recorded_facts, table_facts
from txnsim.metadata.config_keys import BOOLEAN, INT, config_key, config_keys
from txnsim.metadata.configs import broker_configs, text
from txnsim.metadata.settings_table import (
    NO_EFFECT_REASONS,
    SCOPES,
    Scope,
    SettingFacts,
    SettingRow,
    UpdateMode,
    setting_rows,
)
from txnsim.releases import LATEST_RULES, RELEASES, Release, Rules
from txnsim.settings import DEFAULTS, documentation

BROKER_CONFIGS = broker_configs(LATEST_RULES)
RELEASED = [release for release in RELEASES.values() if release.is_released]
SETTINGS = {
    setting.kafka: field for field, setting in documentation().items() if setting.kafka is not None
}


@pytest.mark.parametrize("release", RELEASED, ids=lambda release: release.name)
def test_a_release_has_the_settings_of_its_jars(release: Release) -> None:
    kafka_facts = recorded_facts(release.name)
    assert len(kafka_facts) > 200
    assert [*differences(table_facts(release), kafka_facts)] == []


def test_a_difference_is_noticed() -> None:
    kafka_facts = recorded_facts("4.4")
    changed_facts: FactsByName = {**kafka_facts, ("topic", "retention.ms"): {"type": "INT"}}
    del changed_facts["broker", "node.id"]
    changed_facts["group", "new"] = {}
    assert [*differences(table_facts(RELEASES["4.4"]), changed_facts)] == [
        "broker node.id: only the table has it",
        "group new: only Kafka has it",
        "topic retention.ms: type is 'INT', the table has 'LONG'",
    ]


@pytest.mark.parametrize(
    ("name", "names_of_release"),
    [("2.8", 233), ("3.5", 282), ("3.9", 329), ("4.0", 306), ("4.3", 360), ("4.4", 379)],
)
def test_brokers_of_a_release_have_as_many_settings_as_its_jars_list(
    name: str, names_of_release: int
) -> None:
    assert len(config_keys("broker", RELEASES[name].rules)) == names_of_release


def test_facts_are_those_of_the_release() -> None:
    threads = "num.recovery.threads.per.data.dir"
    for name, default_text in (("3.9", "1"), ("4.0", "2"), ("4.4", "2")):
        assert config_keys("broker", RELEASES[name].rules)[threads].default == default_text
    segments = "log.segment.bytes"
    for name, minimum in (("3.9", 14), ("4.0", 1_048_576)):
        assert config_keys("broker", RELEASES[name].rules)[segments].minimum == minimum


def test_a_release_without_the_config_still_has_its_facts() -> None:
    # KIP-937 came with 3.6; what a log of an older release does without it is the old default.
    older_rules = RELEASES["3.5"].rules
    bound = "message.timestamp.after.max.ms"
    assert bound not in config_keys("topic", older_rules)
    assert config_key("topic", bound, older_rules).default == str(2**63 - 1)
    assert config_key("topic", bound, LATEST_RULES).default == "3600000"


def row(**row_fields: object) -> SettingRow:
    return msgspec.convert(
        {"name": "n", "type": "INT", "importance": "low", **row_fields}, SettingRow
    )


@pytest.mark.parametrize(
    ("since", "until", "version", "has_it"),
    [
        ("", "", "2.8.2", True),
        ("4.0", "", "3.9.2", False),
        ("4.0", "", "4.0.0", True),
        ("4.0", "4.1", "4.1.2", True),
        ("4.0", "4.1", "4.2.0", False),
        ("4.2.1", "", "4.2.0", False),
        ("4.2.1", "", "4.2.1", True),
        ("4.5", "", "4.4.0", False),
        ("4.5", "", "4.5.0", True),
    ],
)
def test_since_and_until_are_both_of_the_range(
    since: str, until: str, version: str, has_it: bool
) -> None:
    assert row(since=since, until=until).is_in(Rules(version=version)) is has_it


def test_a_switch_may_stand_for_releases() -> None:
    switch_row = row(
        since="topics_have_dead_letters",
        before={"decompression_is_bounded": SettingFacts(default="1", type="LONG")},
    )
    assert switch_row.is_in(LATEST_RULES)
    assert not switch_row.is_in(Rules(topics_have_dead_letters=False))
    assert switch_row.facts_in(LATEST_RULES) is switch_row
    older_row = switch_row.facts_in(Rules(decompression_is_bounded=False))
    assert (older_row.default, older_row.type, older_row.importance) == ("1", "LONG", "low")


def test_the_older_of_two_changes_wins() -> None:
    row_changed_twice = row(
        default="3",
        update="cluster-wide",
        before={"4.0": {"default": "2"}, "3.5": {"default": None, "update": "read-only"}},
    )
    for version, expected in (
        ("4.0.0", ("3", UpdateMode.CLUSTER_WIDE)),
        ("3.9.2", ("2", UpdateMode.CLUSTER_WIDE)),
        ("2.8.2", (None, UpdateMode.READ_ONLY)),
    ):
        setting_row = row_changed_twice.facts_in(Rules(version=version))
        assert (setting_row.default, setting_row.update) == expected


@pytest.mark.parametrize("scope", SCOPES)
def test_what_a_row_names_exists(scope: Scope) -> None:
    lines, switches = RELEASES.keys(), Rules.documentation().keys()
    for setting in setting_rows(scope).values():
        assert {setting.since} <= {"", *lines, *switches}, setting.name
        assert {setting.until} <= {"", *lines}, setting.name
        assert setting.before.keys() <= {*lines, *switches}, setting.name
        assert setting.broker is None or setting.broker in setting_rows("broker"), setting.name


def test_a_row_of_brokers_has_a_reader_or_a_reason() -> None:
    rows = setting_rows("broker").values()
    assert {setting.name for setting in rows if setting.read_by == "settings"} == SETTINGS.keys()
    for setting in rows:
        is_told_why = setting.no_effect in NO_EFFECT_REASONS
        is_gone = setting.until and not setting.is_in(LATEST_RULES)
        assert is_told_why is (not is_gone and not setting.read_by), setting.name
    assert {setting.no_effect for setting in rows} == {"", *NO_EFFECT_REASONS}


@pytest.mark.parametrize(("kafka_name", "field_name"), SETTINGS.items())
def test_a_default_is_kafkas_unless_it_is_said_why_not(kafka_name: str, field_name: str) -> None:
    setting = documentation()[field_name]
    ours = getattr(DEFAULTS, field_name)
    default = ours if setting.kafka_default is msgspec.UNSET else setting.kafka_default
    theirs = config_key("broker", kafka_name, LATEST_RULES).default
    assert theirs == (None if default is None else text(default)) or setting.unset


@pytest.mark.parametrize(
    ("valid", "minimum", "maximum", "choices"),
    [
        ("[1,...]", 1, None, ()),
        ("[-131072,...,22]", -131_072, 22, ()),
        ("[0,...,0.5]", 0, 0.5, ()),
        ("[compact, delete]", None, None, ("compact", "delete")),
        ("(case insensitive) [ES256, RS256]", None, None, ("ES256", "RS256")),
        ("[1,...,9] or -1", None, None, ()),
        ("[latest, earliest, by_duration:PnDTnHnMn.nS]", None, None, ()),
        ("non-empty string", None, None, ()),
    ],
)
def test_valid_values_are_read_as_kafka_prints_them(
    valid: str, minimum: float | None, maximum: float | None, choices: tuple[str, ...]
) -> None:
    keys = [
        key
        for scope in SCOPES
        for setting, key in (
            (setting_rows(scope)[name], key)
            for name, key in config_keys(scope, LATEST_RULES).items()
        )
        if setting.valid == valid
    ]
    assert keys
    assert {(key.minimum, key.maximum, key.choices) for key in keys} == {
        (minimum, maximum, choices)
    }


def test_a_default_may_be_missing() -> None:
    node_id_key = BROKER_CONFIGS["node.id"]
    assert (node_id_key.default, node_id_key.default_text, node_id_key.type) == (None, "", INT)
    assert BROKER_CONFIGS["log.cleaner.enable"].type is BOOLEAN
    assert BROKER_CONFIGS["ssl.key.password"].is_sensitive
