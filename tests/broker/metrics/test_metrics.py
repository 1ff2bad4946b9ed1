"""Metrics: their table, requests among them, and how they are exposed."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker_api import KEYS
from txnsim.errors import ErrorCode
from txnsim.metrics import table
from txnsim.metrics.exposition import exposition
from txnsim.metrics.requests import BITS_MAX, ApiMeter, RequestMeters
from txnsim.metrics.table import METRICS, Metric, MetricKind, Reading
from txnsim.wire import codec

# What is counted of requests, and how versions are put together for who scrapes.


END_TXN, HEARTBEAT, PRODUCE = KEYS["EndTxn"], KEYS["Heartbeat"], KEYS["Produce"]


def counts(*bits: int) -> tuple[int, ...]:
    """The expected histogram: how many of ``bits`` are 0, 1, 2 and so on."""
    return tuple(bits.count(bit_number) for bit_number in range(BITS_MAX + 1))


def test_a_request_is_counted_with_its_time_and_its_sizes() -> None:
    meters = RequestMeters()
    meters[END_TXN, 3].observe(1_000, 60, 10)
    meters[END_TXN, 3].observe(1_024, 40, 11)
    (totals,) = meters.totals()
    assert totals.api_key == END_TXN
    assert totals.requests == {3: 2}
    assert totals.total_counts == counts(10, 11)
    assert (totals.total_ns, totals.local_ns, totals.remote_ns) == (2_024, 2_024, 0)
    assert totals.remote_counts == counts(0, 0), "neither had to wait"
    assert (totals.request_bytes, totals.response_bytes) == (100, 21)


def test_what_a_request_waits_is_apart_from_its_own_work() -> None:
    meters = RequestMeters()
    meters[PRODUCE, 9].observe(100, 1, 1)
    meters[PRODUCE, 9].observe(900, 1, 1, waited_ns=600)
    (totals,) = meters.totals()
    assert totals.total_counts == counts(7, 10)
    assert totals.remote_counts == counts(0, 10)
    assert (totals.total_ns, totals.local_ns, totals.remote_ns) == (1_000, 400, 600)


def test_versions_are_counted_apart_and_timed_together() -> None:
    meters = RequestMeters()
    meters[END_TXN, 5].observe(2, 5, 1)
    meters[END_TXN, 3].observe(4, 6, 1)
    meters[HEARTBEAT, 4].observe(8, 7, 1)
    meters[PRODUCE, 9].tell_error(3)  # not answered yet
    assert [
        (totals_of_api.api_key, totals_of_api.requests, totals_of_api.total_ns)
        for totals_of_api in meters.totals()
    ] == [
        (HEARTBEAT, {4: 1}, 8),
        (END_TXN, {3: 1, 5: 1}, 6),
    ]


def test_errors_are_counted_by_their_codes_over_all_versions() -> None:
    meters = RequestMeters()
    answer = codec.build(codec.response_class(HEARTBEAT, 1), throttle_time=0, error_code=25)
    for version in (1, 4):
        meters[HEARTBEAT, version].observe(1, 1, 1)
        meters[HEARTBEAT, version].tell_errors_of(answer)
    meters[HEARTBEAT, 4].tell_error(ErrorCode.rebalance_in_progress)
    (totals,) = meters.totals()
    assert totals.errors == {25: 2, 27: 1}


def test_an_encoded_answer_is_looked_at_where_its_error_is() -> None:
    meter = RequestMeters()[END_TXN, 3]
    body = codec.encode_body(
        codec.build(codec.response_class(END_TXN, 3), throttle_time=0, error_code=-1)
    )
    meter.tell_error_in(body)
    assert meter.errors == {-1: 1}


def test_an_answer_without_any_error_code_is_none() -> None:
    meter = ApiMeter(None)
    meter.tell_errors_of(
        codec.response_schema(KEYS["DescribeQuorum"], 2).Listener(name="a", host="b", port=1)
    )
    assert meter.errors == {}


# Readings in Prometheus' text format.


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
    (metric,) = (metric for metric in METRICS if metric.name == table.REQUEST_MS)
    counts = (*(0 for _ in metric.bounds[1:]), 2, 3)
    reading = Reading(metric=table.REQUEST_MS, labels=("1", "EndTxn"), value=90_000, counts=counts)
    text = exposition([reading]).decode()
    labels = 'api="EndTxn",broker="1"'
    assert f'txnsim_request_seconds_bucket{{{labels},le="6.5536e-05"}} 0.0' in text
    assert f'txnsim_request_seconds_bucket{{{labels},le="34.359738368"}} 2.0' in text
    assert f'txnsim_request_seconds_bucket{{{labels},le="+Inf"}} 3.0' in text
    assert f"txnsim_request_seconds_count{{{labels}}} 3.0" in text
    assert f"txnsim_request_seconds_sum{{{labels}}} 90.0" in text


def test_an_old_name_is_shown_in_milliseconds_and_names_the_new_one() -> None:
    read = [
        Reading(metric=table.ACTIVE_MS, labels=("1",), value=1_500),
        Reading(metric=table.VERIFICATION_MS, labels=("1",), value=2.5),
    ]
    text = exposition(read).decode()
    assert 'txnsim_max_active_transaction_seconds{broker="1"} 1.5\n' in text
    assert 'txnsim_max_active_transaction_milliseconds{broker="1"} 1500.0\n' in text
    assert 'txnsim_verification_seconds_total{broker="1"} 0.0025\n' in text
    assert 'txnsim_verification_milliseconds_total{broker="1"} 2.5\n' in text
    assert "deprecated, in milliseconds: use txnsim_verification_seconds\n" in text


def test_shares_are_between_0_and_1() -> None:
    counts = (1,) * 11
    reading = Reading(metric=table.SHARE_FETCH_RATIO, labels=("1", "g"), value=0, counts=counts)
    text = exposition([reading]).decode()
    bounds = re.findall(r'txnsim_share_fetch_partitions_ratio_bucket.*le="([^"]+)"', text)
    assert bounds == [
        "0.0",
        "0.01",
        "0.05",
        "0.1",
        "0.25",
        "0.5",
        "0.75",
        "0.9",
        "0.99",
        "1.0",
        "+Inf",
    ]


def test_every_metric_of_the_table_is_shown_with_kind_and_meaning() -> None:
    families = {
        family.name: family for family in text_string_to_metric_families(exposition([]).decode())
    }
    for metric in METRICS:
        family = families[metric.name]
        assert family.type == metric.kind.value
        assert family.documentation == metric.meaning
        assert family.samples == []


# The table of metrics: names as Prometheus wants them, nothing twice, everything explained.


def test_no_name_is_there_twice() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_says_what_it_is(metric: Metric) -> None:
    assert re.fullmatch(r"txnsim_[a-z_]+", metric.name)
    assert not metric.name.endswith("_total"), "the exposition adds it to counters"
    assert metric.unit
    assert (metric.divisor, metric.name.rpartition("_")[2]) in {
        (1_000, "seconds"),
        (100, "ratio"),
    } or (metric.divisor == 1 and not metric.name.endswith(("seconds", "ratio", "percent", "ms")))
    assert len(metric.meaning) > 10
    assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)
    assert len(metric.advice) > 10
    assert bool(metric.bounds) == (metric.kind is MetricKind.HISTOGRAM)
    assert list(metric.bounds) == sorted(set(metric.bounds))
    assert metric.kafka is None or metric.kafka.startswith("kafka.")
    assert metric.kafka is None or metric.draft is None, "shipped, so it is no draft any more"


def test_every_constant_names_a_metric() -> None:
    constants = {
        attribute_value
        for attribute_name, attribute_value in vars(table).items()
        if attribute_name.isupper() and isinstance(attribute_value, str)
    }
    assert constants == {metric.name for metric in METRICS}
