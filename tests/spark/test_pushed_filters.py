"""Whether filters stay apart, by Sparks that do this and that; the real one is asked in
tests/spark/pipeline/test_one_frame.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, InputPartition, IsNotNull

from txnsim_spark.pushed_filters import PUSHDOWN, OneRow, stay_apart

Count = Callable[[bool, list[bool]], int]
"""How many rows a scan has: whether it has the condition, and which scans before it had."""


class Frame:
    """Stands for a DataFrame of one or two scans.

    Args:
        conditions: Whether each scan has the condition.
        rows: Of a scan.
        before: Scans of the source that were made.
    """

    def __init__(self, conditions: list[bool], rows: Count, before: list[bool]) -> None:
        self._conditions, self._rows, self._before = conditions, rows, before

    def where(self, condition: str) -> Frame:
        assert condition == "n = 1"
        return Frame([True], self._rows, self._before)

    def union(self, other: Frame) -> Frame:
        both = [*self._conditions, *other._conditions]
        return Frame(both, self._rows, self._before)

    def count(self) -> int:
        found = 0
        for has_condition in self._conditions:
            found += self._rows(has_condition, self._before)
            self._before.append(has_condition)
        return found


class Session:
    """Stands for a session."""

    def __init__(self, rows: Count, *, setting: str = "true") -> None:
        self.conf, self._setting = {PUSHDOWN: setting}, setting
        self.dataSource = self.read = self
        self._rows = rows

    def register(self, source: type[OneRow]) -> None:
        assert source is OneRow

    def format(self, name: str) -> Session:
        assert name == OneRow.name()
        return self

    def load(self) -> Frame:
        return Frame([False], self._rows, [])


@pytest.mark.parametrize(
    ("rows", "is_apart"),
    [
        pytest.param(lambda has, _before: int(not has), True, id="apart"),
        pytest.param(lambda has, before: int(not has and True not in before), False, id="kept"),
        pytest.param(lambda has, before: int(not has or not before[3:]), False, id="not asked"),
        pytest.param(lambda _has, _before: 1, False, id="not obeyed"),
    ],
)
def test_filters_stay_apart_where_each_scan_has_its_own(rows: Count, *, is_apart: bool) -> None:
    session: Any = Session(rows)
    assert stay_apart(session) is is_apart


def test_a_session_that_hands_no_filters_over_is_not_tried() -> None:
    session: Any = Session(lambda has, _before: int(not has), setting="false")
    session.load = None
    assert not stay_apart(session)


@pytest.mark.parametrize(("value", "rows"), [(None, [(0,)]), (0, [(0,)]), (1, [])])
def test_the_row_is_there_unless_a_filter_leaves_it_out(
    value: int | None, rows: list[tuple[int]]
) -> None:
    reader: Any = OneRow({}).reader(None)
    kept = IsNotNull(("n",))
    filters: list[Filter] = [kept] if value is None else [kept, EqualTo(("n",), value)]
    assert list(reader.pushFilters(filters)) == [kept]
    assert list(reader.read(InputPartition(None))) == rows
