"""What is counted of requests, and how versions are put together for who scrapes."""

from __future__ import annotations

from tests.support.handlers import KEYS
from txnsim.errors import ErrorCode
from txnsim.metrics.requests import BITS_MAX, ApiMeter, RequestMeters
from txnsim.wire import codec

END_TXN, HEARTBEAT, PRODUCE = KEYS["EndTxn"], KEYS["Heartbeat"], KEYS["Produce"]


def counts(*bits: int) -> tuple[int, ...]:
    """How many values had 0, 1, 2 … bits."""
    return tuple(bits.count(each) for each in range(BITS_MAX + 1))


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
    assert [(one.api_key, one.requests, one.total_ns) for one in meters.totals()] == [
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
