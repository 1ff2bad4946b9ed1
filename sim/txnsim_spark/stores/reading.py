"""Reads ``kafka_log`` from a store: before planning, URIs become paths of the mirror; in rows they
become URIs again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from txnsim.errors import BadInputError
from txnsim_spark.options import FORMAT, KafkaLogOptions
from txnsim_spark.planning import Share
from txnsim_spark.stores.mirror import Mirror, mount
from txnsim_spark.stores.settings import StoreSettings, own_root


class Stores:
    """The stores of a session, sent to where tasks are planned and run."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings

    @property
    def _mirror(self) -> Mirror:
        return mount(self._settings)

    def folders(self, uris: Iterable[str]) -> tuple[Path, ...]:
        """The mirrored folders for paths and patterns (``Mirror.local_folders``)."""
        return self._mirror.local_folders(uris)

    def with_local_paths(self, options: KafkaLogOptions) -> KafkaLogOptions:
        """The options, with mirrored folders instead of URIs and patterns."""
        mirror = self._mirror
        own_folders = tuple(
            map(mirror.with_store_names, map(str, filter(mirror.has, options.paths)))
        )
        local_paths = tuple(path for path in options.paths if not mirror.has(path))
        return msgspec.structs.replace(
            options,
            paths=local_paths + mirror.local_folders((*own_folders, *options.uris)),
            uris=(),
        )

    @property
    def listed_ms(self) -> int:
        return self._mirror.settings.listed_ms

    def fill(self, share: Share, listed_ms: int) -> None:
        """Mirror the folders of a share as they were at ``listed_ms`` or later."""
        self._mirror.drop_older_listings(listed_ms)
        replicas = [*share.replicas, *(segment.replica for segment in share.segments)]
        folder_paths = [*share.log_dirs]
        for replica in replicas:
            folder_paths += [replica.log_dir, replica.path]
        self._mirror.fill(map(Path, dict.fromkeys(folder_paths)))

    def with_store_names(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, with stores' URIs instead of mirrored paths."""
        columns = [
            self._rename_texts(column)
            if pa.types.is_string(column.type)
            else self._rename_lists(column)
            for column in batch.columns
        ]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _rename_lists(self, column: pa.Array) -> pa.Array:
        """Replace mirrored paths in columns of lists of texts: those of ``findings``, which have
        few rows.
        """
        if not pa.types.is_list(column.type) or not pa.types.is_string(column.type.value_type):
            return column
        from txnsim_spark.tables.arrays import value_array  # planning does without numpy

        with_store_names = self._mirror.with_store_names
        renamed_lists = (
            None if path_texts is None else [*map(with_store_names, path_texts)]
            for path_texts in column.to_pylist()
        )
        return value_array(list(renamed_lists), column.type)

    def _rename_texts(self, column: pa.Array) -> pa.Array:
        import pyarrow.compute as pc  # takes longer to load than a table to plan

        root = re.escape(self._settings.root)
        return pc.replace_substring_regex(column, rf"{root}/([^/\s]+)/", r"\1://")


def stores_of(
    settings: StoreSettings | None, options: Mapping[str, str], *, is_registered: bool = True
) -> Stores | None:
    """The stores that a read's options need; None where all paths are on this machine.

    Args:
        settings: Settings of the session; None for Spark Connect, and if they are unknown.
        options: Options of the read.
        is_registered: Whether the session has passed its settings.

    Raises:
        BadInputError: The session's settings are unknown.
    """
    read_options = KafkaLogOptions.of(options)
    has_mirrored_paths = settings is not None and any(
        str(path).startswith(f"{settings.root}/") for path in read_options.paths
    )
    if not read_options.uris and not has_mirrored_paths:
        return None
    if not is_registered and not read_options.hadoop:
        raise BadInputError(
            f"format {FORMAT}: {read_options.uris[0]} is read with the settings of a session, or"
            f" with options of the read (fs.s3a.endpoint.region, …). {_REGISTER_HINT}"
        )
    return Stores((settings or StoreSettings(root=own_root())).with_conf(read_options.hadoop))


_REGISTER_HINT: Final = "Write before it: from txnsim_spark import register; register(spark)"
