from __future__ import annotations

from pathlib import Path

from tests.ci.passed import commit, keep, passed_parts


def test_what_has_passed_is_known_for_its_commit_alone(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "passed.jsonl"
    assert passed_parts("abc", file=file) == frozenset()
    keep("soak", "abc", minutes=2.51, file=file)
    keep("stage", "abc", minutes=100, file=file)
    keep("soak", "def", minutes=2, file=file)
    assert passed_parts("abc", file=file) == {"soak", "stage"}
    assert passed_parts("def", file=file) == {"soak"}


def test_what_differs_from_its_commit_is_never_kept(tmp_path: Path) -> None:
    file = tmp_path / "passed.jsonl"
    keep("soak", "abc-dirty", minutes=2, file=file)
    assert not file.exists()
    keep("soak", "abc", minutes=2, file=file)
    assert passed_parts("abc-dirty", file=file) == frozenset()


def test_the_commit_has_a_name() -> None:
    assert len(commit().removesuffix("-dirty")) >= 8
