"""Log directories as a database of DuckDB's in this process: the tables of ``kafka_log`` and the
views of ``views``, by the names and in the words that Spark has for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim_spark.embedded import Embedded
from txnsim_spark.log_query import Wanted
from txnsim_spark.options import KafkaLogOptions, tables_with
from txnsim_spark.planning import READS, shares_of
from txnsim_spark.schemas import TABLES
from txnsim_spark.stores.mirror import carried
from txnsim_spark.stores.reading import Stores
from txnsim_spark.tables.by_replica import TASK_BYTES
from txnsim_spark.tables.readings import batches_of
from txnsim_spark.tables.rows import Job
from txnsim_spark.views import TABLE_PREFIX, VIEWS

if TYPE_CHECKING:
    import pyarrow as pa

_WORD: Final = re.compile(r"\w+")
_COMMENT: Final = re.compile(r"--.*")
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class LogDatabase:
    """Tables are read when a query first names them, and kept.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        options: Of the data source, such as ``topics`` or ``producerIds``; each holds for the
            tables that have it.

    Raises:
        MissingExtraError: DuckDB is not installed.
    """

    def __init__(self, paths: Sequence[Path], options: Mapping[str, str] = _NONE) -> None:
        self._paths = paths
        self._options = options
        self._database = Embedded()
        self._there: set[str] = set()
        self._fault: BadInputError | None = None
        """Error of the read that ended a query."""

    def rows(self, query: str) -> list[dict[str, Any]]:
        """What a query finds.

        Raises:
            BadInputError: The query is wrong, or an option, or a directory.
        """
        import duckdb

        try:
            self._prepare(query)
            return self._database.rows(query)
        except duckdb.Error as error:
            if self._fault is not None:  # DuckDB has the message alone
                raise self._fault from None
            raise BadInputError(str(error).partition("\n")[0]) from error

    def _prepare(self, query: str) -> None:
        for name in dict.fromkeys(_WORD.findall(_COMMENT.sub("", query.lower()))):
            table = name.removeprefix(TABLE_PREFIX)
            if name in self._there:
                continue
            if name in VIEWS:
                self._there.add(name)  # first: as an alias it stands in itself
                self._prepare(VIEWS[name])
                self._database.create(name, VIEWS[name])
            elif name != table and table in TABLES:
                self._there.add(name)
                self._database.keep(name, TABLES[table].arrow(), self._read(table))

    def _read(self, table: str) -> Iterator[pa.RecordBatch]:
        given = {name: text for name, text in self._options.items() if table in tables_with(name)}
        paths = msgspec.json.encode([*map(str, self._paths)]).decode()
        options = KafkaLogOptions.of({**given, "table": table, "paths": paths})
        options = msgspec.structs.replace(options, task_bytes=TASK_BYTES)
        shares = shares_of(options, Wanted.of(options), READS[table], is_asked=bool(given))
        schema = TABLES[table].arrow()
        job = Job(
            options=options,
            columns=tuple(schema.names),
            producer_ids=options.producer_ids or None,
        )
        try:
            for share in shares:
                for rows in batches_of(share, job, schema):
                    yield _shown(rows)
        except BadInputError as error:
            self._fault = error
            raise


def _shown(rows: pa.RecordBatch) -> pa.RecordBatch:
    """With the names that stores have for their directories."""
    for settings in carried():
        rows = Stores(settings).shown(rows)
    return rows
