"""One SparkSession for all of these tests: it takes seconds to start, and a process has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.corpus.made import Corpus
from tests.pipeline.corpus.made import corpus as made_corpus
from tests.support.spark_connector import connector_jars
from txnsim.pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores of this machine, ``kafka_log`` registered, Spark's Kafka connector at hand."""
    session = spark_session(
        "local[2]",
        app_name="tests",
        config={
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.jars": ",".join(sorted(map(str, connector_jars().glob("*.jar")))),
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """Log directories of a real Apache Kafka with their truth; none of their files is changed."""
    return made_corpus()
