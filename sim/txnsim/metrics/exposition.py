"""Readings in Prometheus' text format, written by ``prometheus_client`` (extra ``http``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from txnsim.metrics import table
from txnsim.metrics.table import METRICS, Kind, Reading

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class _Readings(Collector):
    """Asks for the readings at each scrape."""

    def __init__(self, read: Callable[[], Iterable[Reading]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """One family per metric of the table, those without a reading too."""
        readings: dict[str, list[Reading]] = {}
        for reading in self._read():
            readings.setdefault(reading.metric, []).append(reading)
        for metric in METRICS:
            yield _family(metric, readings.get(metric.name, ()))


def _family(metric: table.Metric, readings: Iterable[Reading]) -> Metric:
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        bounds = [*map(floatToGoString, metric.bounds), "+Inf"]
        for one in readings:
            buckets = list(zip(bounds, one.counts, strict=True))
            histogram.add_metric(one.labels, buckets, one.value)
        return histogram
    family_type = GaugeMetricFamily if metric.kind is Kind.GAUGE else CounterMetricFamily
    family = family_type(metric.name, metric.meaning, labels=metric.labels)
    for one in readings:
        family.add_metric(one.labels, one.value)
    return family


def exposition(read: Callable[[], Iterable[Reading]]) -> Callable[[], bytes]:
    """A function that renders what ``read`` gives at that moment."""
    registry = CollectorRegistry()
    registry.register(_Readings(read))
    return lambda: generate_latest(registry)
