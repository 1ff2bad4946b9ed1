from __future__ import annotations

import pytest

from txnsim.errors import BadInputError
from txnsim_spark.streaming.options import DEFAULTS, LagOptions, StreamOptions


def test_the_probe_is_given_the_same_properties_as_the_connector() -> None:
    options = StreamOptions(
        client={"bootstrap.servers": "h:1", "client.id": "me"},
        topics=("a", "b"),
        sink="s",
        checkpoint="c",
        older_than_ms=5,
    )
    probed = LagOptions.of(options.lag_options)
    assert (probed.bootstrap, probed.topics, probed.settings.client_id) == ("h:1", ("a", "b"), "me")
    assert (probed.older_than_ms, probed.interval_ms) == (5, 0)


SERVERS = {"kafka.bootstrap.servers": "h:1"}


def test_what_is_not_given_has_a_default() -> None:
    options = LagOptions.of(SERVERS)
    assert (options.bootstrap, options.topics, options.settings) == ("h:1", None, DEFAULTS)
    assert (options.older_than_ms, options.interval_ms) == (900_000, 10_000)


def test_options_are_those_of_the_connector_in_any_case() -> None:
    options = LagOptions.of(
        {
            **SERVERS,
            "SUBSCRIBE": "a, b",
            "olderthanms": "5",
            "intervalMs": "0",
            "kafka.request.timeout.ms": "7",
            "kafka.metrics.num.samples": "3",
        }
    )
    assert options.topics == ("a", "b")
    assert (options.older_than_ms, options.interval_ms) == (5, 0)
    assert options.settings.request_timeout_ms == 7


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "option kafka.bootstrap.servers is missing"),
        ({**SERVERS, "topic": "a"}, "option 'topic' is not known; there are subscribe,"),
        ({**SERVERS, "intervalMs": "soon"}, "intervalMs is 'soon', milliseconds are expected"),
        (
            {**SERVERS, "kafka.request.timeout.ms": "soon"},
            "kafka.request.timeout.ms: milliseconds are expected",
        ),
        (
            {**SERVERS, "kafka.security.protocol": "SASL_SSL"},
            "kafka.security.protocol: the mechanism GSSAPI",
        ),
    ],
)
def test_what_cannot_be_obeyed_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadInputError) as error:
        LagOptions.of(given)
    assert message in str(error.value)
