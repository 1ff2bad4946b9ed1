"""What is published has one version; the rest of ``make release-check`` takes minutes."""

from __future__ import annotations

from tests.release.check import version, versions


def test_all_that_is_published_has_one_version() -> None:
    assert set(versions().values()) == {version()}
