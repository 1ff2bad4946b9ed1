"""Tables of ``kafka_log`` over a stage of the corpus, as plain rows to compare with its truth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tests.pipeline.corpus.made import Corpus
from tests.pipeline.corpus.truth import Place, Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

STAGES: Final = ("clean", "killed", "torn")
CLEANED: Final = frozenset({"compacted", "swept"})
"""Topics from which the cleaner has taken records."""


def table(spark: SparkSession, corpus: Corpus, stage: str, name: str) -> DataFrame:
    """A table over the directories of both brokers."""
    paths = ",".join(map(str, corpus.brokers(stage)))
    return spark.read.format("kafka_log").option("table", name).load(paths)


def place_of(row: Row) -> Place:
    """The partition that a row is about."""
    return Place(row.topic, row.partition)


def by_replica(rows: Iterable[Row]) -> dict[tuple[int, Place], list[Row]]:
    """Rows of users' topics, by broker and partition, as they come."""
    found: dict[tuple[int, Place], list[Row]] = {}
    for row in rows:
        if not row.topic.startswith("__"):
            found.setdefault((row.broker, place_of(row)), []).append(row)
    return found


def sound_ends(stage: Stage) -> dict[Place, int]:
    """Damaged partition → the offset behind its last whole batch."""
    return {one.place: one.sound_end for one in stage.damage}


def moving(stage: Stage, place: Place) -> bool:
    """Whether somebody wrote to the partition when the brokers were killed."""
    return place.topic in stage.writers


def or_minus_one(value: Any) -> int:
    """What the wire says where a table has null."""
    return -1 if value is None else int(value)
