"""The mistakes of a refused value; a large one takes no more steps than it has mistakes.

What mistakes of fault rules say is in ``faults/test_plan.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from txnsim import value_errors
from txnsim.faults.plan import FaultRule
from txnsim.value_errors import MISTAKES_MAX, WrongValueError, convert_value

MANY = 10_000
GOOD = {"id": "f", "point": "client.request", "action": {"do": "hold"}}
BAD = {**GOOD, "action": {"do": "hol"}}
STEPS_MAX = 4 * MISTAKES_MAX
"""A mistake in a rule is three steps deep: rule, action, field."""


class Holder(msgspec.Struct):
    """Two lists."""

    first: list[int]
    second: tuple[str, ...] = ()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The path of each value that is described."""
    described_paths: list[str] = []
    describe = value_errors._mistakes

    def note_path(content: object, target_type: Any, path: str, noun: str) -> Iterator[Any]:
        described_paths.append(path)
        return describe(content, target_type, path, noun)

    monkeypatch.setattr(value_errors, "_mistakes", note_path)
    return described_paths


def mistakes(content: object, target_type: Any) -> list[str]:
    with pytest.raises(WrongValueError) as error:
        convert_value(content, target_type)
    return [path for path, _ in error.value.mistakes]


@pytest.mark.parametrize(
    ("content", "target_type", "paths"),
    [
        ([1] * MANY + ["x"], list[int], [str(MANY + 1)]),
        (["x"] + [1] * MANY, list[int], ["1"]),
        ([1, "x"] * MANY, list[int], [str(2 * number) for number in range(1, MISTAKES_MAX + 1)]),
        ({"first": ["x"] * MANY}, Holder, [f"first.{n + 1}" for n in range(MISTAKES_MAX)]),
        (
            {"first": [*[1] * MANY, None], "second": [*["x"] * MANY, 1]},
            Holder,
            [f"first.{MANY + 1}", f"second.{MANY + 1}"],
        ),
        ([*[GOOD] * MANY, BAD], list[FaultRule], [f"{MANY + 1} (f).action.do"]),
        (
            {**GOOD, "occurrences": [0.5] * MANY},
            FaultRule,
            [f"occurrences.{number + 1}" for number in range(MISTAKES_MAX)],
        ),
        ({**GOOD, "occurrences": [1] * MANY}, FaultRule, [""]),
    ],
)
def test_only_wrong_elements_are_described_and_only_so_many(
    content: object, target_type: Any, paths: list[str], steps: list[str]
) -> None:
    assert mistakes(content, target_type) == paths
    assert len(steps) <= STEPS_MAX


def test_of_too_many_occurrences_none_is_told() -> None:
    with pytest.raises(WrongValueError) as error:
        convert_value({**GOOD, "occurrences": [0] * MANY}, FaultRule)
    assert len(str(error.value)) < 100
