"""Figures from rows, without Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest

from txnsim_spark.traces.plots import PLOTS, Row, draw_all, svg

CURVE: tuple[Row, ...] = ((0, 0.0, 0.1), (0, 1.0, 30.0), (2, 0.0, 0.2), (2, 1.0, 3000.0))
LAGS: tuple[Row, ...] = (("level-0", 0.0, 0), ("level-0", 1.5, 12), ("level-2", 1.0, 3))
COUNTS: tuple[Row, ...] = ((0, 1, 2, 3), (None, 4, None, 0))
ROWS = {
    "time_to_decide": CURVE,
    "marker_delay": CURVE,
    "lso_lag": LAGS,
    "late_transactions": COUNTS,
    "verification_failures": COUNTS,
    "epoch_bumps": COUNTS,
}


def words(figure: bytes) -> set[str]:
    return set(re.findall(r"<text[^>]*>([^<]*)</text>", figure.decode()))


@pytest.mark.slow
def test_the_same_rows_give_the_same_bytes() -> None:
    assert svg(PLOTS["lso_lag"], LAGS) == svg(PLOTS["lso_lag"], LAGS)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLOTS)
def test_a_figure_has_its_title_and_no_date(name: str) -> None:
    figure = svg(PLOTS[name], ROWS[name])
    assert b"<dc:date>" not in figure
    assert PLOTS[name].title in words(figure)
    assert len(figure) < 60_000


@pytest.mark.parametrize("name", PLOTS)
def test_a_trace_in_which_nothing_of_it_happened_gives_an_empty_figure(name: str) -> None:
    assert PLOTS[name].title in words(svg(PLOTS[name], ()))


@pytest.mark.slow
def test_versions_and_runs_have_their_own_curve() -> None:
    assert {"transaction.version 0", "transaction.version 2"} <= words(
        svg(PLOTS["marker_delay"], CURVE)
    )
    assert {"level-0", "level-2"} <= words(svg(PLOTS["lso_lag"], LAGS))


def test_bars_tell_their_counts() -> None:
    told = words(svg(PLOTS["epoch_bumps"], COUNTS))
    assert {"EndTxn", "InitProducerId", "timeout", "not known", "1", "2", "3", "4"} <= told


class Frame:
    """What Spark answers, for whoever only goes through it."""

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self._rows = rows
        self.grouped_by = "transaction_version"

    def toLocalIterator(self) -> Any:  # noqa: N802 - as PySpark calls it
        return iter(self._rows)

    def where(self, _condition: object) -> Frame:
        return self

    def select(self, *columns: str) -> Frame:
        assert columns[0] == "transaction_version"
        return self


class Session:
    """A session that answers every query with the rows of its figure."""

    def sql(self, query: str, args: object = None) -> Frame:
        return Frame(LAGS if "AS at_s" in query else CURVE if "posexplode" in query else COUNTS)


@pytest.mark.costly
@pytest.mark.slow
def test_every_figure_is_drawn_into_its_file(tmp_path: Path) -> None:
    drawn = draw_all(cast(Any, Session()), tmp_path / "plots")
    assert [path.name for path in drawn] == [f"{name}.svg" for name in PLOTS]
    assert all(path.read_bytes().startswith(b"<?xml") for path in drawn)
