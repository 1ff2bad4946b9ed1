"""Figures that repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from txnsim_spark.figures import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def curve(axes: Axes) -> None:
    axes.plot([1, 2], label="curve")


def nameless(axes: Axes) -> None:
    axes.plot([1, 2])


def test_the_same_data_give_the_same_bytes() -> None:
    assert figure("<title>", curve) == figure("<title>", curve)


def test_texts_are_texts() -> None:
    made = figure("<title>", curve)
    ElementTree.fromstring(made)
    assert b"&lt;title&gt;" in made
    assert b">curve<" in made


def test_a_legend_only_where_there_is_something_to_name() -> None:
    assert b"legend_1" in figure("", curve)
    assert b"legend_1" not in figure("", nameless)
