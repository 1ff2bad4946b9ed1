"""The threat model names attacks, tests and settings that exist, with their defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.attacks.roster import ATTACKS
from txnsim.settings import DEFAULTS

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = (ROOT / "docs/contributing/threat-model.md").read_text()
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| ---")
]


def test_each_attack_is_one_and_each_one_is_named() -> None:
    named_attacks = _attacks(" ".join(row[-1] for row in ROWS))
    assert named_attacks <= set(ATTACKS)
    # The others: what they cost is held by the same bounds, or belongs to an operator.
    assert set(ATTACKS) - named_attacks == {"log-directory"}


def test_each_test_is_there() -> None:
    named_tests = re.findall(r"`(tests/[^`:]+\.py)(?:::([^`]+))?`", PAGE)
    assert len(named_tests) > 20
    for path, function in named_tests:
        assert (ROOT / path).is_file(), path
        if function:
            assert re.search(rf"def {function}\b", (ROOT / path).read_text()), function


def test_each_setting_has_the_default_that_is_told() -> None:
    named_settings = re.findall(r"`(\w+)` = (\d+)", PAGE)
    assert len(named_settings) >= 9
    for field_name, value in named_settings:
        assert getattr(DEFAULTS, field_name) == int(value), field_name


def test_each_row_says_where_it_is_seen_or_that_there_is_nothing_to_see() -> None:
    rows = [row for row in ROWS if row[-1] != "Seen in"]
    assert len(rows) > 25
    for row in rows:
        assert row[-1] == "–" or "`tests/" in row[-1] or _attacks(row[-1]), row


def _attacks(text: str) -> set[str]:
    return set(re.findall(r"`([a-z0-9-]+)`", text))
