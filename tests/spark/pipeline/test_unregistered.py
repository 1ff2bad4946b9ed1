"""``kafka_log`` in a session without registration: Spark finds it by its name, and it refuses what
it can't read instead of returning no rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.spark.pipeline.test_one_frame import PUSHDOWN
from tests.support.apache_kafka import free_ports
from tests.support.log_tables import broker_dir, busy_log, replica

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

THE_LINE: Final = "from txnsim_spark import register; register(spark)"


@pytest.fixture
def other_session(spark: SparkSession) -> SparkSession:
    """Another session of the same JVM, without settings and registration."""
    return spark.newSession()


@pytest.mark.parametrize("setting_text", ["true", "false"])
def test_a_directory_is_read_whatever_is_set(
    other_session: SparkSession, tmp_path: Path, setting_text: str
) -> None:
    replica(broker_dir(tmp_path), busy_log())
    other_session.conf.set(PUSHDOWN, setting_text)
    frame = other_session.read.format("kafka_log").load(str(tmp_path))
    assert (frame.where("producer_id = 7").count(), frame.count()) == (30, 90)


@pytest.mark.parametrize("uri", ["s3://bucket/logs", "gs://bucket/logs"])
def test_a_store_is_refused_with_the_line_to_write(other_session: SparkSession, uri: str) -> None:
    from pyspark.errors import PySparkException

    for table in ("batches", "findings"):
        with pytest.raises(PySparkException) as error_info:
            other_session.read.format("kafka_log").option("table", table).load(uri).count()
        assert THE_LINE in str(error_info.value)


def test_a_store_that_is_not_there_is_no_empty_one(other_session: SparkSession) -> None:
    from pyspark.errors import PySparkException

    (port,) = free_ports(1)
    reader = other_session.read.format("kafka_log").options(
        **{
            "fs.s3a.endpoint": f"http://127.0.0.1:{port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.access.key": "any",
            "fs.s3a.secret.key": "any",
        }
    )
    with pytest.raises(PySparkException, match="s3a://bucket/logs"):
        reader.load("s3a://bucket/logs").count()


@pytest.mark.parametrize(
    ("options", "expected_words"),
    [
        ({"topics": "payments"}, "no topic 'payments'; there are: orders"),
        ({"topics": ""}, "option topics: '', expected names"),
        ({"startingOffsets": "latest"}, "only a stream begins at the latest offsets"),
    ],
)
def test_what_can_t_have_rows_is_refused(
    other_session: SparkSession, tmp_path: Path, options: dict[str, str], expected_words: str
) -> None:
    from pyspark.errors import PySparkException

    replica(broker_dir(tmp_path), busy_log())
    with pytest.raises(PySparkException) as error_info:
        other_session.read.format("kafka_log").options(**options).load(str(tmp_path)).count()
    assert expected_words in str(error_info.value)
