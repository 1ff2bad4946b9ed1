"""Fixtures of the pipeline's tests. They share one SparkSession: it takes seconds to start, and a
process has only one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.pipeline.corpus.made import Corpus
from tests.spark.pipeline.corpus.made import corpus as made_corpus
from tests.spark.pipeline.reading import STAGES, Tables
from tests.support.hadoop_jars import s3a_jars
from tests.support.quick_spark import quick_environment
from tests.support.spark_classes import reading, shared_classes
from tests.support.spark_connector import connector_jars
from tests.support.standalone_spark import StandaloneSpark
from txnsim_spark.session import SHORT_SESSION_CONFIG, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put modules that read the corpus last: another process may be making it
    (``tests.ci.nightly``).
    """
    corpus_paths = {item.path for item in items if "corpus" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path in corpus_paths)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores of this machine, with ``kafka_log`` registered and connectors to Kafka
    and S3.
    """
    with pytest.MonkeyPatch.context() as patch:
        # Of the processes in Python that the session starts: several for each table that is read.
        patch.setenv("PYTHONPATH", quick_environment()["PYTHONPATH"])
        session = spark_session(
            "local[2]",
            app_name="tests",
            config={
                "spark.driver.memory": "1g",
                "spark.driver.defaultJavaOptions": " ".join(
                    (
                        SHORT_SESSION_CONFIG["spark.driver.defaultJavaOptions"],
                        reading(shared_classes()),
                    )
                ),
                "spark.sql.shuffle.partitions": "2",
                "spark.jars": ",".join(
                    str(jar_file)
                    for jar_directory in (connector_jars(), s3a_jars())
                    for jar_file in sorted(jar_directory.glob("*.jar"))
                ),
            },
        )
    yield session
    session.stop()


@pytest.fixture(params=["here", pytest.param("spark", marks=pytest.mark.spark)])
def way(request: pytest.FixtureRequest) -> list[str]:
    """Arguments of a command that choose between this process and Spark."""
    if request.param == "here":
        return []
    request.getfixturevalue("spark")
    return ["--master", "local[2]"]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """A standalone Spark cluster: a master and its workers."""
    with StandaloneSpark(tmp_path_factory.mktemp("cluster")) as spark_cluster:
        yield spark_cluster


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """Log directories of a real Apache Kafka with their truth; tests must not change their
    files.
    """
    return made_corpus()


@pytest.fixture(scope="session")
def tables(spark: SparkSession, corpus: Corpus) -> Tables:
    """The tables of every stage of the corpus."""
    return Tables(spark, {stage_name: corpus.brokers(stage_name) for stage_name in STAGES})
