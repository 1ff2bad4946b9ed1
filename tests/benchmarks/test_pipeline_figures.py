"""The arithmetic, the tables and the picture of the pipeline's benchmark."""

from __future__ import annotations

import pytest

from benchmarks import pipeline_figures as figures
from benchmarks import pipeline_plot
from benchmarks.pipeline import DUMPED_COLUMNS, PAGE_FILE
from benchmarks.pipeline_figures import FIGURES, FigureGoal, MeasuredFigure, SearchCost
from txnsim_spark.schemas import TABLES

COSTS = (
    SearchCost(bytes=100_000_000, seconds=1.25, worker_mb=150.0),
    SearchCost(bytes=4_000_000_000, seconds=9.5, worker_mb=152.0),
)


def by_key(samples: dict[str, list[float]]) -> dict[str, MeasuredFigure]:
    return {row.figure.key: row for row in figures.judge_figures(samples)}


def test_a_figure_has_one_key_and_is_held_against_one_that_there_is() -> None:
    keys = [figure.key for figure in FIGURES]
    assert len(set(keys)) == len(keys)
    assert {figure.against for figure in FIGURES} - {None} <= set(keys)


def test_a_goal_that_is_a_ratio_has_something_to_be_held_against() -> None:
    for figure in FIGURES:
        if figure.goal is not None and figure.goal.ratio_min is not None:
            assert figure.against is not None


def test_a_rate_is_in_megabytes_per_second_and_core() -> None:
    assert figures.mb_per_s(50_000_000, 2.0) == 25.0
    assert figures.mb_per_s(50_000_000, 2.0, core_count=2) == 12.5


def test_the_start_of_a_process_is_not_its_work() -> None:
    assert figures.subtract_start(3.5, 0.5) == 3.0
    with pytest.raises(ValueError, match="too little work"):
        figures.subtract_start(0.5, 0.5)


def test_a_ratio_is_one_of_medians_and_judged_by_it() -> None:
    by_name = by_key(
        {figures.DUMP_KEY: [16.0, 10.0, 40.0], figures.FRAGMENTS_KEY: [320.0, 1.0, 999.0]}
    )
    assert (by_name[figures.FRAGMENTS_KEY].ratio, by_name[figures.FRAGMENTS_KEY].met) == (
        20.0,
        True,
    )
    assert (by_name[figures.DUMP_KEY].ratio, by_name[figures.DUMP_KEY].met) == (None, None)
    by_name = by_key({figures.DUMP_KEY: [16.0], figures.FRAGMENTS_KEY: [319.0]})
    assert by_name[figures.FRAGMENTS_KEY].met is False


def test_a_ratio_without_a_goal_is_shown_and_not_judged() -> None:
    by_name = by_key({figures.DUMP_KEY: [10.0], figures.WHOLE_BATCHES_KEY: [70.0]})
    assert (by_name[figures.WHOLE_BATCHES_KEY].ratio, by_name[figures.WHOLE_BATCHES_KEY].met) == (
        7.0,
        None,
    )


def test_without_the_other_figure_there_is_no_verdict() -> None:
    by_name = by_key({figures.FRAGMENTS_KEY: [320.0]})
    assert (by_name[figures.FRAGMENTS_KEY].ratio, by_name[figures.FRAGMENTS_KEY].met) == (
        None,
        None,
    )


@pytest.mark.parametrize(
    ("key", "figure_value", "is_met"),
    [
        (figures.KERNEL_KEY, 500.0, True),
        (figures.KERNEL_KEY, 499.0, False),
        (figures.FIRST_SEARCH_KEY, 9.9, True),
        (figures.FIRST_SEARCH_KEY, 10.0, False),
    ],
)
def test_a_bound_on_the_figure_itself_is_judged(
    key: str, figure_value: float, *, is_met: bool
) -> None:
    assert by_key({key: [figure_value]})[key].met is is_met


def test_a_goal_says_what_it_asks_for() -> None:
    assert FigureGoal(ratio_min=8.0).text == "≥ 8×"
    assert FigureGoal(least=500.0).text == "≥ 500"
    assert FigureGoal(below=10.0).text == "< 10"


def test_the_table_has_a_line_per_figure_with_range_ratio_and_verdict() -> None:
    text = figures.format_table(
        figures.judge_figures({figures.DUMP_KEY: [16.0, 15.0, 17.0], figures.BATCHES_KEY: [100.0]})
    )
    lines = text.splitlines()
    assert len(lines) == 4
    assert "16.0 (15.0–17.0)" in lines[2]
    assert lines[3].endswith("| 100 | 6.25 | ≥ 8× | MISSED |")


def test_costs_are_told_with_their_rate() -> None:
    assert "| 4,000 MB | 9.50 | 421 | 152 MB |" in figures.format_cost_table(COSTS)


def test_figures_are_put_in_their_place_on_the_page_again_and_again() -> None:
    page_text = PAGE_FILE.read_text("utf-8")
    monday_page = figures.replace_section(page_text, "measured on a Monday\n")
    tuesday_page = figures.replace_section(monday_page, "measured on a Tuesday\n")
    assert "Monday" not in tuesday_page
    assert figures.replace_section(tuesday_page, "measured on a Monday\n") == monday_page
    with pytest.raises(ValueError, match="no place"):
        figures.replace_section("a page", "measured on a Monday\n")


@pytest.mark.costly
@pytest.mark.slow
def test_a_picture_of_the_same_figures_is_the_same() -> None:
    first_picture = pipeline_plot.draw_costs_svg(COSTS)
    assert first_picture.startswith(b"<?xml")
    assert pipeline_plot.draw_costs_svg(COSTS) == first_picture
    assert pipeline_plot.draw_costs_svg(COSTS[:1]) != first_picture


def test_the_columns_that_kafka_dump_log_prints_are_columns_of_the_table() -> None:
    assert set(DUMPED_COLUMNS) <= set(TABLES["batches"].names)
