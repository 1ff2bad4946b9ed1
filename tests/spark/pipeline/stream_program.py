"""A program that streams, and stops for ever at a point of its n-th batch, so that it can be killed
there. It prints JSON lines, as ``txnsim stream --json``.

Arguments: bootstrap, topic, directory, jars, ``half`` or ``whole``, n.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from tests.spark.pipeline.watched_sink import WatchedSink
from txnsim_spark.cli._stream import connector_config
from txnsim_spark.session import spark_session
from txnsim_spark.streaming._sink import DONE_NAME
from txnsim_spark.streaming.events import BatchWritten, StreamEvent
from txnsim_spark.streaming.options import StreamOptions
from txnsim_spark.streaming.stream import RECORDS_NAME, Stream


def options_for(
    bootstrap: str, topic: str, directory: str, *, runs_once: bool = False
) -> StreamOptions:
    """Options with small batches, so that there are many."""
    return StreamOptions(
        client={"bootstrap.servers": bootstrap},
        topics=(topic,),
        sink=f"file://{directory}/sink",
        checkpoint=f"file://{directory}/checkpoint",
        max_offsets=12,  # two transactions of four records in two partitions
        interval_ms=0,
        once=runs_once,
        program=f"txnsim txns --bootstrap-server {bootstrap}",
    )


def main(
    bootstrap: str, topic: str, directory: str, jar_list: str, point_name: str, nth: str
) -> None:
    """Stream until the process is killed."""
    numbers = iter(range(1, int(nth) + 1))

    def stand_still(batch: Path) -> None:
        if next(numbers) == int(nth):
            if point_name == "half":  # as if Spark had ended while it committed
                (batch / DONE_NAME).unlink()
                min(batch.glob("part-*")).unlink()
            say({"event": point_name})
            threading.Event().wait()

    spark = spark_session(
        "local[2]", config={"spark.driver.memory": "1g", **connector_config(jar_list)}
    )
    options = options_for(bootstrap, topic, directory)
    records_folder = Path(directory) / "sink" / RECORDS_NAME
    sink = WatchedSink(spark, records_folder, note_written=stand_still)
    stream = Stream(spark, options, tell, records_sink=sink)
    stream.start()
    stream.wait(threading.Event())


def tell(event: StreamEvent) -> None:
    """Print the events of written batches."""
    if isinstance(event, BatchWritten):
        say({"event": "batch", "batch": event.batch_id, "rows": event.row_count})


def say(value: object) -> None:
    """Print one JSON line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
