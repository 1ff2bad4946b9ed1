"""The switches: documented, off only where an older release is meant, each with a case."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from txnsim.releases import LATEST_RULES, REFERENCE, RELEASES, Release, Rules

REPOSITORY = Path(__file__).resolve().parents[3]
RULE_NAMES = [*Rules.documentation()]
NEWEST = list(RELEASES.values())[-1]


def test_the_default_is_what_the_reference_does() -> None:
    assert Rules() == LATEST_RULES == REFERENCE.rules


@pytest.mark.parametrize("name", RULE_NAMES)
def test_every_switch_says_what_it_is_about(name: str) -> None:
    rule = Rules.documentation()[name]
    assert re.search(r"KAFKA-\d+|KIP-\d+|seen on a real \d|^none: ", rule.ticket)
    assert all((rule.behaviour_before, rule.behaviour_after))


@pytest.mark.parametrize("name", RULE_NAMES)
def test_what_a_switch_says_of_releases_can_be(name: str) -> None:
    switch = Rules.documentation()[name]
    releases = [switch.until, *switch.since] if switch.until else [*switch.since]
    assert releases == sorted(releases), "oldest first"
    assert len({release[:2] for release in switch.since}) == len(switch.since), "one of a line"
    assert all(release[:2] <= Release.line_of(NEWEST.name) for release in releases), (
        "of no release to come"
    )


def test_releases_differ_where_their_switches_say_so() -> None:
    """All behaviour of a release follows from the rows of its switches."""
    for release in RELEASES.values():
        for field_name, switch in Rules.documentation().items():
            assert getattr(release.rules, field_name) is switch.is_on(release.patch_release)


@pytest.mark.parametrize(
    ("name", "expected_text"),
    [
        ("min_isr_is_bounded", "3.7"),
        ("share_states_are_made_once", f"none up to {REFERENCE.patch_release}"),
        ("leaderless_partitions_keep_markers", "up to 4.2"),
        ("markers_follow_peer_version", "up to 4.1, and from 4.2.1 on"),
        ("positions_come_before_answer", "3.9.1, 4.0"),
    ],
)
def test_since_when_is_said_so_that_a_new_release_makes_it_no_lie(
    name: str, expected_text: str
) -> None:
    assert Rules.documentation()[name].came(REFERENCE.patch_release) == expected_text


@pytest.mark.parametrize("field_name", RULE_NAMES)
def test_every_switch_has_a_case_that_turns_it(field_name: str) -> None:
    flag_value = not getattr(LATEST_RULES, field_name)
    spellings = (f"{field_name}={flag_value}", f'"{field_name}": {flag_value}')
    assert any(spelling in text for text in texts_of_tests() for spelling in spellings), (
        f"nothing has {spellings[0]}"
    )


@cache
def texts_of_tests() -> list[str]:
    return [path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py")]
