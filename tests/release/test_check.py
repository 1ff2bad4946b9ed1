"""What is published has one version; the rest of ``make release-check`` takes minutes."""

from __future__ import annotations

import tomllib

from packaging.requirements import Requirement

from tests.release.check import REPOSITORY, version, versions


def test_all_that_is_published_has_one_version() -> None:
    assert set(versions().values()) == {version()}


def test_an_older_python_is_not_asked_for_what_it_can_not_have() -> None:
    # The pip that comes with Python 3.10 resolves before it looks at requires-python: it would list
    # every version of kio, and that of 3.8 those of msgspec, instead of saying what is too old.
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["http"]]
    for one in map(Requirement, asked):
        assert one.marker is not None, one
        assert not one.marker.evaluate({"python_version": "3.10"}), one
        assert one.marker.evaluate({"python_version": "3.11", "sys_platform": "linux"}), one
