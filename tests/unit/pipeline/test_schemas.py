"""The tables as Spark and the documentation are told."""

from __future__ import annotations

from txnsim.pipeline.schemas import SCHEMAS, TABLES


def test_no_table_has_a_column_twice() -> None:
    for name, table in TABLES.items():
        assert len(set(table.names)) == len(table.names), name


def test_every_table_begins_with_where_a_row_is_from() -> None:
    for name, table in TABLES.items():
        assert table.names[:4] == ("log_dir", "broker", "topic", "partition"), name


def test_meanings_are_sentences() -> None:
    for table in TABLES.values():
        assert table.about.endswith(".")
        for column in table.columns:
            assert column.meaning.endswith("."), column


def test_a_schema_is_names_and_types() -> None:
    assert SCHEMAS["leader_epochs"] == (
        "log_dir string, broker int, topic string, partition int, leader_epoch int, "
        "start_offset bigint"
    )
