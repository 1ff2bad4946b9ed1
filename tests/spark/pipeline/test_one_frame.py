"""Queries over one DataFrame and one view of ``kafka_log``, in any order: each has the rows that it
has over a copy in Parquet, whatever ran before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.log_tables import broker_dir, busy_log, replica
from txnsim.types import TopicPartition
from txnsim_spark import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

REPORT: Final = Path(__file__).resolve().parents[3] / "docs/contributing/spark-pushed-filters.md"
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
Row = Mapping[str, Any]
COLUMNS: Final = ("broker", "topic", "partition", "base_offset", "producer_id")
CONDITIONS: Final[Mapping[str, Callable[[Row], bool]]] = {
    "broker = 1": lambda row: row["broker"] == 1,
    "topic = 'orders'": lambda row: row["topic"] == "orders",
    "topic LIKE 'pay%'": lambda row: row["topic"].startswith("pay"),
    "topic IN ('orders', 'nowhere')": lambda row: row["topic"] in ("orders", "nowhere"),
    "partition != 0": lambda row: row["partition"] != 0,
    "partition IN (1, 2)": lambda row: row["partition"] in (1, 2),
    "producer_id = 7": lambda row: row["producer_id"] == 7,
    "producer_id IN (8, 9)": lambda row: row["producer_id"] in (8, 9),
    "producer_id IS NULL": lambda row: row["producer_id"] is None,
    "base_offset >= 60": lambda row: row["base_offset"] >= 60,
    "base_offset < 30": lambda row: row["base_offset"] < 30,
    "is_control": lambda row: row["is_control"],
}
"""Conditions in SQL, and the same in Python."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A query of the frame or of the view: a union of parts, each with some conditions."""

    is_of_view: bool
    parts: tuple[tuple[str, ...], ...]


SOME: Final = st.lists(st.sampled_from(sorted(CONDITIONS)), max_size=2, unique=True).map(tuple)
QUERIES: Final = st.builds(
    Query, is_of_view=st.booleans(), parts=st.lists(SOME, min_size=1, max_size=2).map(tuple)
)
EVERYTHING: Final[tuple[tuple[str, ...], ...]] = ((),)
TWO: Final = (("broker = 1",), ("producer_id = 7",))
CHANGES: Final = st.sampled_from(("cache", "uncache", "on", "off"))
"""Changes between queries: of the frame's cache, and of the session's setting for pushed
filters.
"""
PLAYS: Final = st.lists(QUERIES | CHANGES, min_size=2, max_size=6)
PLAYS_EACH: Final = 20
"""Number of plays in each drawn example: Spark plans the read of a frame only once, in a process of
its own.
"""
PARTS: Final = 4
ONE_AFTER_THE_OTHER: Final = [
    Query(is_of_view=is_of_view, parts=parts)
    for is_of_view in (False, True)
    for parts in (EVERYTHING, (("topic = 'orders'",),), EVERYTHING, TWO)
]
"""Queries in an order that a data engineer has run: the third is the first again."""


class CopiedDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """A log directory, and all rows of its copy."""

    logs: Path
    rows: Sequence[Row]

    def expected_rows(self, query: Query) -> list[tuple[Any, ...]]:
        """The rows that a query should return, computed from ``rows``."""
        return as_sorted(
            tuple(row[column_name] for column_name in COLUMNS)
            for query_part in query.parts
            for row in self.rows
            if all(CONDITIONS[condition](row) for condition in query_part)
        )


@pytest.fixture(scope="module")
def copied_tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> CopiedDirectory:
    root = tmp_path_factory.mktemp("one-frame")
    for broker in (1, 2):
        log_dir = broker_dir(root / "logs" / f"broker-{broker}", broker=broker)
        for topic, partition in (("orders", 0), ("orders", 1), ("payments", 0)):
            replica(log_dir, busy_log(), TopicPartition(topic, partition))
    frame = spark.read.format("kafka_log").load(str(root / "logs"))
    frame.write.parquet(str(root / "copy"))
    rows = pq.read_table(root / "copy").to_pylist()
    assert len(rows) == 2 * 3 * 90
    return CopiedDirectory(logs=root / "logs", rows=rows)


@pytest.fixture
def as_it_was(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.unset(PUSHDOWN)
    register(spark)


def as_sorted(rows: Iterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def spark_answer(spark: SparkSession, frame: DataFrame, query: Query) -> list[tuple[Any, ...]]:
    """Rows of a query by Spark: of a union of frames, or of a query in SQL."""
    if query.is_of_view:
        parts = (
            f"SELECT {', '.join(COLUMNS)} FROM one_view WHERE {' AND '.join(query_part) or 'true'}"
            for query_part in query.parts
        )
        sql = spark.sql(" UNION ALL ".join(parts))
    else:
        first_condition_frame, *other_conditions = (
            frame.where(" AND ".join(query_part) or "true").select(*COLUMNS)
            for query_part in query.parts
        )
        sql = first_condition_frame
        for other_condition_frame in other_conditions:
            sql = sql.union(other_condition_frame)
    return as_sorted(tuple(row) for row in sql.collect())


def play(
    spark: SparkSession, copied_directory: CopiedDirectory, steps: Sequence[Query | str]
) -> None:
    """Check that each query of a new frame and a new view has the rows of the copy."""
    frame = spark.read.format("kafka_log").load(str(copied_directory.logs))
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW one_view USING kafka_log"
        f" OPTIONS (path '{copied_directory.logs}', table 'batches')"
    )
    try:
        for step in steps:
            match step:
                case "cache":
                    frame.cache()
                case "uncache":
                    frame.unpersist(blocking=True)
                case Query():
                    assert spark_answer(spark, frame, step) == copied_directory.expected_rows(
                        step
                    ), step
                case setting:
                    spark.conf.set(PUSHDOWN, str(setting == "on").lower())
    finally:
        frame.unpersist(blocking=True)


@pytest.mark.parametrize("setting_text", ["on", "off"])
@pytest.mark.usefixtures("as_it_was")
def test_a_query_does_not_hang_on_the_one_before(
    spark: SparkSession, copied_tables: CopiedDirectory, setting_text: str
) -> None:
    play(spark, copied_tables, [setting_text, *ONE_AFTER_THE_OTHER])


@pytest.mark.usefixtures("as_it_was")
def test_it_does_not_where_the_session_hands_filters_over_as_it_registers(
    spark: SparkSession, copied_tables: CopiedDirectory
) -> None:
    spark.conf.set(PUSHDOWN, "true")
    register(spark)
    play(spark, copied_tables, ONE_AFTER_THE_OTHER)


@pytest.mark.usefixtures("as_it_was")
def test_the_report_to_spark_shows_what_happens(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"> ```(?:python)?\n(.*?)> ```\n", REPORT.read_text("utf-8"), re.DOTALL)
    program, expected_text, actual = (
        re.sub(r"^> ?", "", condition, flags=re.MULTILINE) for condition in blocks
    )
    exec(compile(program, str(REPORT), "exec"), {"__name__": "__main__"})
    spark.conf.set(PUSHDOWN, "true")
    assert expected_text != actual
    assert capsys.readouterr().out == actual, "has this Spark mended it? kafka_log may take filters"


@given(steps=PLAYS)
@settings(max_examples=8)
@pytest.mark.usefixtures("as_it_was")
def test_drawn_queries_over_one_frame(
    spark: SparkSession, copied_tables: CopiedDirectory, steps: Sequence[Query | str]
) -> None:
    play(spark, copied_tables, steps)


@pytest.mark.nightly  # half an hour
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.usefixtures("as_it_was")
def test_two_thousand_drawn_plays(
    spark: SparkSession, copied_tables: CopiedDirectory, part: int
) -> None:
    def play_all(plays: Sequence[Sequence[Query | str]]) -> None:
        play(spark, copied_tables, [step for steps in plays for step in ("uncache", "off", *steps)])

    play_all.__name__ = f"part_{part}"  # what is drawn follows from it
    several_plays = st.lists(PLAYS, min_size=PLAYS_EACH, max_size=PLAYS_EACH)
    settings(max_examples=2_000 // PARTS // PLAYS_EACH)(given(plays=several_plays)(play_all))()
