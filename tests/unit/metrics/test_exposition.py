"""Readings in Prometheus' text format."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from sim.metrics import table
from sim.metrics.exposition import exposition
from sim.metrics.table import METRICS, Kind, Reading


def test_gauges_and_counters_are_told_apart_and_labelled() -> None:
    readings = [
        Reading(metric=table.LSO_LAG, labels=("orders", "0"), value=3),
        Reading(metric=table.LSO_LAG, labels=("orders", "1"), value=1),
        Reading(metric=table.TIMEOUTS, labels=("1",), value=2),
    ]
    text = exposition(lambda: readings)().decode()
    assert 'txnsim_last_stable_offset_lag{partition="0",topic="orders"} 3.0' in text
    assert 'txnsim_last_stable_offset_lag{partition="1",topic="orders"} 1.0' in text
    assert 'txnsim_transaction_timeouts_total{broker="1"} 2.0' in text


def test_every_metric_of_the_table_is_shown_with_kind_and_meaning() -> None:
    families = {
        family.name: family
        for family in text_string_to_metric_families(exposition(lambda: [])().decode())
    }
    for metric in METRICS:
        family = families[metric.name]
        assert family.type == ("gauge" if metric.kind is Kind.GAUGE else "counter")
        assert family.documentation == metric.meaning
        assert family.samples == []


def test_values_are_read_at_each_scrape() -> None:
    value = 0

    def read() -> list[Reading]:
        nonlocal value
        value += 1
        return [Reading(metric=table.CONNECTIONS, labels=("1",), value=value)]

    render = exposition(read)
    first, second = render().decode(), render().decode()
    assert first != second
    assert 'txnsim_connections{broker="1"} ' in second
