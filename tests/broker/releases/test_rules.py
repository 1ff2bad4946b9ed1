"""The switches: documented, off only where an older release is meant, each with a case."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from txnsim.releases import LATEST, REFERENCE, RELEASES, Rules
from txnsim.releases.kafka import since
from txnsim.releases.rules import NO_RELEASE, documentation

REPOSITORY = Path(__file__).resolve().parents[3]
NAMES = [field.name for field in msgspec.structs.fields(Rules)]
OFF_IN_THE_REFERENCE = {
    "last_markers_stay_whole",
    "late_commit_is_fenced",
    "leaderless_partitions_keep_markers",
    "loads_wait_for_replication",
}
"""Behaviour that it does not have: a fix to come, one that was lost in 4.3, two of no release."""
OLDER_THAN_ALL = {
    "end_needs_exact_epoch",
    "expired_ids_take_many_batches",
    "failed_fence_keeps_epoch",
    "half_cleaned_segments_are_indexed",
    "markers_renew_producers",
    "producers_outlive_records",
    "reads_know_one_high_watermark",
    "start_may_step_back",
    "storage_errors_are_retried",
    "timeout_bumps_epoch",
    "unhosted_markers_are_retried",
}
"""Bugs of before 2.8: for scenarios alone."""
NEVER_IN_THE_NEWEST_PATCH = {
    "fence_bumps_once",
    "last_markers_stay_whole",
    "late_commit_is_fenced",
    "loads_wait_for_replication",
}
"""Mended within a line, or not yet."""
IN_A_YOUNGER_PATCH = {"decompression_is_bounded"}
"""4.2.2 came after 4.3.1."""


def test_the_default_is_what_the_reference_does() -> None:
    assert Rules() == LATEST == REFERENCE.rules
    assert {name for name in NAMES if not getattr(LATEST, name)} == OFF_IN_THE_REFERENCE


@pytest.mark.parametrize("name", NAMES)
def test_every_switch_says_what_it_is_about(name: str) -> None:
    rule = documentation()[name]
    assert re.search(r"KAFKA-\d+|KIP-\d+|seen on a real \d|^none: ", rule.ticket)
    assert all((rule.since, rule.before, rule.after))


def test_every_switch_but_those_for_scenarios_differs_in_some_release() -> None:
    same = {
        name
        for name in NAMES
        if len({getattr(release.rules, name) for release in RELEASES.values()}) == 1
    }
    assert same == OLDER_THAN_ALL | NEVER_IN_THE_NEWEST_PATCH | {"markers_follow_peer_version"}


def test_a_switch_stays_on_once_it_is_on() -> None:
    for name in set(NAMES) - OFF_IN_THE_REFERENCE - IN_A_YOUNGER_PATCH:
        values = [getattr(release.rules, name) for release in RELEASES.values()]
        assert values == sorted(values), name


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_of_releases_stays_true_when_a_new_one_comes(name: str) -> None:
    switch = documentation()[name]
    numbers = r"\d+(\.\d+)+"
    assert switch.since == NO_RELEASE or re.fullmatch(
        rf"{numbers}(, {numbers})*|up to {numbers}(,.* and from {numbers} on)?", switch.since
    )
    if switch.since == NO_RELEASE:
        assert since(switch) == f"none up to {REFERENCE.patch_release}"
    else:
        assert since(switch) == switch.since


@pytest.mark.parametrize("name", NAMES)
def test_every_switch_has_a_case_that_turns_it(name: str) -> None:
    value = not getattr(LATEST, name)
    wanted = (f"{name}={value}", f'"{name}": {value}')
    texts = (path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py"))
    assert any(one in text for text in texts for one in wanted), f"nothing has {wanted[0]}"
