"""Readings in Prometheus' text format."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from txnsim.metrics import table
from txnsim.metrics.exposition import exposition
from txnsim.metrics.table import METRICS, Reading


def test_gauges_and_counters_are_told_apart_and_labelled() -> None:
    readings = [
        Reading(metric=table.LSO_LAG, labels=("orders", "0"), value=3),
        Reading(metric=table.LSO_LAG, labels=("orders", "1"), value=1),
        Reading(metric=table.TIMEOUTS, labels=("1",), value=2),
    ]
    text = exposition(readings).decode()
    assert 'txnsim_last_stable_offset_lag{partition="0",topic="orders"} 3.0' in text
    assert 'txnsim_last_stable_offset_lag{partition="1",topic="orders"} 1.0' in text
    assert 'txnsim_transaction_timeouts_total{broker="1"} 2.0' in text


def test_a_histogram_has_its_buckets_their_sum_and_the_whole_number() -> None:
    (metric,) = (one for one in METRICS if one.name == table.REQUEST_MS)
    counts = (*(0 for _ in metric.bounds[1:]), 2, 3)
    reading = Reading(metric=table.REQUEST_MS, labels=("1", "EndTxn"), value=90_000, counts=counts)
    text = exposition([reading]).decode()
    labels = 'api="EndTxn",broker="1"'
    assert f'txnsim_request_milliseconds_bucket{{{labels},le="0.065536"}} 0.0' in text
    assert f'txnsim_request_milliseconds_bucket{{{labels},le="34359.738368"}} 2.0' in text
    assert f'txnsim_request_milliseconds_bucket{{{labels},le="+Inf"}} 3.0' in text
    assert f"txnsim_request_milliseconds_count{{{labels}}} 3.0" in text
    assert f"txnsim_request_milliseconds_sum{{{labels}}} 90000.0" in text


def test_every_metric_of_the_table_is_shown_with_kind_and_meaning() -> None:
    families = {
        family.name: family for family in text_string_to_metric_families(exposition([]).decode())
    }
    for metric in METRICS:
        family = families[metric.name]
        assert family.type == metric.kind.value
        assert family.documentation == metric.meaning
        assert family.samples == []
