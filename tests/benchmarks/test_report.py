"""The arithmetic and the table of the benchmark; the measuring itself is for `make bench`."""

from __future__ import annotations

import pytest

from benchmarks import figures, report
from benchmarks.figures import FIGURES, Figure, FigureTarget, Preference

MORE = Figure(
    key="speed",
    title="speed",
    unit="1/s",
    better=Preference.MORE,
    target=FigureTarget(ratio_min=2.0),
)
LESS = Figure(
    key="start",
    title="start",
    unit="ms",
    better=Preference.LESS,
    target=FigureTarget(ratio_min=8.0, value_below=300.0),
)


def test_a_figure_has_one_key() -> None:
    keys = [figure.key for figure in FIGURES]
    assert len(set(keys)) == len(keys)


def test_every_cell_of_the_transaction_grid_is_a_figure() -> None:
    keys = {figure.key for figure in FIGURES}
    for txn_flow in figures.TXN_FLOWS:
        for producer_count in figures.PRODUCERS:
            cell = {
                make(txn_flow, producer_count)
                for make in (
                    figures.per_second_key,
                    figures.p50_key,
                    figures.cpu_key,
                    figures.retries_key,
                )
            }
            assert cell <= keys


def test_a_spread_has_the_median_and_both_ends() -> None:
    spread = report.spread_of([3.0, 1.0, 2.0, 10.0])
    assert (spread.median, spread.least, spread.most) == (2.5, 1.0, 10.0)


@pytest.mark.parametrize(
    ("figure", "figure_value", "baseline", "expected"),
    [(MORE, 200.0, 100.0, 2.0), (MORE, 50.0, 100.0, 0.5), (LESS, 200.0, 1600.0, 8.0)],
)
def test_a_ratio_says_how_many_times_better(
    figure: Figure, figure_value: float, baseline: float, expected: float
) -> None:
    assert report.ratio_to_baseline(figure, value=figure_value, baseline_value=baseline) == expected


@pytest.mark.parametrize("figure", [MORE, LESS])
@pytest.mark.parametrize(("figure_value", "baseline"), [(0.0, 1.0), (1.0, 0.0)])
def test_nothing_is_compared_with_zero(
    figure: Figure, figure_value: float, baseline: float
) -> None:
    assert report.ratio_to_baseline(figure, value=figure_value, baseline_value=baseline) is None


@pytest.mark.parametrize(
    ("figure", "figure_value", "ratio", "is_expected"),
    [
        (MORE, 1.0, 2.0, True),
        (MORE, 1.0, 1.99, False),
        (MORE, 1.0, None, None),
        (LESS, 299.0, 8.0, True),
        (LESS, 300.0, 8.0, False),
        (LESS, 299.0, 7.9, False),
        (FIGURES[-1], 1.0, 1.0, None),
    ],
)
def test_a_target_is_met_by_ratio_and_by_value(
    figure: Figure, figure_value: float, ratio: float | None, is_expected: bool | None
) -> None:
    assert report.meets_target(figure, value=figure_value, ratio=ratio) is is_expected


def test_rows_compare_each_server_with_apache_kafka() -> None:
    samples = {
        "apache": {figures.START_KEY: [2000.0, 2200.0, 1800.0]},
        "txnsim": {figures.START_KEY: [100.0, 125.0]},
        "kfake": {figures.START_KEY: [10.0], figures.FETCH_KEY: [5.0]},
    }
    start_figure, fetch_figure = report.compare_figures(samples)
    assert start_figure.figure.key == figures.START_KEY
    assert start_figure.ratios == {"txnsim": pytest.approx(2000 / 112.5), "kfake": 200.0}
    assert start_figure.met is True
    assert fetch_figure.ratios == {}
    assert fetch_figure.met is None


def test_without_apache_kafka_there_are_figures_but_no_verdicts() -> None:
    (row,) = report.compare_figures({"txnsim": {figures.START_KEY: [100.0]}})
    assert row.ratios == {}
    assert row.met is None
    assert row.spreads["txnsim"].median == 100.0


def test_the_table_shows_median_range_ratio_target_and_verdict() -> None:
    samples = {
        "apache": {figures.START_KEY: [2000.0], figures.FETCH_KEY: [1234.5]},
        "txnsim": {figures.START_KEY: [400.0, 500.0, 410.0]},
    }
    head_text, _, start, fetch = report.format_table(
        report.compare_figures(samples), list(samples)
    ).splitlines()
    assert head_text.split() == ["figure", "unit", "apache", "txnsim", "txnsim", "×", "target"]
    assert "2,000" in start
    assert "410 (400–500)" in start
    assert "4.88" in start
    assert start.endswith("≥ 8×, < 300 ms  MISSED")
    assert "1,234" in fetch
    assert fetch.count("–") == 2


@pytest.mark.parametrize(
    ("figure_value", "text"),
    [(12345.6, "12,346"), (99.94, "99.9"), (1.234, "1.23"), (0.0567, "0.057")],
)
def test_numbers_keep_three_digits(figure_value: float, text: str) -> None:
    assert report.number_text(figure_value) == text
