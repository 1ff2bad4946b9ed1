"""Log directories as a DuckDB database in this process: the tables of ``kafka_log`` and the views
of ``views``, with the names that they have in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim_spark.embedded import EmbeddedDatabase, translate_for_duckdb
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import KafkaLogOptions, tables_with
from txnsim_spark.planning import FILES_OF_TABLE, Share, shares_of
from txnsim_spark.query_plan import TableUse, prepare_planning, scans_of_streams, table_uses
from txnsim_spark.read_ahead import read_ahead
from txnsim_spark.scan.log_dirs import ignore_problem
from txnsim_spark.scan.segments import Replica
from txnsim_spark.schemas import TABLES
from txnsim_spark.stores.mirror import mounted_settings
from txnsim_spark.stores.reading import Stores
from txnsim_spark.tables.replica_jobs import TASK_BYTES
from txnsim_spark.tables.row_sources import batches_of
from txnsim_spark.tables.rows import TableJob
from txnsim_spark.views import TABLE_PREFIX, VIEWS

if TYPE_CHECKING:
    import pyarrow as pa

_WORD: Final = re.compile(r"\w+")
_COMMENT: Final = re.compile(r"--.*")
_NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})


class LogDatabase:
    """A DuckDB database over log directories. Of each table that a query names, only the columns
    and replicas that the query needs are read (``query_plan``). A table that is read once is
    streamed. One that is read several times is kept, in columns, for this query and later ones.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        options: Of the data source, such as ``topics`` or ``producerIds``; each holds for the
            tables that have it.
        progress: Called with what is read now.

    Raises:
        MissingExtraError: DuckDB is not installed.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        options: Mapping[str, str] = _NO_OPTIONS,
        progress: Callable[[str], object] = ignore_problem,
    ) -> None:
        self._path_texts = paths
        self._progress = progress
        self._options = options
        self._planning_database = EmbeddedDatabase()
        """The same tables and views without rows, for planning."""
        prepare_planning(self._planning_database.connection)
        self._database = EmbeddedDatabase()
        self._kept_tables: dict[str, TableUse] = {}
        """Name of a table -> its kept columns."""
        self._view_names: set[str] = set()
        self._named_relations: set[str] = set()
        self._read_error: BadInputError | KeyboardInterrupt | None = None
        """The error that ended the read of a query."""

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query.

        Raises:
            BadInputError: The query, an option or a directory is wrong. DuckDB's message on a query
                has the line, and a caret below the place.
        """
        import duckdb

        try:
            self._create_named_relations(query)
            self._prepare_tables(query)
            return self._database.rows(query)
        except duckdb.Error as error:
            if self._read_error is not None:  # DuckDB has the message alone
                raise self._read_error from None
            raise BadInputError(f"{error}{_hint_on(query, error)}") from error
        finally:
            self._read_error = None

    # Naming

    def _create_named_relations(self, query: str) -> None:
        """Create the tables (without rows) and the views that a query names."""
        for relation_name in _words_of(query):
            if relation_name in self._named_relations:
                continue
            if relation_name in VIEWS:
                self._named_relations.add(relation_name)  # first: as an alias it stands in itself
                self._create_named_relations(VIEWS[relation_name])
                self._planning_database.create(relation_name, VIEWS[relation_name])
            elif relation_name in _TABLE_OF_RELATION:
                self._named_relations.add(relation_name)
                self._planning_database.keep(
                    relation_name, TABLES[_TABLE_OF_RELATION[relation_name]].arrow(), []
                )

    # Reading

    def _prepare_tables(self, query: str) -> None:
        import duckdb

        statement = translate_for_duckdb(query)
        connection = self._planning_database.connection
        statements = connection.extract_statements(statement)
        if not statements:
            raise BadInputError(
                "the query is empty: write a statement, such as SELECT count(*) FROM kafka_batches"
            )
        is_single_statement = len(statements) == 1
        try:
            use_by_table = table_uses(connection, statement) if is_single_statement else None
        except duckdb.Error:
            connection.execute(statement)  # raises the same, with the places of the query itself
            use_by_table = None  # a statement without a plan
        if use_by_table is None:
            use_by_table = {
                table_name: _whole_table_use(table_name)
                for table_name in self._named_relations
                if table_name in _TABLE_OF_RELATION
            }
        streamed_use_by_table = {
            table_name: table_use
            for table_name, table_use in use_by_table.items()
            if table_name in _TABLE_OF_RELATION and is_single_statement
        }
        for table_name, table_use in use_by_table.items():
            if table_name in _TABLE_OF_RELATION and not self._keeps_columns(table_name, table_use):
                if table_use.scan_count == 1 and is_single_statement:
                    self._stream_table(table_name, table_use)
                else:
                    del streamed_use_by_table[table_name]
                    self._keep_table(table_name, table_use)
            else:
                streamed_use_by_table.pop(table_name, None)
        for table_name in self._named_relations - use_by_table.keys():
            if table_name in _TABLE_OF_RELATION and table_name not in self._kept_tables:
                self._create_view(table_name, frozenset(), "")  # named, and nothing of it is needed
        for view_name in (
            view for view in VIEWS if view in self._named_relations - self._view_names
        ):
            self._view_names.add(view_name)
            self._database.create(view_name, VIEWS[view_name])
        if streamed_use_by_table and scans_of_streams(self._database.connection, statement) != len(
            streamed_use_by_table
        ):
            # The same view in two places is one scan of a table, and two of a stream.
            for table_name, table_use in streamed_use_by_table.items():
                self._keep_table(table_name, table_use)

    def _keeps_columns(self, table_name: str, table_use: TableUse) -> bool:
        kept_use = self._kept_tables.get(table_name)
        return (
            kept_use is not None
            and table_use.columns <= kept_use.columns
            and all(
                table_use.values_by_key.get(key, frozenset([""])) <= kept_use.values_by_key[key]
                for key in kept_use.values_by_key
            )
        )

    def _stream_table(self, table_name: str, table_use: TableUse) -> None:
        source_name = f"_streamed_{table_name}"
        columns = _columns_to_read(table_name, table_use)
        self._database.stream(
            source_name,
            _schema_of(table_name, columns),
            self._read_table(table_name, table_use, columns),
        )
        self._kept_tables.pop(table_name, None)
        self._create_view(table_name, columns, source_name)

    def _keep_table(self, table_name: str, table_use: TableUse) -> None:
        source_name = f"_kept_{table_name}"
        columns = _columns_to_read(table_name, table_use)
        self._database.connection.execute(f'DROP TABLE IF EXISTS "{source_name}"')
        self._database.keep(
            source_name,
            _schema_of(table_name, columns),
            self._read_table(table_name, table_use, columns),
        )
        self._kept_tables[table_name] = table_use
        self._create_view(table_name, columns, source_name)

    def _create_view(self, table_name: str, columns: frozenset[str], source_name: str) -> None:
        """Give a query the columns that were read; the table's other columns are null."""
        column_descriptions = self._planning_database.connection.execute(
            f'DESCRIBE "{table_name}"'
        ).fetchall()
        select_list = ", ".join(
            f'"{column}"' if column in columns else f'CAST(NULL AS {column_type}) AS "{column}"'
            for column, column_type, *_ in column_descriptions
        )
        from_clause = f'FROM "{source_name}"' if source_name else "WHERE false"
        self._database.connection.execute(
            f'CREATE OR REPLACE VIEW "{table_name}" AS SELECT {select_list} {from_clause}'
        )

    def _read_table(
        self, table_name: str, table_use: TableUse, columns: frozenset[str]
    ) -> Iterator[pa.RecordBatch]:
        try:
            table = _TABLE_OF_RELATION[table_name]
            table_options = {
                option_name: option_text
                for option_name, option_text in self._options.items()
                if table in tables_with(option_name)
            }
            paths_json = msgspec.json.encode([*map(str, self._path_texts)]).decode()
            options = KafkaLogOptions.of({**table_options, "table": table, "paths": paths_json})
            options = msgspec.structs.replace(options, task_bytes=TASK_BYTES)
            shares = shares_of(
                options,
                RowScope.of(options),
                FILES_OF_TABLE[table],
                is_user_read=bool(table_options),
            )
            if table not in WHOLE_TABLES:
                shares = list(_shares_with_keys(shares, table_use.values_by_key))
            schema = _schema_of(table_name, columns)
            job = TableJob(
                options=options,
                columns=tuple(schema.names),
                producer_ids=options.producer_ids or None,
            )
            reported_number = None
            readers = [partial(batches_of, share, job, schema) for share in shares]
            for share_number, rows in read_ahead(readers):
                if share_number != reported_number:
                    self._progress(f"{table_name}: read part {share_number + 1} of {len(shares)}")
                    reported_number = share_number
                yield _with_store_names(rows)
        except (BadInputError, KeyboardInterrupt) as error:
            self._read_error = error
            raise


WHOLE_TABLES: Final = frozenset({"errors", "findings"})
"""Tables whose rows belong to no single replica."""
_TABLE_OF_RELATION: Final = {f"{TABLE_PREFIX}{table}": table for table in TABLES}


def _words_of(query: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(_COMMENT.sub("", query.lower()))))


def _whole_table_use(table_name: str) -> TableUse:
    return TableUse(
        columns=frozenset(TABLES[_TABLE_OF_RELATION[table_name]].names),
        scan_count=2,
        values_by_key={},
    )


def _columns_to_read(table_name: str, table_use: TableUse) -> frozenset[str]:
    """The columns to read; at least one, since a stream without columns would have no rows."""
    column_names = TABLES[_TABLE_OF_RELATION[table_name]].names
    return table_use.columns.intersection(column_names) or frozenset(column_names[:1])


def _schema_of(table_name: str, columns: frozenset[str]) -> pa.Schema:
    table = TABLES[_TABLE_OF_RELATION[table_name]]
    return table.arrow(tuple(column for column in table.names if column in columns))


def _shares_with_keys(
    shares: Iterable[Share], values_by_key: Mapping[str, frozenset[str]]
) -> Iterator[Share]:
    """The shares without replicas of topics and partitions that the query does not need."""

    def is_wanted(replica: Replica) -> bool:
        value_by_key = {"topic": replica.topic, "partition": str(replica.partition)}
        return all(
            value_by_key[key] in wanted_values for key, wanted_values in values_by_key.items()
        )

    for share in shares:
        segments = tuple(segment for segment in share.segments if is_wanted(segment.replica))
        replicas = tuple(filter(is_wanted, share.replicas))
        if segments or replicas:
            yield msgspec.structs.replace(share, segments=segments, replicas=replicas)


def _hint_on(query: str, error: Exception) -> str:
    """Advice about a column whose name is a word of SQL."""
    bare_query = _QUOTED.sub("", _COMMENT.sub("", query))
    if "Parser Error" in str(error) and _BARE_OFFSET.search(bare_query):
        return '\noffset is a reserved word of SQL: write "offset", with the quotes, for the column'
    return ""


_QUOTED: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`")
_BARE_OFFSET: Final = re.compile(r"(?<![\w.])offset(?!\s*\d)\b", re.IGNORECASE)


def _with_store_names(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows in which directories have the names of their store."""
    for settings in mounted_settings():
        rows = Stores(settings).with_store_names(rows)
    return rows
