"""``python -m tests.spark.pipeline.following DIRECTORY OUT``: follows a directory until it is
killed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from txnsim_spark.log_growth import RECORD_TABLES
from txnsim_spark.session import SHORT_SESSION_CONFIG, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter


def follow(
    spark: SparkSession, directory: str, table_name: str, output: str, **options: int
) -> DataStreamWriter:
    """A streaming query that writes a table as Parquet below ``out``."""
    rows = spark.readStream.format("kafka_log").options(table=table_name, **options).load(directory)
    writer = rows.writeStream.option("checkpointLocation", f"{output}/checkpoints/{table_name}")
    if table_name in RECORD_TABLES:
        return writer.format("parquet").option("path", f"{output}/{table_name}")
    return writer.foreachBatch(
        lambda batch_frame, _: batch_frame.write.mode("overwrite").parquet(f"{output}/{table_name}")
    )


def main(directory: str, output: str) -> None:
    spark = spark_session("local[2]", app_name="following", config=SHORT_SESSION_CONFIG)
    writer = follow(spark, directory, "records", output)
    writer.trigger(processingTime="100 milliseconds").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
