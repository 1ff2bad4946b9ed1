"""The table of metrics: names as Prometheus wants them, nothing twice, everything explained."""

from __future__ import annotations

import re

import pytest

from txnsim.metrics import table
from txnsim.metrics.table import METRICS, Kind, Metric


def test_no_name_is_there_twice() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_says_what_it_is(metric: Metric) -> None:
    assert re.fullmatch(r"txnsim_[a-z_]+", metric.name)
    assert not metric.name.endswith("_total"), "the exposition adds it to counters"
    assert metric.unit
    assert len(metric.meaning) > 10
    assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)
    assert len(metric.advice) > 10
    assert bool(metric.bounds) == (metric.kind is Kind.HISTOGRAM)
    assert list(metric.bounds) == sorted(set(metric.bounds))
    assert metric.kafka is None or metric.kafka.startswith("kafka.")
    assert metric.kafka is None or metric.draft is None, "shipped, so it is no draft any more"


def test_every_constant_names_a_metric() -> None:
    constants = {
        value for name, value in vars(table).items() if name.isupper() and isinstance(value, str)
    }
    assert constants == {metric.name for metric in METRICS}
