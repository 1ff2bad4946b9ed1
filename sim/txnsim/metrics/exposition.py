"""Readings in Prometheus' text format, written by ``prometheus_client`` (extra ``http``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    """Readings as families."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        """One family per metric of the table, those without a reading too."""
        readings: dict[str, list[Reading]] = {}
        for reading in self._readings:
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


def exposition(readings: Iterable[Reading]) -> bytes:
    """Readings as text."""
    registry = CollectorRegistry()
    registry.register(_Readings(readings))
    return generate_latest(registry)
