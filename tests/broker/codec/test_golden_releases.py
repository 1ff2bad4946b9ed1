"""Data of every release against the message specifications in its own clients' jar
(``golden/releases.json``).
"""

from __future__ import annotations

import pytest

from tests.broker.codec.golden.releases import (
    PATCH_RELEASES,
    RECORDED,
    as_differences,
    as_text,
    read,
    record,
)
from txnsim.releases import RELEASES, Release

GOLDEN = read()

LEFT_OUT = {"4", "5", "6", "7", "56", "71", "72"}
"""Between brokers and controllers of ZooKeeper's time; telemetry, which needs a plugin."""
TO_THE_CONTROLLER = ("56", "62", "63", "67")
"""AlterPartition, BrokerRegistration, BrokerHeartbeat, AllocateProducerIds."""


@pytest.fixture(params=list(PATCH_RELEASES))
def release(request: pytest.FixtureRequest) -> Release:
    return RELEASES[request.param]


def test_every_release_line_is_there() -> None:
    """But for one whose jar can't be had yet: of such a one no test compares what it says."""
    assert list(GOLDEN) == [
        release_name for release_name, release in RELEASES.items() if release.is_released
    ]


def test_a_line_is_kept_by_what_differs_from_the_one_before() -> None:
    assert RECORDED.read_text() == as_text(as_differences(GOLDEN))
    lines = {
        "1": {"version": "1.0.0", "broker": {"2": [0, 1], "10": [0, 0]}, "controller": {}},
        "2": {"version": "2.0.0", "broker": {"10": [0, 0]}, "controller": {"56": [0, 1]}},
    }
    assert as_differences(lines)["2"] == {
        "version": "2.0.0",
        "broker": {"2": None},
        "controller": {"56": [0, 1]},
    }


def test_the_newest_patch_release_is_emulated(release: Release) -> None:
    assert release.patch_release == GOLDEN[release.name]["version"]


def test_api_versions_are_those_of_its_clients_jar(release: Release) -> None:
    recorded_ranges = {
        key: [*versions]
        for key, versions in GOLDEN[release.name]["broker"].items()
        if key not in LEFT_OUT
    }
    version_ranges = {str(key): list(versions) for key, versions in release.api_versions.items()}
    for key, lowest in release.refused_below.items():
        assert recorded_ranges[str(key)][0] == lowest, "advertised lower than it works"
        recorded_ranges[str(key)][0] = version_ranges[str(key)][0]
    assert version_ranges == recorded_ranges
    assert list(version_ranges) == list(recorded_ranges), "ascending"


def test_versions_to_the_controller_are_those_of_its_clients_jar(release: Release) -> None:
    recorded_ranges = GOLDEN[release.name]["controller"]
    version_ranges = {
        str(key): list(version_range)
        for key, version_range in release.controller_api_versions.items()
    }
    assert version_ranges == {
        key: recorded_ranges[key] for key in TO_THE_CONTROLLER if key in recorded_ranges
    }


@pytest.mark.real
@pytest.mark.parametrize("line", list(PATCH_RELEASES))
def test_what_is_committed_can_be_recorded_again(line: str) -> None:
    assert record(line) == GOLDEN[line]
