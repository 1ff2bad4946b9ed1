"""Reads tables of ``kafka_log`` as plain rows, to compare them with the truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.spark.pipeline.corpus.truth import Place, Stage

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

STAGES: Final = ("clean", "killed", "torn")
CLEANED: Final = frozenset({"compacted", "swept"})
"""Topics from which the cleaner has taken records."""


class Tables:
    """Tables over several stages. Spark reads each table once, over all stages in one query.

    Args:
        spark: The session that reads.
        stages: Name of a stage → its log directories.
    """

    def __init__(self, spark: SparkSession, stages: Mapping[str, tuple[Path, ...]]) -> None:
        self._spark = spark
        self._stages = stages
        self._stage_of = {
            str(path): stage_name for stage_name, paths in stages.items() for path in paths
        }
        self._read: dict[tuple[object, ...], dict[str, list[Row]]] = {}

    def rows(self, stage_name: str, table_name: str, *order: str, **options: str) -> list[Row]:
        """All rows of a table in one stage.

        Args:
            stage: Name of the stage.
            table_name: Name of the table.
            order: Columns to sort by.
            options: Further options of ``kafka_log``.
        """
        key = (table_name, *sorted(options.items()))
        if key not in self._read:
            self._read[key] = self._from_spark(table_name, options)
        rows = self._read[key][stage_name]
        return sorted(rows, key=attrgetter(*order)) if order else rows

    def _from_spark(self, table_name: str, options: Mapping[str, str]) -> dict[str, list[Row]]:
        # One stage has damage on purpose: it is read up to there, and ``errors`` names it.
        reader = self._spark.read.format("kafka_log").options(
            table=table_name, ignoreCorruptFiles="true", **options
        )
        rows_by_stage: dict[str, list[Row]] = {stage_name: [] for stage_name in self._stages}
        for row in reader.load(",".join(self._stage_of)).collect():
            rows_by_stage[self._stage_of[row.log_dir]].append(row)
        return rows_by_stage


def partition_of(row: Row) -> Place:
    return Place(row.topic, row.partition)


def by_replica(rows: Iterable[Row]) -> dict[tuple[int, Place], list[Row]]:
    """Rows of users' topics by broker and partition, in their order."""
    rows_by_stage: dict[tuple[int, Place], list[Row]] = {}
    for row in rows:
        if not row.topic.startswith("__"):
            rows_by_stage.setdefault((row.broker, partition_of(row)), []).append(row)
    return rows_by_stage


def sound_ends(stage: Stage) -> dict[Place, int]:
    """Damaged partition → the offset after its last complete batch."""
    return {damage.place: damage.sound_end for damage in stage.damage}


def moving(stage: Stage, partition: Place) -> bool:
    """Whether a program was writing to the partition when the brokers were killed."""
    return partition.topic in stage.writers


def or_minus_one(value: Any) -> Any:
    """The value, or -1 for None: requests have -1 where a table has null."""
    return -1 if value is None else value
