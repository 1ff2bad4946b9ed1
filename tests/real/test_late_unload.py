"""A real broker that unloads its groups late acknowledges a commit that is lost, or refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.late_unload import KNOWN, play
from txnsim.errors import ErrorCode

PAGE = Path(__file__).with_name("FOUND.md")


@pytest.mark.real
@pytest.mark.parametrize("version", ["4.1.2", "4.4.0"])
def test_a_commit_that_waits_where_the_coordinator_moves(version: str) -> None:
    assert play(version) == KNOWN[version]


@pytest.mark.parametrize("version", KNOWN)
def test_the_page_says_what_was_seen(version: str) -> None:
    outcome = KNOWN[version]
    answer_text = "" if outcome.answer is ErrorCode.none else f"{outcome.answer.name}".upper()
    assert f"| {version} | {answer_text or 'without an error'} | none |" in PAGE.read_text("utf-8")
