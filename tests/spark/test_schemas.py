"""The tables as Spark and the documentation are told."""

from __future__ import annotations

from typing import Annotated

import msgspec

from txnsim_spark.schemas import BROKERS_TYPE, TABLES, Bigint, Column, String, Table, columns_of


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
    assert TABLES["leader_epochs"].ddl == (
        "log_dir string, broker int, topic string, partition int, leader_epoch int, "
        "start_offset bigint"
    )


class Row(msgspec.Struct):
    name: Annotated[String, "Its name."]
    size: Annotated[Bigint | None, "Null where it is not known."] = None
    owners: Annotated[tuple[int, ...], BROKERS_TYPE, "Brokers that have it."] = ()


def test_the_fields_of_a_row_are_columns() -> None:
    assert columns_of(Row) == (
        Column("name", "string", "Its name."),
        Column("size", "bigint", "Null where it is not known."),
        Column("owners", BROKERS_TYPE, "Brokers that have it."),
    )


def test_lines_are_columns_and_an_indented_one_goes_on() -> None:
    lines = """
        name string Its name,
            in words.
        size int Of it.
    """
    other_column = Column("key", "binary", "Of it.")
    assert Table.of("Some.", lines, (other_column,), nullable=["size"]).columns == (
        Column("name", "string", "Its name, in words.", is_nullable=False),
        Column("size", "int", "Of it."),
        Column("key", "binary", "Of it.", is_nullable=False),
    )
