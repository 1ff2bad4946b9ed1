"""What templates make of what they are given."""

from __future__ import annotations

from typing import Any, Final

import pytest

pytest.importorskip("jinja2", reason="the extra spark is not installed")

from jinja2 import UndefinedError

from txnsim_spark.report_page import rendering
from txnsim_spark.report_page.rendering import rendered, time_text

NONE: Final[dict[str, Any]] = {
    "totals": (),
    "columns": [],
    "by_mode": (),
    "costs": (),
    "growth": (),
}


def test_texts_are_escaped_and_the_style_sheet_is_kept_as_it_is() -> None:
    text = rendered("campaigns.html", **{**NONE, "columns": ["<b>"]}, title="T & U", remark="none")
    assert text.startswith('<!doctype html>\n<!-- none -->\n<html lang="en">')
    assert "<title>T &amp; U</title>" in text
    assert '<th scope="col">&lt;b&gt;</th>' in text
    assert ".numbers > div {" in text


def test_what_a_table_leaves_out_is_counted() -> None:
    rows = [(number,) for number in range(rendering.ROWS_MAX + 1_234)]
    text = rendered("campaigns.html", **{**NONE, "totals": rows}, title="", remark="")
    assert f"<td>{rendering.ROWS_MAX - 1}</td>" in text
    assert f"<td>{rendering.ROWS_MAX}</td>" not in text
    assert "<p>1,234 more rows are left out.</p>" in text


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="title"):
        rendered("campaigns.html", **NONE, remark="")


def test_times_are_in_utc_or_not_known() -> None:
    assert (time_text(1_000_001), time_text(None)) == ("1970-01-01T00:16:40.001Z", "–")
