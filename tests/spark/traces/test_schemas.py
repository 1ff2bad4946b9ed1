"""The tables of a trace, as they are documented."""

from __future__ import annotations

import pytest

from txnsim_spark.traces._queries import OF_EVENTS, OF_LINES
from txnsim_spark.traces.schemas import TABLES, view_of


@pytest.mark.parametrize("name", TABLES)
def test_every_column_has_a_name_of_its_own_and_a_meaning(name: str) -> None:
    table = TABLES[name]
    assert len(set(table.names)) == len(table.columns)
    for column in table.columns:
        assert column.meaning.endswith("."), column.name
        assert not column.meaning[0].islower(), column.name


def test_every_table_has_a_query() -> None:
    assert set(TABLES) == {"runs", *OF_LINES, *OF_EVENTS}


def test_every_table_begins_with_the_run() -> None:
    assert {table.names[0] for table in TABLES.values()} == {"run"}


def test_views_have_names_of_their_own() -> None:
    assert view_of("transactions") == "trace_transactions"
