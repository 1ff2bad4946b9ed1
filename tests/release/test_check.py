"""What is published has one version; the rest of ``make release-check`` takes minutes."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement

from tests.release import check
from tests.release.check import PLACEHOLDER, REPOSITORY, version, versions


def test_all_that_is_published_has_one_version() -> None:
    assert set(versions().values()) == {version()}


def test_an_older_python_is_not_asked_for_what_it_can_not_have() -> None:
    # The pip that comes with Python 3.10 resolves before it looks at requires-python: it would list
    # every version of kio, and that of 3.8 those of msgspec, instead of saying what is too old.
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["http"]]
    for requirement in map(Requirement, requirements):
        assert requirement.marker is not None, requirement
        assert not requirement.marker.evaluate({"python_version": "3.10"}), requirement
        assert requirement.marker.evaluate({"python_version": "3.11", "sys_platform": "linux"}), (
            requirement
        )


def test_a_release_is_refused_while_the_project_has_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = check.placeholders()
    assert set(files) <= {"CITATION.cff", "SECURITY.md"}
    monkeypatch.setattr(check, "placeholders", lambda: ["SECURITY.md"])
    with pytest.raises(check.StepError, match=f"address for {PLACEHOLDER} into SECURITY.md"):
        check._refuse_placeholder_address()
    monkeypatch.setattr(check, "placeholders", list)
    check._refuse_placeholder_address()


def test_constraints_name_versions_and_no_host() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text("utf-8").splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    assert [line for line in pinned if not re.fullmatch(r"[\w.-]+==[\w.+]+", line)] == []
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [
        requirement
        for requirement_list in project["optional-dependencies"].values()
        for requirement in requirement_list
    ]
    requirements = [*project["dependencies"], *extras]
    versions_by_name = dict(line.lower().replace("_", "-").split("==") for line in pinned)
    for requirement in map(Requirement, requirements):
        if requirement.name != "txnsim":
            assert requirement.specifier.contains(versions_by_name[requirement.name.lower()]), (
                requirement
            )


def test_publishing_is_trusted_and_stands_on_the_release_check() -> None:
    file_text = (REPOSITORY / ".github/workflows/publish.yml").read_text("utf-8")
    jobs = yaml.safe_load(file_text)["jobs"]
    assert "tests.release.check python" in file_text
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in file_text
    assert all("timeout-minutes" in job for job in jobs.values())


def test_hooks_of_pre_commit_run_what_is_there() -> None:
    config = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text("utf-8"))
    (local,) = config["repos"]
    assert local["repo"] == "local"
    entries = {hook["id"]: hook["entry"] for hook in local["hooks"]}
    assert entries["quick-check"] == "make check"
    assert re.search(r"^check:", (REPOSITORY / "Makefile").read_text("utf-8"), re.MULTILINE)
