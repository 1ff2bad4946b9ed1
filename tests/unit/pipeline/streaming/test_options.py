from __future__ import annotations

from txnsim.pipeline.streaming.lag_options import LagOptions
from txnsim.pipeline.streaming.options import StreamOptions


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
