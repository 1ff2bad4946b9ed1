from __future__ import annotations

import pytest

from txnsim.errors import ConfigError
from txnsim.releases.release import (
    FeatureRange,
    Release,
    after,
    line_of,
    newer_than,
    rules_of,
)
from txnsim.releases.rules import LATEST, RuleSwitch, numbers

RELEASE = Release(
    name="0.1",
    patch_release="0.1.0",
    api_versions={0: (0, 3), 1: (2, 4)},
    refused_below={0: 2},
    controller_api_versions={},
    features={},
    rules=LATEST,
)


def test_versions_inside_the_range_are_accepted() -> None:
    assert [v for v in range(-1, 6) if RELEASE.accepts(1, v)] == [2, 3, 4]


def test_advertised_versions_may_be_refused_all_the_same() -> None:
    assert [v for v in range(-1, 6) if RELEASE.accepts(0, v)] == [2, 3]


def test_unknown_keys_are_not_accepted() -> None:
    assert not RELEASE.accepts(2, 0)


def test_a_release_says_what_it_does_otherwise_than_the_one_before() -> None:
    levels = FeatureRange(min_level=0, max_level=1, new_cluster_level=1)
    found = after(
        RELEASE,
        name="0.2",
        patch_release="0.2.0",
        api_versions={7: (0, 0), 3: (1, 1), 0: None},
        features={"group.version": levels},
    )
    assert (found.name, found.patch_release) == ("0.2", "0.2.0")
    assert list(found.api_versions.items()) == [(1, (2, 4)), (3, (1, 1)), (7, (0, 0))]
    assert found.refused_below == RELEASE.refused_below
    assert found.features == {"group.version": levels}
    assert not found.rules.unverified_is_abortable, "which came with 3.8"
    assert found.is_released
    assert (
        after(found, name="0.3", patch_release="0.3.0", features={"group.version": None}).features
        == {}
    )


def test_a_line_has_two_numbers() -> None:
    assert line_of("4.3.1") == line_of("4.3") == (4, 3)
    for version in ("newest", "4", ""):
        with pytest.raises(ConfigError, match="no release of Apache Kafka"):
            line_of(version)


@pytest.mark.parametrize(
    ("since", "until", "off", "on"),
    [
        ("3.6", "", ["3.5.2", "2.8.0"], ["3.6.0", "3.10.0", "4.0.0"]),
        (
            "3.0.2, 3.1.2, 3.2.1, 3.3",
            "",
            ["3.0.1", "3.1.1", "3.2.0", "2.8.2"],
            ["3.0.2", "3.2.1", "3.3.0"],
        ),
        ("3.9.2, 4.1.1", "", ["3.9.1", "4.0.2", "4.1.0"], ["3.9.2", "4.1.1", "4.2.0"]),
        ("", "4.2", ["4.3.0", "5.0.0"], ["3.1.0", "4.2.9", "4.2"]),
        ("4.2.1", "4.1", ["4.2.0"], ["2.8.2", "4.1.9", "4.2.1", "4.3.0"]),
        ("", "", ["0.1", "4.3.1", "4.4.0"], []),
    ],
)
def test_a_switch_is_on_until_a_line_and_since_some_releases(
    since: str, until: str, off: list[str], on: list[str]
) -> None:
    switch = RuleSwitch(
        ticket="KAFKA-1",
        since=tuple(numbers(one) for one in since.split(", ") if one),
        until=numbers(until) if until else (),
        before="",
        after="",
    )
    assert [one for one in off if switch.is_on(one)] == []
    assert [one for one in on if not switch.is_on(one)] == []


def test_what_came_later_than_a_release_is_off_in_it() -> None:
    later = newer_than("4.2.0")
    assert {"markers_follow_peer_version", "fence_rotates_exhausted_id"} <= set(later)
    assert not any(getattr(rules_of("4.2.0"), name) for name in later)
    assert "leaderless_partitions_keep_markers" not in newer_than("4.3.1"), "it was lost"


def test_text_that_is_no_release_is_refused() -> None:
    with pytest.raises(ConfigError, match="x: no release of Apache Kafka"):
        numbers("x")
