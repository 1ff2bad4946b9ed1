"""The Python code of docs/kafka-log.md and docs/streaming.md, run in order on two small log
directories: it prints what the pages show. An example that reads a store is left out:
test_stores.py has one.

``python -m tests.spark.pipeline.test_source_page --write`` updates the outputs in the page.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.broker_dirs import move
from tests.support.log_tables import broker_dir, replica, segment
from tests.support.logs import NOW, LogDriver, batch
from txnsim.group.log_format import encode_batch as encode_group_batch
from txnsim.group.records import ClassicGroupStored, OffsetCommitted
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage.checkpoints import encode_offsets
from txnsim.storage.names import FileName
from txnsim.txn.log_format import encode_batch
from txnsim.types import TopicPartition, TransactionVersion
from txnsim.wire.batch import ZSTD
from txnsim_spark.options import OPTION_NAMES
from txnsim_spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
PAGE: Final = DOCS / "kafka-log.md"
PAGES: Final = (PAGE, DOCS / "streaming.md")
EXAMPLE: Final = re.compile(
    r"^```python\n(?P<code>(?:(?!s3a://|sys\.argv|LagDataSource).)*?)^```\n"
    r"(?:\n```\n(?P<shown>.*?)^```\n)?",
    re.S | re.M,
)
"""Code blocks that run here; those with a store, arguments or a cluster run in other tests."""
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)


def shot(path: Path) -> None:
    """Two log directories: broker 1 has stopped in order, broker 2 was killed; a transaction of
    producer 9 is open.
    """
    for broker, is_clean in ((1, True), (2, False)):
        log_dir = broker_dir(path / f"broker-{broker}", broker=broker, is_clean=is_clean)
        driver = orders()
        replica(log_dir, driver)
        segment(
            log_dir / "payments-0", [batch(0, count=4, compression=ZSTD, record_value=b"paid")] * 2
        )
        mark_by_partition = {ORDERS: driver.log.high_watermark, PAYMENTS: 8}
        (log_dir / FileName.HIGH_WATERMARKS).write_text(encode_offsets(mark_by_partition))
    torn_log_file = path / "broker-2" / "payments-0" / f"{0:020d}.log"
    torn_log_file.write_bytes(torn_log_file.read_bytes()[:-7])
    first_dir = path / "broker-1"
    segment(first_dir / "__transaction_state-0", [transactions()])
    segment(first_dir / "__consumer_offsets-0", [offsets()])


def orders() -> LogDriver:
    driver = LogDriver()
    for number, producer_id in enumerate((7, 8, 7, 9)):
        sequence = 2 if number == 2 else 0
        time_ms = NOW + 1_000 * number
        driver.txn(
            sequence,
            producer_id=producer_id,
            count=2,
            timestamp=time_ms,
            record_value=b"order %d" % number,
        )
        driver.now = time_ms + 250
        if producer_id != 9:
            driver.end(committed=number != 1, producer_id=producer_id)
    return driver


def transactions() -> bytes:
    transitions = [
        move("Ongoing", ORDERS, name="shop", producer_id=7),
        move("PrepareCommit", ORDERS, name="shop", producer_id=7),
        move("CompleteCommit", name="shop", producer_id=7),
        move("Ongoing", ORDERS, PAYMENTS, name="billing", producer_id=9),
    ]
    return encode_batch(
        transitions,
        finalized_version=TransactionVersion.TV_2,
        now_ms=NOW,
        release_rules=LATEST_RULES,
    )


def offsets() -> bytes:
    committed_offset = OffsetCommitted(
        group_id="shippers", topic_partition=ORDERS, position=4, commit_timestamp_ms=NOW
    )
    group = ClassicGroupStored(group_id="shippers")
    return encode_group_batch(
        [group, committed_offset], now_ms=NOW, producer_id=7, producer_epoch=0
    )


def play_examples(spark: SparkSession, directory: Path) -> Iterator[tuple[re.Match[str], str]]:
    """Run the examples; returns each with its output."""
    names_defined: dict[str, object] = {"spark": spark}
    texts = [page_file.read_text("utf-8") for page_file in PAGES]
    for example in chain.from_iterable(map(EXAMPLE.finditer, texts)):
        output = io.StringIO()
        code = re.sub(r"(['\"])shot", rf"\1{directory}/shot", example["code"])
        with contextlib.redirect_stdout(output):
            exec(compile(code, str(PAGE), "exec"), names_defined)
        yield example, re.sub(r"\n+\Z", "\n", output.getvalue())


@pytest.mark.nightly  # Spark takes it half a minute and more
def test_every_example_prints_what_the_page_shows(spark: SparkSession, tmp_path: Path) -> None:
    shot(tmp_path / "shot")
    examples = list(play_examples(spark, tmp_path))
    assert len(examples) > 5
    for example, output in examples:
        assert (example["shown"] or "") == output, (
            "python -m tests.spark.pipeline.test_source_page --write"
        )


def test_every_option_is_on_the_page() -> None:
    page_text = PAGE.read_text("utf-8")
    assert [
        option_name for option_name in OPTION_NAMES if f"| `{option_name}` |" not in page_text
    ] == []


def _rewrite_page(page_text: str, examples: Mapping[str, str]) -> str:
    def rewrite_block(example: re.Match[str]) -> str:
        output = examples[example["code"]]
        output_block = f"\n```\n{output}```\n" if output else ""
        return f"```python\n{example['code']}```\n{output_block}"

    return EXAMPLE.sub(rewrite_block, page_text)


def _write() -> None:
    with tempfile.TemporaryDirectory() as name:
        shot(Path(name) / "shot")
        spark = spark_session("local[2]", config={"spark.driver.memory": "1g"})
        examples = {example["code"]: output for example, output in play_examples(spark, Path(name))}
        spark.stop()
    for page_file in PAGES:
        page_file.write_text(_rewrite_page(page_file.read_text("utf-8"), examples), "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: python -m {os.path.basename(__file__)} --write")
    _write()
