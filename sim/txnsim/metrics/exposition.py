"""Writes readings in Prometheus' text format, with ``prometheus_client`` (extra ``http``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import structs
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
from txnsim.metrics.table import METRICS, MetricKind, Reading

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class _Readings(Collector):
    """Hands readings to ``prometheus_client`` as metric families."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        """Yield a family for each metric of the table, even without a reading, and one for each old
        name.
        """
        readings_by_metric: dict[str, list[Reading]] = {}
        for reading in self._readings:
            readings_by_metric.setdefault(reading.metric, []).append(reading)
        for metric in METRICS:
            for named_metric in _metric_and_old_name(metric):
                yield _metric_family(named_metric, readings_by_metric.get(metric.name, ()))


def _metric_and_old_name(metric: table.Metric) -> Iterator[table.Metric]:
    yield metric
    if metric.old_name is not None:
        meaning = f"deprecated, in milliseconds: use {metric.name}"
        yield structs.replace(metric, name=metric.old_name, meaning=meaning, divisor=1)


def _metric_family(metric: table.Metric, readings: Iterable[Reading]) -> Metric:
    if metric.kind is MetricKind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        bounds_in_unit = (round(upper_bound / metric.divisor, 9) for upper_bound in metric.bounds)
        upper_bounds = [*map(floatToGoString, bounds_in_unit), "+Inf"]
        for reading in readings:
            buckets = list(zip(upper_bounds, reading.counts, strict=True))
            histogram.add_metric(reading.labels, buckets, reading.value / metric.divisor)
        return histogram
    family_type = GaugeMetricFamily if metric.kind is MetricKind.GAUGE else CounterMetricFamily
    family = family_type(metric.name, metric.meaning, labels=metric.labels)
    for reading in readings:
        family.add_metric(reading.labels, reading.value / metric.divisor)
    return family


def exposition(readings: Iterable[Reading]) -> bytes:
    """Write the readings in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Readings(readings))
    return generate_latest(registry)
