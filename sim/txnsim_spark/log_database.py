"""Log directories as a DuckDB database in this process: the tables of ``kafka_log`` and the views
of ``views``, with the names that they have in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim_spark.embedded import Embedded, for_duckdb
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import KafkaLogOptions, tables_with
from txnsim_spark.planning import READS, Share, shares_of
from txnsim_spark.query_plan import TableUse, prepare_planning, scans_of_streams, uses_of
from txnsim_spark.scan.log_dirs import untold
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
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


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
        options: Mapping[str, str] = _NONE,
        progress: Callable[[str], object] = untold,
    ) -> None:
        self._paths = paths
        self._progress = progress
        self._options = options
        self._planned = Embedded()
        """The same tables and views without rows, for planning."""
        prepare_planning(self._planned.connection)
        self._database = Embedded()
        self._kept: dict[str, TableUse] = {}
        """Name of a table -> its kept columns."""
        self._views: set[str] = set()
        self._named: set[str] = set()
        self._fault: BadInputError | KeyboardInterrupt | None = None
        """The error that ended the read of a query."""

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query.

        Raises:
            BadInputError: The query, an option or a directory is wrong. DuckDB's message on a query
                has the line, and a caret below the place.
        """
        import duckdb

        try:
            self._name_all(query)
            self._prepare(query)
            return self._database.rows(query)
        except duckdb.Error as error:
            if self._fault is not None:  # DuckDB has the message alone
                raise self._fault from None
            raise BadInputError(f"{error}{_hint_on(query, error)}") from error
        finally:
            self._fault = None

    # Naming

    def _name_all(self, query: str) -> None:
        """Create the tables (without rows) and the views that a query names."""
        for name in _names_in(query):
            if name in self._named:
                continue
            if name in VIEWS:
                self._named.add(name)  # first: as an alias it stands in itself
                self._name_all(VIEWS[name])
                self._planned.create(name, VIEWS[name])
            elif name in _TABLE_OF:
                self._named.add(name)
                self._planned.keep(name, TABLES[_TABLE_OF[name]].arrow(), [])

    # Reading

    def _prepare(self, query: str) -> None:
        import duckdb

        statement = for_duckdb(query)
        connection = self._planned.connection
        is_one = len(connection.extract_statements(statement)) == 1
        try:
            uses = uses_of(connection, statement) if is_one else None
        except duckdb.Error:
            connection.execute(statement)  # raises the same, with the places of the query itself
            uses = None  # a statement without a plan
        if uses is None:
            uses = {name: _whole(name) for name in self._named if name in _TABLE_OF}
        streamed = {name: use for name, use in uses.items() if name in _TABLE_OF and is_one}
        for name, use in uses.items():
            if name in _TABLE_OF and not self._keeps(name, use):
                if use.scans == 1 and is_one:
                    self._stream(name, use)
                else:
                    del streamed[name]
                    self._keep(name, use)
            else:
                streamed.pop(name, None)
        for name in self._named - uses.keys():
            if name in _TABLE_OF and name not in self._kept:
                self._show(name, frozenset(), "")  # named, and nothing of it is needed
        for name in (view for view in VIEWS if view in self._named - self._views):
            self._views.add(name)
            self._database.create(name, VIEWS[name])
        if streamed and scans_of_streams(self._database.connection, statement) != len(streamed):
            # The same view in two places is one scan of a table, and two of a stream.
            for name, use in streamed.items():
                self._keep(name, use)

    def _keeps(self, name: str, use: TableUse) -> bool:
        kept_use = self._kept.get(name)
        return (
            kept_use is not None
            and use.columns <= kept_use.columns
            and all(
                use.keys.get(key, frozenset([""])) <= kept_use.keys[key] for key in kept_use.keys
            )
        )

    def _stream(self, name: str, use: TableUse) -> None:
        source = f"_streamed_{name}"
        columns = _columns_of(name, use)
        self._database.stream(source, _schema(name, columns), self._read(name, use, columns))
        self._kept.pop(name, None)
        self._show(name, columns, source)

    def _keep(self, name: str, use: TableUse) -> None:
        source = f"_kept_{name}"
        columns = _columns_of(name, use)
        self._database.connection.execute(f'DROP TABLE IF EXISTS "{source}"')
        self._database.keep(source, _schema(name, columns), self._read(name, use, columns))
        self._kept[name] = use
        self._show(name, columns, source)

    def _show(self, name: str, columns: frozenset[str], source: str) -> None:
        """Give a query the columns that were read; the table's other columns are null."""
        kinds = self._planned.connection.execute(f'DESCRIBE "{name}"').fetchall()
        select_list = ", ".join(
            f'"{column}"' if column in columns else f'CAST(NULL AS {kind}) AS "{column}"'
            for column, kind, *_ in kinds
        )
        origin = f'FROM "{source}"' if source else "WHERE false"
        self._database.connection.execute(
            f'CREATE OR REPLACE VIEW "{name}" AS SELECT {select_list} {origin}'
        )

    def _read(self, name: str, use: TableUse, columns: frozenset[str]) -> Iterator[pa.RecordBatch]:
        table = _TABLE_OF[name]
        options_of_table = {
            key: text for key, text in self._options.items() if table in tables_with(key)
        }
        paths = msgspec.json.encode([*map(str, self._paths)]).decode()
        options = KafkaLogOptions.of({**options_of_table, "table": table, "paths": paths})
        options = msgspec.structs.replace(options, task_bytes=TASK_BYTES)
        shares = shares_of(
            options, RowScope.of(options), READS[table], is_asked=bool(options_of_table)
        )
        if table not in WHOLE:
            shares = list(_of_keys(shares, use.keys))
        schema = _schema(name, columns)
        job = TableJob(
            options=options,
            columns=tuple(schema.names),
            producer_ids=options.producer_ids or None,
        )
        try:
            for number, share in enumerate(shares, 1):
                self._progress(f"{name}: read part {number} of {len(shares)}")
                for rows in batches_of(share, job, schema):
                    yield _with_store_names(rows)
        except (BadInputError, KeyboardInterrupt) as error:
            self._fault = error
            raise


WHOLE: Final = frozenset({"errors", "findings"})
"""Tables whose rows belong to no single replica."""
_TABLE_OF: Final = {f"{TABLE_PREFIX}{table}": table for table in TABLES}


def _names_in(query: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(_COMMENT.sub("", query.lower()))))


def _whole(name: str) -> TableUse:
    return TableUse(columns=frozenset(TABLES[_TABLE_OF[name]].names), scans=2, keys={})


def _columns_of(name: str, use: TableUse) -> frozenset[str]:
    """The columns to read; at least one, since a stream without columns would have no rows."""
    names = TABLES[_TABLE_OF[name]].names
    return use.columns.intersection(names) or frozenset(names[:1])


def _schema(name: str, columns: frozenset[str]) -> pa.Schema:
    table = TABLES[_TABLE_OF[name]]
    return table.arrow(tuple(column for column in table.names if column in columns))


def _of_keys(shares: Iterable[Share], keys: Mapping[str, frozenset[str]]) -> Iterator[Share]:
    """The shares without replicas of topics and partitions that the query does not need."""

    def is_wanted(replica: Replica) -> bool:
        values = {"topic": replica.topic, "partition": str(replica.partition)}
        return all(values[key] in values_asked for key, values_asked in keys.items())

    for share in shares:
        segments = tuple(segment for segment in share.segments if is_wanted(segment.replica))
        replicas = tuple(filter(is_wanted, share.replicas))
        if segments or replicas:
            yield msgspec.structs.replace(share, segments=segments, replicas=replicas)


def _hint_on(query: str, error: Exception) -> str:
    """Advice about a column whose name is a word of SQL."""
    text = _QUOTED.sub("", _COMMENT.sub("", query))
    if "Parser Error" in str(error) and _BARE_OFFSET.search(text):
        return '\noffset is a reserved word of SQL: write "offset", with the quotes, for the column'
    return ""


_QUOTED: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`")
_BARE_OFFSET: Final = re.compile(r"(?<![\w.])offset(?!\s*\d)\b", re.IGNORECASE)


def _with_store_names(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows in which directories have the names of their store."""
    for settings in mounted_settings():
        rows = Stores(settings).with_store_names(rows)
    return rows
