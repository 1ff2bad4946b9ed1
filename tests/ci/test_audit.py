"""The audit fails where it must, and says where it could not ask."""

from __future__ import annotations

import json

import pytest
from packaging.requirements import Requirement

from tests.ci.audit import (
    Word,
    installed,
    is_permissive,
    judge_licences,
    judge_vulnerabilities,
    licences,
    requirements,
    unbounded,
)


def test_what_has_no_bound_is_found() -> None:
    wanted = [Requirement(text) for text in ("a", "b>=1", "c==2", "d<3", "e~=1.0; os_name=='x'")]
    assert unbounded(wanted) == ["a", "d<3"]
    assert unbounded(requirements()) == []


@pytest.mark.parametrize(
    ("metadata", "classifiers", "allowed"),
    [
        ({"License-Expression": "MIT"}, [], True),
        ({"License-Expression": "Apache-2.0 OR GPL-3.0"}, [], True),
        ({"License-Expression": "MIT AND GPL-3.0"}, [], False),
        ({"License-Expression": "BSD-3-Clause AND Apache-2.0 WITH LLVM-exception"}, [], True),
        ({"License": "MIT"}, ["License :: OSI Approved :: GNU GPL v3"], False),
        ({"License": "whatever"}, ["License :: OSI Approved :: BSD License"], True),
        ({}, [], False),
    ],
)
def test_a_licence_is_on_the_list_or_not(
    metadata: dict[str, object], classifiers: list[str], allowed: bool
) -> None:
    assert all(map(is_permissive, licences(metadata, classifiers))) is allowed


def test_all_that_is_installed_has_one_of_the_list() -> None:
    found = installed(requirements())
    assert {"kio", "msgspec", "annotated-types"} <= set(found), "with what those need"
    assert [line for line in judge_licences(found) if line.word is not Word.PASS] == []


def test_a_vulnerability_fails_and_what_was_not_asked_is_open() -> None:
    flaw = {"id": "PYSEC-1", "fix_versions": ["2.1"]}
    report = {
        "dependencies": [
            {"name": "good", "version": "1", "vulns": []},
            {"name": "bad", "version": "2", "vulns": [flaw]},
            {"name": "unknown", "skip_reason": "not found"},
        ]
    }
    assert judge_vulnerabilities(json.dumps(report)) == [
        (Word.FAIL, "bad 2: PYSEC-1, mended in 2.1"),
        (Word.OPEN, "unknown: not found"),
    ]
    del report["dependencies"][1]
    assert (Word.PASS, "no known vulnerability in 1 distributions") in judge_vulnerabilities(
        json.dumps(report)
    )
