"""The rules by name."""

from __future__ import annotations

from pathlib import Path

from txnsim_spark.soundness.violations import MEANINGS, Invariant


def test_each_rule_says_what_it_demands() -> None:
    assert list(MEANINGS) == list(Invariant)
    assert all(MEANINGS.values())


def test_the_page_has_each_rule() -> None:
    page = Path("docs/logs.md").read_text()
    assert all(f"| `{rule}` | {meaning} |" in page for rule, meaning in MEANINGS.items())
