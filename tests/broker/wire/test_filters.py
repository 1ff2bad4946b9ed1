"""A filter is stated once: field, name in the message, first version."""

from __future__ import annotations

import pytest

from txnsim.wire import codec
from txnsim.wire.filters import Filters, GroupFilters, TransactionFilters
from txnsim.wire.registry import versions

KINDS: list[tuple[int, type[Filters]]] = [(66, TransactionFilters), (16, GroupFilters)]


def set_all(kind: type[Filters]) -> Filters:
    """Each filter with a value that lets not all pass."""
    off = kind()
    values = {name: getattr(off, name) for name in kind.NAMES}
    return kind(
        **{
            name: 0 if isinstance(value, int) else ("x",) if isinstance(value, tuple) else "x"
            for name, value in values.items()
        }
    )


@pytest.mark.parametrize(("key", "kind"), KINDS)
def test_every_field_of_a_request_that_filters_is_a_filter(key: int, kind: type[Filters]) -> None:
    """A field that a version brings can't be forgotten, and no filter is without its name."""
    assert tuple(kind.NAMES) == kind.__struct_fields__
    for version in versions(key):
        asked = codec.request_class(key, version).__dataclass_fields__
        fields = {name for name in asked if not name.startswith("_")}
        assert fields == {row.field for row in kind.NAMES.values() if row.since <= version}


@pytest.mark.parametrize(("key", "kind"), KINDS)
def test_what_is_said_is_read_and_what_a_version_can_not_say_is_off(
    key: int, kind: type[Filters]
) -> None:
    said = set_all(kind)
    off = kind()
    for version in versions(key):
        read = kind.of(codec.build(codec.request_class(key, version), **said.fields()))
        for name, row in kind.NAMES.items():
            assert getattr(read, name) == getattr(said if row.since <= version else off, name)


def test_a_version_that_can_not_say_a_filter_is_refused_only_where_it_is_set() -> None:
    filters = TransactionFilters(duration_ms=0)
    assert filters.refusal(1) is None
    assert "API version 1 or higher" in str(filters.refusal(0))
    assert "API version 2 or higher" in str(TransactionFilters(pattern="x").refusal(1))
    assert TransactionFilters(duration_ms=-7, pattern="").refusal(0) is None
    assert TransactionFilters(pattern="").fields()["transactional_id_pattern"] is None


def test_a_listener_may_read_a_filter_otherwise() -> None:
    asked = codec.build(codec.request_class(66, 2), **TransactionFilters(duration_ms=5).fields())
    assert TransactionFilters.of(asked, duration_ms=-1) == TransactionFilters()
