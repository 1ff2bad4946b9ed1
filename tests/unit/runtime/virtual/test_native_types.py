"""Attributes of compiled classes."""

from __future__ import annotations

import datetime

from txnsim.runtime.virtual.native_types import native_attribute, put_native_attribute


def test_an_attribute_is_replaced_for_subclasses_as_well_and_put_back() -> None:
    class Moment(datetime.datetime):
        """Bound the class before."""

    real = native_attribute(datetime.date, "toordinal")
    assert real is not None
    when = Moment(2026, 1, 1)
    expected = when.toordinal()
    assert put_native_attribute(datetime.date, "toordinal", lambda _self: -1)
    try:
        assert when.toordinal() == -1
    finally:
        assert put_native_attribute(datetime.date, "toordinal", real)
    assert when.toordinal() == expected


def test_what_is_not_there_can_not_be_replaced() -> None:
    assert native_attribute(datetime.date, "of_no_class") is None
    assert not put_native_attribute(datetime.date, "of_no_class", 1)
    assert not hasattr(datetime.date, "of_no_class")
