from __future__ import annotations

from txnsim.releases.release import Release

RELEASE = Release(
    name="0.1",
    patch_release="0.1.0",
    api_versions={0: (0, 3), 1: (2, 4)},
    refused_below={0: 2},
    controller_api_versions={},
    features={},
)


def test_versions_inside_the_range_are_accepted() -> None:
    assert [v for v in range(-1, 6) if RELEASE.accepts(1, v)] == [2, 3, 4]


def test_advertised_versions_may_be_refused_all_the_same() -> None:
    assert [v for v in range(-1, 6) if RELEASE.accepts(0, v)] == [2, 3]


def test_unknown_keys_are_not_accepted() -> None:
    assert not RELEASE.accepts(2, 0)
