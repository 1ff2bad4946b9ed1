"""The source of probes as Spark calls it, without Spark running."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import InputPartition

from txnsim.runtime.wall_clock import wall_ms
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim_spark.streaming import lag_source
from txnsim_spark.streaming._alerts import step
from txnsim_spark.streaming._lag_probe import HeldBy, PartitionLag
from txnsim_spark.streaming.lag_source import LAG, LagReader
from txnsim_spark.streaming.options import LagOptions


def test_a_batch_that_is_repeated_after_a_crash_has_the_time_of_its_own_probe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began_ms = wall_ms()
    row = PartitionLag(
        topic="orders",
        partition=0,
        last_stable_offset=3,
        high_watermark=5,
        held_by=(
            HeldBy(
                producer_id=7,
                producer_epoch=0,
                start_offset=3,
                last_timestamp_ms=began_ms,
                verdict=OpenTxnStatus.HANGING,
                reason="no coordinator knows it",
            ),
        ),
    )

    async def probe(_options: LagOptions) -> tuple[PartitionLag, ...]:
        return (row,)

    monkeypatch.setattr(lag_source, "_probe", probe)
    reader = LagReader(LagOptions.of({"kafka.bootstrap.servers": "127.0.0.1:1"}))
    planned_ms = began_ms - 3_600_000  # the stream was down for an hour; the transaction is new
    (found,) = reader.read(InputPartition(planned_ms))
    at_ms = dict(zip(LAG.names, found, strict=True))["probed_at_ms"]
    (raised,) = step((), [row], at_ms=at_ms, program="txnsim txns").events
    assert raised.since_ms >= began_ms
